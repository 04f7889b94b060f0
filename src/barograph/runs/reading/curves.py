"""Many curves of a run in one pass over its files."""

from __future__ import annotations

from collections.abc import Collection

from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.format.curves_file import PLAIN_KINDS
from barograph.runs.reading.bundle import SeriesName, bundles
from barograph.runs.reading.envelope import Envelope, envelope_of_buckets, envelope_of_series, is_fine
from barograph.runs.reading.reader import CURVE_POINTS, RunReader


def curves(
    run: RunReader, kind: Kind, paths: Collection[str], statistic: str = "value", *, points: int = CURVE_POINTS,
    start: int | None = None, stop: int | None = None,
) -> dict[SeriesName, Envelope]:
    """Return what `RunReader.curve` returns for each path, in every mode and for every optimizer.

    `RunReader.curve` reads and verifies every file once a key; this reads each once.

    Args:
        run: The run.
        kind: Kind of the keys.
        paths: Their paths; those that were not recorded are left out.
        statistic, points, start, stop: As for `RunReader.curve`.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    wanted = frozenset(paths)
    found: dict[SeriesName, Envelope] = {}
    if statistic == "value" and kind in PLAIN_KINDS and start is None and stop is None:
        buckets = run.buckets(kind, wanted)
        found = {
            SeriesName(Key(kind, name.path), Mode(name.mode), name.optimizer):
                envelope_of_buckets(Key(kind, name.path), statistic, of_it, points)
            for name, of_it in buckets.items() if is_fine(of_it, points)
        }
        # A path is read from the records if one of its series is too coarse.
        wanted = wanted - {name.path for name in buckets} | {
            name.path for name, of_it in buckets.items() if not is_fine(of_it, points)}
    if wanted:
        for mode, optimizer, (series,) in bundles(
                run, kind, (statistic,), only=[Key(kind, path) for path in wanted], start=start, stop=stop):
            found.setdefault(SeriesName(series.key, mode, optimizer), envelope_of_series(series, points))
    return found
