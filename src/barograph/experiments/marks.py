"""What tells a run from itself at another time, so that those that are as they were need not be looked at."""

from __future__ import annotations

from barograph.experiments.run_entries import ENDED
from barograph.runs.format.layout import ATTEMPTS, ENDINGS, FINDINGS, ORIGIN, WATCH, WORKERS
from barograph.runs.reading.glance import Glance
from barograph.runs.state.journal import JOURNAL_OF_RUN

SETTLED_SECS = 3600.0
"""Where folders tell nothing, a run that ended longer ago is not looked at again, but by `feed(thorough=True)`."""

CHANGING = ("", ATTEMPTS, WORKERS, ENDINGS, FINDINGS, WATCH, JOURNAL_OF_RUN, ORIGIN)
"""Folders of a run of which one changes when anything does that the catalog tells of a run that has ended."""


def mark_in(known: str) -> str:
    """Return the mark of a run without its stamp."""
    return known.partition("\n")[0]


def has_ended(mark: str) -> bool:
    """Return whether a run with that mark had ended."""
    ended = mark.partition(" ")[0]
    return bool(ended) and ended != "-"


def ended_long_ago(mark: str, now_unix: float) -> bool:
    """Return whether a run with that mark, which had ended, did so long ago."""
    return now_unix - float(mark.partition(" ")[0]) > SETTLED_SECS


def mark_of(seen: Glance) -> str:
    """Return what tells a run from itself at another time; it begins with when it ended, or "-"."""
    ended = f"{seen.ended_unix:.0f}" if seen.state in ENDED and seen.ended_unix == seen.ended_unix else "-"
    findings = ",".join(f"{item.id}:{item.state}" for item in seen.findings)
    metadata, written_unix = seen.told
    return (
        f"{ended} {seen.state} {seen.attempt} {seen.steps} {len(seen.workers)} {metadata}:{written_unix:f} {findings}"
    )
