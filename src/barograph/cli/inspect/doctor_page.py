"""What `barograph doctor` prints."""

from __future__ import annotations

from rich.text import Text

from barograph.cli.opening import explain_absence, place_called, store_at
from barograph.cli.printing import Printer
from barograph.errors import NotARun, StoreDenied
from barograph.runs.reading.doctor import Diagnosis, examine
from barograph.watch.figures import count, size

_SHOWN = 20
"""Most sentences of one sort that are printed; JSON has all."""

_HARMS = (("damaged", "red"), ("missing", "red"), ("dropped", "yellow"))
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
    """Print what is wrong with the run at `place`; return whether it is whole.

    Raises:
        NotARun: There is none.
        NewerFormat, StoreError: It cannot be read.
    """
    store = store_at(place)
    try:
        diagnosis = examine(store)
    except (NotARun, StoreDenied):
        named = place_called(place)
        if named is None:
            explain_absence(place, store)
            raise
        diagnosis = examine(store_at(named))
    printer = Printer()
    if as_json:
        printer.json(diagnosis.to_json())
    else:
        _print(printer, diagnosis)
    return diagnosis.whole


def _print(printer: Printer, diagnosis: Diagnosis) -> None:
    printer.line(_verdict(diagnosis))
    printer.entries([
        ("place", diagnosis.url),
        ("read", ", ".join([
            count(diagnosis.chunks, "file") + " of records", count(diagnosis.tensors, "file") + " of tensors",
            count(diagnosis.workers, "worker"), size(diagnosis.size_bytes),
        ])),
    ])
    for name, style in (*_HARMS, *((name, "dim") for name in _REMARKS)):
        sentences: list[str] = getattr(diagnosis, name)
        if sentences:
            printer.heading(name, Text(_MEANINGS[name], "dim"))
            printer.lines([Text.assemble(("· ", style), sentence) for sentence in sentences], _SHOWN)


def _verdict(diagnosis: Diagnosis) -> Text:
    if diagnosis.whole and not diagnosis.workers:
        return Text.assemble(("whole", "bold green"), ", and empty: no process has recorded anything yet.")
    if diagnosis.whole:
        going_on = any("is running" in sentence for sentence in diagnosis.unended)
        return Text.assemble(("whole", "bold green"), " so far: the run is still running." if going_on else
                             ": every recorded file is present and readable.")
    counts = [f"{len(getattr(diagnosis, name))} {name}" for name, _ in _HARMS if getattr(diagnosis, name)]
    return Text.assemble(("not intact", "bold red"), f": {', '.join(counts)}.")
