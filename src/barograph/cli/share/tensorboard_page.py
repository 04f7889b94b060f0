"""Output of `barograph export tensorboard`."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.text import Text

from barograph.cli.interrupts import Interrupts
from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Printer, console_on
from barograph.cli.progress_bar import progress
from barograph.errors import ExportError, StoreUnavailable
from barograph.export.tensorboard import Exported, export_tensorboard
from barograph.export.tensorboard_following import TensorboardFollower
from barograph.model.clock import Clock, SystemClock
from barograph.model.one_line import shown_lines
from barograph.runs.reading.reader import AWAY_SECS, RunReader
from barograph.watch.figures import count

DEFAULT_ROOT = "tensorboard"
"""Default output folder, below the working directory."""

FOLLOW_SECS = 5.0
"""Seconds between updates with --follow; TensorBoard reloads as often."""


def export_and_print(place: str, out: Path | None, *, as_json: bool) -> None:
    """Write the run at `place` as event files and print what they contain.

    Raises:
        ExportError: The folder has other events, or the run has nothing to export.
        StoreDenied: The folder cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = run_at(place)
    with progress("writing") as on_progress:
        exported = export_tensorboard(run, out or _usual_place(run), on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json({**exported.to_json(), "damage": run.damage})
    else:
        _print(printer, exported)
    print_damage(run, place)


def follow_and_print(
    place: str, out: Path | None, *, every_secs: float, as_json: bool, wait: Callable[[float], object] = time.sleep,
    clock: Clock | None = None,
) -> bool:
    """Write the run at `place` as event files until it ends; return whether it was interrupted.

    Args:
        place, out, as_json: Options of the command.
        every_secs: Seconds between updates.
        wait: Sleeps for some seconds.
        clock: Clock for timeouts of workers and of the store.

    Raises:
        ExportError: The folder has other events, another process exports the run to it, or the run has ended with
            nothing to export.
        StoreDenied, StoreFull: The folder cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    clock = clock or SystemClock()
    run = run_at(place)
    out = out or _usual_place(run)
    printer = Printer()
    if not as_json:
        printer.line(f"following {run.url} into {out}; Ctrl-C stops the export, not the training. To view: "
                     f"tensorboard --logdir {out}")
    interrupts = Interrupts(ignored=False)
    with contextlib.closing(TensorboardFollower(run, out, clock=clock)) as follower:
        with interrupts, _state_line() as tell:
            try:
                _follow(follower, interrupts, tell, clock, lambda: wait(every_secs))
            except KeyboardInterrupt:
                interrupts.came = True
        exported, damage = follower.exported, follower.damage
    if not exported.folders and not interrupts.came:
        raise ExportError(f"The run has nothing to show in TensorBoard ({run.url}).")
    if as_json:
        printer.json({**exported.to_json(), "damage": damage, "interrupted": interrupts.came})
    else:
        _print(printer, exported)
        if interrupts.came:
            printer.line("Interrupted before the run ended. Run the command again to continue where it stopped.")
    for text in damage:
        print(f"barograph: {shown_lines(text)}", file=sys.stderr)
    return interrupts.came


def _follow(
    follower: TensorboardFollower, interrupts: Interrupts, tell: Callable[[str], object], clock: Clock,
    wait: Callable[[], object],
) -> None:
    seen_at = clock.monotonic()
    while True:
        try:
            with interrupts.held_back():
                turn = follower.turn()
        except StoreUnavailable:
            if clock.monotonic() - seen_at >= AWAY_SECS:
                raise
            interrupts.end_of_poll()
            tell("store unreachable; retrying")
            wait()
            continue
        seen_at = clock.monotonic()
        if turn.step >= 0:
            tell(f"step {turn.step}, {count(follower.exported.scalars, 'scalar')}")
        if turn.ended:
            return
        if not turn.more:
            wait()


@contextlib.contextmanager
def _state_line() -> Iterator[Callable[[str], object]]:
    """Show progress in a terminal."""
    console = console_on(stderr=True, lasting=not sys.stderr.isatty())
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("waiting for the first step") as shown:
        yield shown.update


def _usual_place(run: RunReader) -> Path:
    name = re.sub(r"[^\w.-]+", "-", run.manifest.name).strip("-.") or run.manifest.run_id
    return Path(DEFAULT_ROOT) / name


def _print(printer: Printer, exported: Exported) -> None:
    what = [count(exported.scalars, "scalar"), count(exported.histograms, "histogram"),
            count(exported.texts, "finding")]
    printer.line(Text.assemble(("written", "bold green"), f": {', '.join(what)}."))
    printer.entries([
        ("run", exported.run), ("folders", ", ".join(f"{exported.out}/{folder}" for folder in exported.folders)),
        ("next", f"tensorboard --logdir {exported.out}"),
    ])
