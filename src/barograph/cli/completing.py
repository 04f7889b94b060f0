"""Shell completion of runs, rules and experiments, without reading runs."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import barograph

_MANIFEST = "run.json"
_MOST = 200
_DATABASE = "catalog.sqlite"
_CLASS = re.compile(r'^    code: ClassVar\[str\] = "(\w+)"\n    name: ClassVar\[str\] = "([\w-]+)"', re.MULTILINE)
_ZSH_END = "compdef %(complete_func)s %(prog_name)s"
_ZSH_MENDED = f"""if [[ $funcstack[1] == _%(prog_name)s ]]; then
  %(complete_func)s "$@"
else
  {_ZSH_END}
fi"""
_CATALOG_QUERY = "SELECT name FROM items WHERE kind = 'experiment' AND deleted_unix IS NULL AND archived = 0 LIMIT 200"


def complete_words_of(command: Any) -> None:
    """Add completion to a command and its subcommands."""
    for below in getattr(command, "commands", {}).values():
        complete_words_of(below)
    for parameter in command.params:
        complete = _COMPLETERS.get(f"{command.name} {parameter.name}") or _COMPLETERS.get(parameter.name)
        if complete is not None and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = _as_items(complete)


def mend_zsh_script() -> None:
    """Let Typer's script for zsh complete at the first Tab of a shell, too.

    Zsh runs a script in its `fpath` at the first Tab, as the function that completes. Typer's only defines that
    function then.
    """
    from typer import _completion_shared

    scripts: dict[str, str] = getattr(_completion_shared, "_completion_scripts", {})  # private: it may go
    if "zsh" in scripts:
        scripts["zsh"] = scripts["zsh"].rstrip().replace(_ZSH_END, _ZSH_MENDED)


def runs_beginning(word: str) -> list[str]:
    """Return paths of runs, and folders above them, with this prefix; and names of runs in the default root."""
    above, _, _ = word.rpartition("/")
    folder = Path(above) if above or not word.startswith("/") else Path("/")
    found = [_typed(word, entry) for entry in _folders(folder) if _typed(word, entry).startswith(word)]
    if "/" not in word:
        root = Path(os.environ.get("BAROGRAPH_ROOT") or "barograph-runs")
        found += [entry.name for entry in _folders(root) if entry.name.startswith(word) and _is_run(entry)]
    return found[:_MOST]


def rules_beginning(words: str) -> list[str]:
    """Return names and codes of built-in rules with this prefix; in a comma-separated list, the last entry counts."""
    before, comma, word = words.rpartition(",")
    return [f"{before}{comma}{name}" for name in sorted(_rules()) if name.lower().startswith(word.lower())]


def experiments_beginning(word: str) -> list[str]:
    """Return names of experiments of the default root with this prefix, if its catalog is a file."""
    root = Path(os.environ.get("BAROGRAPH_ROOT") or "barograph-runs")
    file = root / ".catalog" / _DATABASE
    if not os.path.isfile(file):
        return []
    with contextlib.suppress(sqlite3.Error), contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as database:
        return [name for (name,) in database.execute(_CATALOG_QUERY) if name.startswith(word)]
    return []


def _rules() -> Iterator[str]:
    """Yield codes and names of rules by parsing their files: importing them would take too long for completion."""
    folder = Path(barograph.__path__[0]) / "rules"
    for file in sorted(folder.glob("*.py")):
        for code, name in _CLASS.findall(file.read_text(encoding="utf-8")):
            yield name
            yield code


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    return sorted(found, key=lambda path: path.name, reverse=True)


def _typed(word: str, folder: Path) -> str:
    above = word[: word.rfind("/") + 1]
    return f"{above}{folder.name}{'' if _is_run(folder) else '/'}"


def _is_run(folder: Path) -> bool:
    return os.path.isfile(folder / _MANIFEST)  # unlike `Path.is_file`, does not raise in unreadable folders


def _as_items(complete: Callable[[str], list[str]]) -> Callable[[Any, Any, str], list[Any]]:
    def items(context: Any, parameter: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in complete(incomplete)]

    return items


_COMPLETERS: dict[str, Callable[[str], list[str]]] = {
    "run": runs_beginning, "other": runs_beginning, "names": runs_beginning, "against": runs_beginning,
    "mark target": runs_beginning, "lineage target": runs_beginning, "place": runs_beginning,
    "rules": rules_beginning, "rule": rules_beginning, "capsule_on": rules_beginning,
    "experiment": experiments_beginning, "experiments name": experiments_beginning,
}
"""Completers by parameter, or by command and parameter."""
