"""The paper's figures, made anew from our own runs: `boggn paper fig1 --out FOLDER`."""

from boggn.paper.figure import NAMES, Size, fitting, make

__all__ = ["NAMES", "Size", "fitting", "make"]
