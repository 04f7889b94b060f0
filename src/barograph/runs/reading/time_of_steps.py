"""Mean times of the parts of a step."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from barograph.model.key import Kind
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.windows import windows_of

STEP_PARTS = ("data", "forward", "backward", "optimizer", "capture", "other")
"""Parts of a step, as in `Kind.TIME`."""


def time_of_steps(run: RunReader) -> dict[str, float]:
    """Return the mean seconds of a step, under "step", and of its parts, over all records; {} without records.

    Raises:
        StoreError: The store cannot be read.
    """
    secs: defaultdict[str, float] = defaultdict(float)
    steps: defaultdict[str, float] = defaultdict(float)
    for start, stop in windows_of(run, Kind.TIME):
        table = run.arrow(Kind.TIME, start=start, stop=stop, columns=("worker", "attempt", "tick", "path", "value"))
        workers, paths = dictionary_column(table, "worker"), dictionary_column(table, "path")
        values = table["value"].to_numpy()
        who = np.stack([workers.codes, table["attempt"].to_numpy(), table["tick"].to_numpy()])
        _, telling = np.unique(who, axis=1, return_inverse=True)
        stood_for = np.zeros(telling.max(initial=-1) + 1)
        rows = {name: np.flatnonzero(paths.codes == code) for code, name in enumerate(paths.texts)}
        if "steps" in rows:
            stood_for[telling[rows["steps"]]] = values[rows["steps"]]
        # A phase that some records lack is the mean of the others.
        for name in ("step", *STEP_PARTS):
            if name in rows:
                weights = stood_for[telling[rows[name]]]
                secs[name] += float(values[rows[name]] @ weights)
                steps[name] += float(weights.sum())
    means = {name: secs[name] / steps[name] for name in ("step", *STEP_PARTS) if steps[name]}
    if {"step", "other"} <= means.keys():
        # A record repeats the last measured phases, which may be longer than its step; its "other" is then 0, not less.
        means["other"] = max(0.0, means["step"] - sum(means[name] for name in means.keys() - {"step", "other"}))
    return means
