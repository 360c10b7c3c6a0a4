"""What all tests share."""

import os

from hypothesis import HealthCheck, settings

# A shared machine is slow at times, and that is no failure. In continuous integration the examples are the same each
# time: what is found there must be found again.
settings.register_profile(
    "boggn",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    derandomize="CI" in os.environ,
)
settings.load_profile("boggn")
