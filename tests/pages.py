"""The documents as tests see them: pages, their blocks of code, their sections and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md",
    ROOT / "examples" / "README.md", ROOT / "src" / "barograph" / "runs" / "format" / "FORMAT.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)

_BLOCK = re.compile(r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
                    re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block. `why_not_run` is "" where it is to be run; `line` is that of its first line."""

    language: str
    text: str
    line: int
    why_not_run: str


@dataclass(frozen=True)
class Command:
    """A line of a console block that begins with "$ ", and what the page says it prints ("" where it does not)."""

    text: str
    output: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["language"], match["text"], text.count("\n", 0, match.start("text")) + 1, match["why"] or "")
        for match in _BLOCK.finditer(text)
    ]


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines()):
        if line.startswith("$ "):
            found.append(Command(line[2:], "", block.line + number))
        elif found:
            found[-1] = Command(found[-1].text, found[-1].output + line + "\n", found[-1].line)
    return found


def links(page: Path) -> list[str]:
    return _LINK.findall(_without_code(page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made for people who read it on the web."""
    headings = _HEADING.findall(_without_code(page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(page: Path, heading: str) -> str:
    """Return what stands below a heading, up to the next one of its level; "" where there is no such heading."""
    _, found, rest = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0] if found else ""


def _without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", text))
