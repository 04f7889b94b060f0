"""Docstrings describe the arguments and attributes that exist."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "barograph"


def test_every_described_argument_and_attribute_exists() -> None:
    assert [f"{path.relative_to(SOURCES)} {found}" for path in sorted(SOURCES.rglob("*.py"))
            if "node_modules" not in path.parts for found in strangers(path.read_text(encoding="utf-8"))] == []


def test_a_renamed_argument_and_a_renamed_field_are_found() -> None:
    source = textwrap.dedent('''
        def read(path, *rest):
            """Return it.

            Args:
                path, rest: Places.
                name: Its name.

            Returns:
                nothing: Never.
            """

        class Row:
            """A row.

            Attributes:
                size: Its size,
                  and more: of it.
                told: Its words.
            """

            size: int
        ''')
    assert list(strangers(source)) == ["read: name", "Row: told"]


def strangers(source: str) -> Iterator[str]:
    """Yield the names in sections Args and Attributes that their function or class does not have."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (f"{node.name}: {name}" for name in described(node, "Args") if name not in arguments(node))
        elif isinstance(node, ast.ClassDef):
            known = names_in(node)
            yield from (f"{node.name}: {name}" for name in described(node, "Attributes") if name not in known)
            taken = {name for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"
                     for name in arguments(item)}
            yield from (f"{node.name}: {name}" for name in described(node, "Args") if taken and name not in taken)


def described(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, section: str) -> list[str]:
    found = re.search(rf"^{section}:\n((?: .*\n?|\n)+)", ast.get_docstring(node) or "", re.MULTILINE)
    lines = [line for line in found[1].splitlines() if line.strip()] if found else []
    indent = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    heads = [match[1] for line in lines if (match := re.match(rf" {{{indent}}}(\w[\w, *]*?):(?:\s|$)", line))]
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {item.arg for item in ast.walk(node.args) if isinstance(item, ast.arg)}


def names_in(node: ast.ClassDef) -> set[str]:
    found = {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            found.add(item.name)
        elif isinstance(item, ast.AnnAssign | ast.Assign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found
