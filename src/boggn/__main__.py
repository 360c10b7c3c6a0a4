"""`boggn` and `python -m boggn`: the command line, or a word on what it needs."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Hand over to the command line, whose packages are an extra."""
    # Also while they are imported, and where libraries would swallow the exception that Python makes of Ctrl-C.
    signal.signal(signal.SIGINT, _leave)
    try:
        from boggn import cli
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"boggn: the command line needs the package {error.name!r}: install the extra `boggn[cli]`.")
    cli.main()


def _leave(number: int, frame: FrameType | None) -> None:
    del number, frame
    os.write(2, b"\nInterrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
