"""Origin of a run as printed by `barograph show`; `--json` has all of it."""

from __future__ import annotations

import sys

from barograph.cli.printing import Cell
from barograph.model.one_line import shown_lines
from barograph.model.origin import Code, Origin
from barograph.watch.figures import count

_MOST_SHOWN = 8


def print_origin_damage(problem: str) -> None:
    """Print an error if the code and environment of a run cannot be read."""
    if problem:
        print(f"barograph: the code and environment of this run cannot be read. {shown_lines(problem)}",
              file=sys.stderr)


def origin_facts(origin: Origin) -> list[tuple[str, Cell]]:
    """Return pairs of a name and a line."""
    facts: list[tuple[str, Cell]] = [("code", _code(origin.code) if origin.code else "not saved")]
    if origin.code and origin.code.left_out:
        facts.append(("left out", _some([f"{item.what} ({item.why})" for item in origin.code.left_out])))
    facts.append(("python", _python(origin)))
    if origin.parameters:
        facts.append(("parameters", _some([f"{name}={value}" for name, value in origin.parameters.items()])))
    if origin.seeds:
        facts.append(("seeds", _some([f"{name}={value}" for name, value in origin.seeds.items()])))
    machine = origin.hardware
    parts = [origin.host, machine.processor, count(machine.cores, "core") if machine.cores else "",
             f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else "", *machine.gpus]
    facts.append(("machine", ", ".join(part for part in parts if part) or "unknown"))
    if origin.data:
        more = f", {origin.data_uncounted:,} more" if origin.data_uncounted else ""
        facts.append(("data", f"{count(len(origin.data), 'file')} opened{more}: "
                              + _some([file.path for file in origin.data], most=3)))
    if origin.derived_from:
        facts.append(("rerun of", origin.derived_from))
    if origin.problems:
        facts.append(("unknown", " ".join(origin.problems)))
    return facts


def _code(code: Code) -> str:
    where = f"{code.branch} " if code.branch else ""
    commit = code.commit[:12] or "no commit yet"
    changed = ", with uncommitted changes" if code.dirty else ""
    remote = f", {code.remote}" if code.remote else ""
    return f"{where}{commit}{changed}{remote}"


def _python(origin: Origin) -> str:
    if not origin.interpreter:
        return "unknown"
    return f"{origin.python_version}, {count(len(origin.packages), 'package')} ({origin.interpreter})"


def _some(texts: list[str], *, most: int = _MOST_SHOWN) -> str:
    more = f", and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
