"""Writes the charts with Trackio: python -m benchmarks.studio.writers.trackio charts DIRECTORY SIZES"""

from __future__ import annotations

import itertools
import os
import sys

from benchmarks.studio.data import rows


def main(directory: str, *sizes: int) -> None:
    """Write the many charts."""
    os.environ["TRACKIO_DIR"] = directory
    import trackio

    for run, group in itertools.groupby(rows(*sizes), lambda row: row[0]):
        trackio.init(project="bench", name=f"run{run:02}")
        for _, step, values in group:
            trackio.log(values, step=step)
        trackio.finish()


if __name__ == "__main__":
    main(sys.argv[2], *map(int, sys.argv[3:]))
