"""The project's Markdown: its files, Python blocks, links and headings."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FENCED = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def files() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def python_blocks(path: Path) -> list[str]:
    return _PYTHON.findall(path.read_text(encoding="utf-8"))


def links(path: Path) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", path.read_text(encoding="utf-8")))
    return [target or image for target, image in _LINK.findall(prose)]


def anchors(path: Path) -> set[str]:
    """The fragments of a file's headings, made as forges make them."""
    headings = _HEADING.findall(_FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
