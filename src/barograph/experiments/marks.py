"""Marks that detect whether a run has changed, so that unchanged runs are not read again."""

from __future__ import annotations

from barograph.experiments.run_entries import ENDED
from barograph.runs.format.layout import ATTEMPTS, ENDINGS, FINDINGS, ORIGIN, WATCH, WORKERS
from barograph.runs.reading.glance import Glance
from barograph.runs.state.journal import JOURNAL_OF_RUN

SETTLED_SECS = 3600.0
"""Without stamps, a run that ended longer ago is read again only by `feed(thorough=True)`."""

CHANGING = ("", ATTEMPTS, WORKERS, ENDINGS, FINDINGS, WATCH, JOURNAL_OF_RUN, ORIGIN)
"""Directories of an ended run; at least one changes with everything that the catalog shows of it."""


def mark_in(known: str) -> str:
    """Return the mark of a run without its stamp."""
    return known.partition("\n")[0]


def has_ended(mark: str) -> bool:
    """Return whether the run had ended."""
    ended = mark.partition(" ")[0]
    return bool(ended) and ended != "-"


def ended_long_ago(mark: str, now_unix: float) -> bool:
    """Return whether an ended run ended long ago."""
    return now_unix - float(mark.partition(" ")[0]) > SETTLED_SECS


def mark_of(seen: Glance) -> str:
    """Return the mark of a run; it begins with its end time, or "-"."""
    ended = f"{seen.ended_unix:.0f}" if seen.state in ENDED and seen.ended_unix == seen.ended_unix else "-"
    findings = ",".join(f"{item.id}:{item.state}" for item in seen.findings)
    metadata, written_unix = seen.journal
    return (
        f"{ended} {seen.state} {seen.attempt} {seen.steps} {len(seen.workers)} {metadata}:{written_unix:f} {findings}"
    )
