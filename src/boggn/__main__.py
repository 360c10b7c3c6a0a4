"""`boggn` and `python -m boggn`: the command line, or a word on what it needs."""

import sys


def main() -> None:
    """Hand over to the command line, whose packages are an extra."""
    try:
        from boggn import cli
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"boggn: the command line needs the package {error.name!r}: install the extra `boggn[cli]`.")
    cli.main()


if __name__ == "__main__":
    main()
