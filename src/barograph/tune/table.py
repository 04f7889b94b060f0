"""The trials of a study as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barograph.errors import MissingExtra
from barograph.tune.spec import StudySpec
from barograph.tune.trial import Trial

if TYPE_CHECKING:
    import pandas

_HEAD, _TAIL = ("trial", "state"), ("proposer", "reason", "seconds", "cost", "job")


class StudyTable(Sequence[Mapping[str, Any]]):
    """One row for each trial.

    Args:
        spec: The study.
        trials: Its trials.
    """

    def __init__(self, spec: StudySpec, trials: Sequence[Trial]) -> None:
        self._spec, self._trials = spec, trials
        self.columns = (*_HEAD, *(one.name for one in spec.objectives), *spec.space.names, *_TAIL)

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._row(trial) for trial in self._trials[index]]
        return self._row(self._trials[index])

    def __repr__(self) -> str:
        return f"<table of {len(self)} trials: {', '.join(self.columns)}>"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with the number of the trial as index.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("Install barograph[pandas] to get a DataFrame.") from error
        return pandas.DataFrame(list(self), columns=list(self.columns)).set_index("trial")

    def _row(self, trial: Trial) -> dict[str, Any]:
        values = dict(zip((one.name for one in self._spec.objectives), trial.values, strict=False))
        known = {
            "trial": trial.number, "state": str(trial.state), "proposer": trial.origin.proposer, "reason": trial.reason,
            "seconds": None if trial.ended_unix is None else max(trial.ended_unix - trial.started_unix, 0.0),
            "cost": trial.cost, "job": trial.job, **trial.parameters, **values}
        return {name: known.get(name) for name in self.columns}
