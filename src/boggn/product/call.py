"""A script of its own: calls a Python function with the parameters of a trial and writes down what it returns.

    python -P call.py folder module:function

It is run by its path, and takes only the standard library, so that a trial does not wait for imports it does not need.
"""

import importlib
import json
import operator
import os
import sys
from pathlib import Path


def main() -> None:
    """Call the function; an exception is left to end the process, as it would end any script."""
    folder, target = sys.argv[1:]
    sys.argv[1:] = []
    sys.path.insert(0, folder)
    module, _, name = target.partition(":")
    function = operator.attrgetter(name)(importlib.import_module(module))
    parameters = json.loads(Path(os.environ["BOGGN_PARAMETERS"]).read_text(encoding="utf-8"))
    value = function(parameters)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    numbers = [each.item() if hasattr(each, "item") else each for each in values]  # of NumPy, JAX or PyTorch
    Path(os.environ["BOGGN_RESULT"]).write_text(json.dumps({"returned": numbers}, default=repr), encoding="utf-8")


if __name__ == "__main__":
    main()
