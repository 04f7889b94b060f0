"""Writes the pages of the built-in rules: `python -m barograph.rules.pages DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

from barograph.rules import symptoms
from barograph.rules.builtin import RULES
from barograph.rules.page import file_name, index_from_rules, markdown_from_rule


def pages() -> dict[str, str]:
    """Return the pages of all built-in rules and the two indexes, by file name."""
    made = {file_name(rule_class): f"{markdown_from_rule(rule_class)}\n{symptoms.symptoms_section(rule_class.code)}"
            for rule_class in RULES}
    return {"README.md": index_from_rules(RULES), symptoms.FILE_NAME: symptoms.index_by_symptom(RULES), **made}


def write_pages(directory: Path) -> list[str]:
    """Write the pages, delete those of removed rules, and return the names of changed files."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    # Delete only files named like rule pages: the directory may be the wrong one.
    stale = [path for path in directory.glob("[A-Z][0-9][0-9][0-9]-*.md") if path.name not in wanted]
    for path in stale:
        path.unlink()
    changed = [name for name, text in wanted.items()
               if not (directory / name).exists() or (directory / name).read_text(encoding="utf-8") != text]
    for name in changed:
        (directory / name).write_text(wanted[name], encoding="utf-8")
    return sorted([*changed, *(path.name for path in stale)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m barograph.rules.pages DIRECTORY")
    for changed_name in write_pages(Path(sys.argv[1])):
        print(changed_name)
