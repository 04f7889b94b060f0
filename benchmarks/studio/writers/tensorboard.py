"""Writes the charts for TensorBoard: python -m benchmarks.studio.writers.tensorboard charts DIRECTORY SIZES"""

from __future__ import annotations

import itertools
import sys

from benchmarks.studio.data import rows


def main(directory: str, *sizes: int) -> None:
    """Write the many charts."""
    from tensorboard.summary import Writer

    for run, group in itertools.groupby(rows(*sizes), lambda row: row[0]):
        writer = Writer(f"{directory}/run{run:02}")
        for _, step, values in group:
            for name, value in values.items():
                writer.add_scalar(name, value, step)
        writer.close()


if __name__ == "__main__":
    main(sys.argv[2], *map(int, sys.argv[3:]))
