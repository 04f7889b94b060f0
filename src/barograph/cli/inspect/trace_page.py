"""Output of `barograph trace`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Column, Printer
from barograph.queries.trace import Seen, data_of_step, data_sets, parting_to_json, seen_name, seen_sample
from barograph.runs.format.traced import TracedBatch
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.trace import NO_TRACE, Parting, Trace
from barograph.watch.figures import count
from barograph.watch.wording import shown

_MOST_ON_TERMINAL = 16
"""Samples printed per batch on a terminal."""

_STEP, _PASS = Column("step", right=True), Column("pass", right=True, spare=2)
_WHOSE = (Column("optimizer", spare=4), Column("worker", spare=3))
_BATCHES = (_STEP, *_WHOSE, _PASS, Column("data", spare=1), Column("size", right=True), Column("samples", prose=True))
_SEEN = (_STEP, *_WHOSE, _PASS, Column("data", spare=1), Column("row", right=True), Column("sample", right=True),
         Column("name", prose=True))
_KNOWN = (Column("data"), Column("worker"), Column("samples", right=True), Column("passes", right=True),
          Column("batches", right=True), Column("steps", right=True), Column("named", right=True))
_PARTED = (Column("run"), *_BATCHES)


def print_step(place: str, step: int, before: int, *, as_json: bool) -> None:
    """Print the samples of a step and of the steps before it.

    Raises:
        UnknownStep: The step's data was not recorded.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run, trace, printer = _opened(place)
    found = data_of_step(trace, step, before=before)
    if as_json:
        printer.json(found.to_json())
    else:
        printer.table(_BATCHES, [_row(printer, batch) for batch in found.batches])
        if found.named:
            printer.heading(f"Step {step}")
            printer.table(_SEEN, [row for batch in found.named for row in _sample_rows(batch, range(batch.count))])
    _end(run, trace, place)


def print_sample(place: str, sample: str, *, as_json: bool) -> None:
    """Print the steps that used a sample; raises like `print_step`, except for the step."""
    run, trace, printer = _opened(place)
    seen = seen_sample(trace, sample)
    none = f"No recorded step used sample {shown(sample)}."
    if seen.is_name:
        none = f"{none} To search by name: --file {shown(sample)}"
    _print_seen(printer, seen, none, as_json=as_json)
    _end(run, trace, place)


def print_file(place: str, name: str, *, as_json: bool) -> None:
    """Print the steps that used samples with a name.

    Raises:
        UnknownName: No sample has that name.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run, trace, printer = _opened(place)
    _print_seen(printer, seen_name(trace, name), f"No recorded step used {shown(name)}.", as_json=as_json)
    _end(run, trace, place)


def print_parting(place: str, other_place: str, *, as_json: bool) -> bool:
    """Print where the data of two runs first differs; return whether it does.

    Raises:
        NotARun, NewerFormat, DamagedChunk, StoreError: One of them cannot be read.
    """
    run, trace, printer = _opened(place)
    other_run, other, _ = _opened(other_place)
    parting = trace.parting(other)
    if as_json:
        printer.json(parting_to_json(parting))
    else:
        printer.line(_verdict(parting, place, other_place))
        if parting.step is not None:
            printer.table(_PARTED, [[shown(where), *_row(printer, batch)] for where, batches in (
                (place, parting.one), (other_place, parting.other)) for batch in batches])
    _end(run, trace, place)
    _end(other_run, other, other_place)
    return parting.step is not None


def print_known(place: str, *, as_json: bool) -> None:
    """Print data sets, passes and steps; raises like `print_parting`."""
    run, trace, printer = _opened(place)
    found = data_sets(trace)
    known = found.known
    if as_json:
        printer.json(found.to_json())
    elif not known:
        printer.line(NO_TRACE)
    else:
        printer.table(_KNOWN, [
            [shown(item.loader), item.worker, "" if item.size is None else f"{item.size}", f"{item.passes}",
             f"{item.batches}", f"{item.first_step} to {item.last_step}", f"{item.names}"] for item in known])
        last = known[-1].last_step
        printer.line(f"Data of one step:  barograph trace {shown(place)} --step {last}")
    _end(run, trace, place)


def _opened(place: str) -> tuple[RunReader, Trace, Printer]:
    run = run_at(place)
    return run, run.trace(), Printer()


def _end(run: RunReader, trace: Trace, place: str) -> None:
    print_damage(run, place)
    if trace.dropped_batches:
        print(f"barograph: {trace.dropped_batches} batches were not recorded, because the store was too "
              "slow.", file=sys.stderr)


def _print_seen(printer: Printer, seen: Seen, none: str, *, as_json: bool) -> None:
    if as_json:
        printer.json(seen.to_json())
    elif not seen.batches:
        printer.line(none)
    else:
        printer.table(_SEEN, [row for item in seen.batches for row in _sample_rows(item.batch, item.rows)])


def _whose(batch: TracedBatch) -> list[str]:
    return [f"{batch.step}", shown(batch.optimizer), batch.worker, f"{batch.pass_number}", shown(batch.loader)]


def _row(printer: Printer, batch: TracedBatch) -> list[str]:
    samples = batch.samples
    some = samples[:_MOST_ON_TERMINAL] if printer.on_terminal else samples
    more = f", … {len(samples) - len(some)} more" if len(some) < len(samples) else ""
    return [*_whose(batch), f"{batch.count}", ", ".join(some) + more]


def _sample_rows(batch: TracedBatch, rows: Sequence[int]) -> list[list[str]]:
    samples = batch.samples
    return [[*_whose(batch), f"{row}", samples[row], shown(batch.names[row])] for row in rows]


def _verdict(parting: Parting, place: str, other: str) -> str:
    if parting.step is not None:
        before = f"{count(parting.same_steps, 'step')} before it used the same data." if parting.same_steps else ""
        return f"The data of the two runs first differs at step {parting.step}. {before}".rstrip()
    if not parting.same_steps:
        return "The runs have no step in common with recorded data."
    longer = {"one": f" {shown(place)} has more steps.", "other": f" {shown(other)} has more steps.",
              "": ""}[parting.only]
    return f"The data of the two runs is the same in all {count(parting.same_steps, 'common step')}.{longer}"
