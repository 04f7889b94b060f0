"""The latest values of running trials, as another process sees them."""

from __future__ import annotations

from pathlib import Path

from barograph.errors import StoreFull, StoreUnavailable
from barograph.model.clock import ManualClock
from barograph.store.files import FileStore
from barograph.tune.live_values import LIVE
from barograph.tune.overview import overview_of
from barograph.tune.study import Study
from barograph.tune.trial import Trial

X = {"x": (-1.0, 1.0)}


def asked(study: Study) -> Trial:
    trial = study.ask()
    assert trial is not None
    return trial


def test_another_process_sees_the_latest_value_of_a_running_trial(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random", clock=ManualClock())
    trial = asked(study)
    seen = Study.open(tmp_path)
    assert seen.latest() == {}
    study.report(trial, 3, 0.5)
    assert seen.latest() == {0: (3, 0.5)}
    shown = overview_of(seen, "mine").trials[0]
    assert (shown.step, shown.last) == (3, 0.5)


def test_values_are_written_at_most_every_two_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    study = Study.create(tmp_path, X, strategy="random", clock=clock)
    trial = asked(study)
    study.report(trial, 1, 0.5)
    clock.advance(1.9)
    study.report(trial, 2, 0.4)
    assert Study.open(tmp_path).latest() == {0: (1, 0.5)}
    clock.advance(0.2)
    study.report(trial, 3, 0.3)
    assert Study.open(tmp_path).latest() == {0: (3, 0.3)}


def test_two_processes_with_one_study_keep_the_values_of_each_other(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random", clock=ManualClock())
    first = asked(study)
    other = Study.open(tmp_path, clock=ManualClock())
    second = asked(other)
    study.refresh()
    study.report(first, 1, 0.5)
    other.report(second, 2, 0.7)
    assert Study.open(tmp_path).latest() == {0: (1, 0.5), 1: (2, 0.7)}


def test_a_trial_that_has_ended_has_its_own_curve_and_no_live_value(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random", clock=ManualClock())
    trial = asked(study)
    study.report(trial, 1, 0.5)
    study.tell(trial, 0.4)
    again = Study.open(tmp_path)
    assert again.latest() == {}
    assert overview_of(again, "mine").trials[0].last == 0.5


def test_a_study_goes_on_although_live_values_cannot_be_written_or_read(tmp_path: Path) -> None:
    class Broken(FileStore):
        def put(self, name: str, data: object) -> None:
            raise StoreFull("No space left.")

        def get(self, name: str) -> memoryview:
            if name.startswith(LIVE):
                raise StoreUnavailable("Timed out.")
            return super().get(name)

    study = Study.create(Broken(tmp_path), X, strategy="random", clock=ManualClock())
    trial = asked(study)
    study.report(trial, 1, 0.5)
    assert study.latest() == {}
    study.tell(trial, 0.5)
    assert Study.open(tmp_path).best.value == 0.5


def test_a_damaged_object_of_live_values_is_none(tmp_path: Path) -> None:
    study = Study.create(tmp_path, X, strategy="random", clock=ManualClock())
    study.report(asked(study), 1, 0.5)
    (tmp_path / LIVE / "values.json").write_bytes(b"{}")
    assert Study.open(tmp_path).latest() == {}
