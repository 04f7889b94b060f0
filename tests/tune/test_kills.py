"""A study whose process is killed, between any two writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.store.files import FileStore
from barograph.tune.study import Study
from barograph.tune.trial import TrialState

TRIALS = 7


class Killed(BaseException):
    """The end of the process."""


class Mortal(FileStore):
    """Kills its process before or after one of its writes."""

    def __init__(self, root: Path, at: int, *, after: bool) -> None:
        super().__init__(root)
        self._left, self._after = at, after

    def create(self, name: str, data: bytes) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        super().create(name, data)
        if self._left == 0:
            raise Killed


def run(study: Study) -> Study:
    trials = study.running
    while trial := trials.pop() if trials else study.ask():
        study.report(trial, 1, float(trial.parameters["x"]))
        study.tell(trial, float(trial.parameters["x"]) ** 2)
    return study


@pytest.mark.parametrize("strategy", ["random", "bayesian"])
@pytest.mark.parametrize("after", [False, True])
def test_nothing_is_lost_or_repeated(tmp_path: Path, strategy: str, *, after: bool) -> None:
    whole = run(Study.create(None, {"x": (-1.0, 1.0)}, strategy=strategy, seed=1, trials=TRIALS))
    for at in range(2, 2 * TRIALS + 1):
        place = tmp_path / str(at)
        with pytest.raises(Killed):
            run(Study.create(Mortal(place, at, after=after), {"x": (-1.0, 1.0)}, strategy=strategy, seed=1,
                             trials=TRIALS))
        found = run(Study.open(place))
        assert [(one.number, one.parameters, one.values, one.state) for one in found.trials] == [
            (one.number, one.parameters, one.values, one.state) for one in whole.trials]
        assert all(one.state is not TrialState.RUNNING for one in found.trials)
