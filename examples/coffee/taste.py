"""An experiment by hand: asks for some cups of coffee, waits for their marks, and tells them.

    python examples/coffee/taste.py             # type a mark from 0 to 10, or nothing for a cup that went wrong
    python examples/coffee/taste.py --simulate  # somebody with a simple taste drinks them

It speaks to boggn by its command line alone, as a program in any language can. Stop it at any time: cups that were
asked for and not marked are shown again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

STUDY = Path(__file__).with_name("study.toml")


def boggn(*arguments: str, say: object = None) -> Any:
    """A command of boggn's: JSON in, JSON out."""
    words = [sys.executable, "-m", "boggn", *arguments]
    done = subprocess.run(words, input=json.dumps(say), stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return json.loads(done.stdout)


def simulated(cup: dict[str, Any]) -> str:
    """The mark of somebody who likes Sidamo, ground at 8, at 93 degrees and 27 seconds."""
    off = ((cup["grind"] - 8) / 6) ** 2 + ((cup["temperature"] - 93) / 5) ** 2 + ((cup["seconds"] - 27) / 8) ** 2
    return f"{max(0.0, 10.0 - 2.0 * off - (cup['beans'] != 'Sidamo')):.2f}"


def main() -> None:
    """One round: some cups, and their marks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cups", type=int, default=4, help="cups of a round (4)")
    parser.add_argument("--study", type=Path, default=STUDY, help="the study file (beside this script)")
    parser.add_argument("--simulate", action="store_true", help="nobody drinks them")
    arguments = parser.parse_args()
    study = str(arguments.study)
    cups = boggn("ask", study, "--open") or boggn("ask", study, "--n", str(arguments.cups))
    outcomes = []
    for cup in cups:
        print(f"Cup {cup['trial']}: " + ", ".join(f"{name} {value}" for name, value in cup["parameters"].items()))
        mark = simulated(cup["parameters"]) if arguments.simulate else input("  mark: ").strip()
        outcomes.append({"trial": cup["trial"], **({"value": float(mark)} if mark else {"failed": "spoilt"})})
        print(f"  {mark or 'spoilt'}")
    told = boggn("tell", study, say=outcomes)
    print(f"{sum(each['new'] for each in told)} told.")


if __name__ == "__main__":
    main()
