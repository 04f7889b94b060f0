"""Progress bar of a command in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from barograph.cli.printing import console_on


@contextmanager
def progress(what: str, unit: str = "") -> Iterator[Callable[[int, int], object]]:
    """Show progress in a terminal.

    Args:
        what: Description of the activity.
        unit: Unit of the count; "": show a percentage.
    """
    counted = (MofNCompleteColumn(), TextColumn(unit)) if unit else (TaskProgressColumn(),)
    columns = TextColumn(what), BarColumn(), *counted, TimeRemainingColumn()
    console = console_on(stderr=True, lasting=not sys.stderr.isatty())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, of: shown.update(task, completed=done, total=of)
