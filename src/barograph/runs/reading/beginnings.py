"""First steps of the attempts of a run, from the files that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from barograph.model.step import Mode
from barograph.runs.format.codec import notes_of
from barograph.runs.format.events import dictionary_column
from barograph.runs.format.layout import ChunkName
from barograph.runs.reading.supersession import Supersession
from barograph.runs.reading.view import group_of
from barograph.runs.state.survey import Stream


@dataclass(frozen=True, slots=True)
class Beginning:
    """Information in one file of a worker about its first steps in an attempt.

    Attributes:
        first_steps: Optimizer to its first training step in the file.
        certain: The worker did not start earlier, even if other files are unreadable.
    """

    first_steps: Mapping[str, int]
    certain: bool


def beginning_in(name: ChunkName, file: pq.ParquetFile) -> Beginning:
    """Return the beginning from a records file: from its metadata for the whole attempt, or else from its rows."""
    noted = notes_of(file.metadata.metadata, str(name)).first_steps
    if noted is not None:
        return Beginning(noted, certain=True)
    return Beginning(_first_steps_in(file), certain=name.first == 0)


def supersession_from(beginnings: Mapping[Stream, Sequence[Beginning]]) -> tuple[Supersession, list[str]]:
    """Return which rows later attempts supersede, and one sentence for each attempt whose beginning is lost.

    Ranks make the same steps, so one of them is enough; a process without rank needs its own.

    Args:
        beginnings: Beginnings found for every worker that published records in an attempt other than the first.
    """
    starts: dict[tuple[int, str], int] = {}
    certain: dict[tuple[int, str], bool] = {}
    for (attempt, worker), found in beginnings.items():
        group = attempt, group_of(worker)
        certain[group] = certain.get(group, False) or any(item.certain for item in found)
        for optimizer, step in (pair for item in found for pair in item.first_steps.items()):
            starts[attempt, optimizer] = min(step, starts.get((attempt, optimizer), step))
    uncertain = sorted({attempt for (attempt, _), is_certain in certain.items() if not is_certain})
    return Supersession(starts, uncertain), [
        f"The first step of attempt {attempt} is unknown because its first file cannot be read. Records of earlier "
        "attempts are left out, as this attempt may supersede them." for attempt in uncertain
    ]


def _first_steps_in(file: pq.ParquetFile) -> dict[str, int]:
    """Return the first training step of each optimizer, ignoring logged numbers and evaluations."""
    table = file.read(columns=["step", "optimizer", "mode", "skipped"], use_threads=False).unify_dictionaries()
    modes = dictionary_column(table, "mode")
    trains = np.array([text == Mode.TRAIN.value for text in modes.texts], bool)[modes.codes]
    trains &= table["skipped"].is_valid().to_numpy()
    optimizers = dictionary_column(table, "optimizer")
    codes, steps = optimizers.codes[trains], table["step"].to_numpy()[trains]
    return {optimizers.texts[code]: int(steps[codes == code].min()) for code in np.unique(codes).tolist()}
