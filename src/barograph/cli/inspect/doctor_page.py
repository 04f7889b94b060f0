"""Output of `barograph doctor`."""

from __future__ import annotations

from rich.text import Text

from barograph.cli.opening import explain_absence, place_called, store_at
from barograph.cli.printing import Printer
from barograph.errors import NotARun, StoreDenied
from barograph.queries.doctor import HARMS, Checkup, checkup_of
from barograph.watch.figures import count, size

_SHOWN = 20
"""Lines printed per section; JSON has all."""

_HARMS = dict(zip(HARMS, ("red", "red", "yellow"), strict=True))
_REMARKS = ("unended", "problems", "removed", "foreign", "leftover")
_MEANINGS = {
    "damaged": "the bytes differ from those written; everything else is readable",
    "missing": "recorded or published, but missing",
    "dropped": "never published",
    "unended": "workers that did not record how they ended",
    "problems": "reported by the workers themselves",
    "removed": "removed by retention settings",
    "foreign": "not part of a run; ignored",
    "leftover": "left by a process that died while writing them; harmless",
}


def print_diagnosis(place: str, *, as_json: bool) -> bool:
    """Print damage and missing parts of the run at `place`; return whether it is intact.

    Raises:
        NotARun: There is no run at `place`.
        NewerFormat, StoreError: The run cannot be read.
    """
    store = store_at(place)
    try:
        found = checkup_of(store)
    except (NotARun, StoreDenied):
        named = place_called(place)
        if named is None:
            explain_absence(place, store)
            raise
        found = checkup_of(store_at(named))
    printer = Printer()
    if as_json:
        printer.json(found.to_json())
    else:
        _print(printer, found)
    return found.intact


def _print(printer: Printer, found: Checkup) -> None:
    diagnosis, (word, rest) = found.diagnosis, found.verdict
    printer.line(Text.assemble((word, "bold green" if found.intact else "bold red"), rest))
    printer.entries([
        ("place", diagnosis.url),
        ("read", ", ".join([
            count(diagnosis.chunks, "file") + " of records", count(diagnosis.tensors, "file") + " of tensors",
            count(diagnosis.workers, "worker"), size(diagnosis.size_bytes),
        ])),
    ])
    for name, style in (*_HARMS.items(), *((name, "dim") for name in _REMARKS)):
        sentences: list[str] = getattr(diagnosis, name)
        if sentences:
            printer.heading(name, Text(_MEANINGS[name], "dim"))
            printer.lines([Text.assemble(("· ", style), sentence) for sentence in sentences], _SHOWN)
