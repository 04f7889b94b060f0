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
    "damaged": "bytes are not those that were written; whatever else there is still reads",
    "missing": "was recorded or published, and is not there",
    "dropped": "was never published",
    "unended": "workers that have not said their last word",
    "problems": "what the workers themselves reported",
    "removed": "went because the settings limit what is kept",
    "foreign": "objects that are no part of a run, and are passed over",
    "leftover": "files left by a process that died before it had finished with them; harmless",
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
        return Text.assemble(("whole", "bold green"), ", and empty: no process has recorded anything in it yet.")
    if diagnosis.whole:
        going_on = any("is running" in sentence for sentence in diagnosis.unended)
        return Text.assemble(("whole", "bold green"), " so far: the run goes on." if going_on else
                             ": everything that was recorded is there and reads back right.")
    counts = [f"{len(getattr(diagnosis, name))} {name}" for name, _ in _HARMS if getattr(diagnosis, name)]
    return Text.assemble(("not whole", "bold red"), f": {', '.join(counts)}.")
