"""A run that is drawn while it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import NotARun, SettingsError, StoreUnavailable
from barograph.jupyter.live import MOST_FAILURES, SILENT_SECS, LiveView
from barograph.model.clock import ManualClock
from barograph.notebook import watch
from barograph.runs.reading.glance import Glance, RunState, glance
from barograph.runs.reading.reader import open as open_run
from barograph.tracking import Run, list_runs


class DrawingClock(ManualClock):
    """A clock by which a drawing takes a quarter of a second."""

    def monotonic(self) -> float:
        self.advance(0.25)
        return super().monotonic()


def test_it_is_drawn_as_it_goes_on_and_ends_with_the_run(tmp_path: Path, shown: Any) -> None:
    with Run("live", to=str(tmp_path / "run")) as run:
        run.log_metric("acc", 0.25)
        seen = [glance(open_run(run.url).store)]  # its first heartbeat may come between two drawings
        view = LiveView(open_run(run.url), display=shown, clock=ManualClock(),
                        look=lambda store: seen[0] if seen else glance(store))
        assert view.update()
        assert view.update()
        assert len(shown.pages) == 1  # nothing has changed
    seen.clear()
    assert not view.update()
    assert len(shown.pages) == 2
    assert "scalar:acc" in shown.pages[-1]
    assert "finished" in shown.pages[-1]


def test_a_thread_draws_it_and_ends_by_itself(tmp_path: Path, shown: Any) -> None:
    with Run("live", to=str(tmp_path / "run")) as run:
        view = watch(run, every_secs=0.01, display=shown)
        assert view.running
    assert view.wait(600)
    assert "finished" in shown.pages[-1]
    assert repr(view) == f"LiveView({run.url!r}, ended)"


def test_it_can_be_stopped(tmp_path: Path, shown: Any) -> None:
    with Run("live", to=str(tmp_path / "run")) as run:
        view = watch(run, every_secs=60.0, display=shown)
        view.stop()
        assert not view.running


def test_of_a_run_that_has_ended_no_thread_is_begun(small_run: str, shown: Any) -> None:
    view = watch(small_run, "acc", display=shown, clock=ManualClock())
    assert not view.running
    assert "scalar:acc" in shown.pages[0]
    assert "scalar:err" not in shown.pages[0]


def test_a_curve_that_has_not_begun_is_waited_for(small_run: str, shown: Any) -> None:
    watch(small_run, "acc", "acccc", display=shown, clock=ManualClock())
    assert "No curve &quot;acccc&quot; so far." in shown.pages[0]


def test_where_a_drawing_takes_long_the_next_is_waited_for_longer(small_run: str, shown: Any) -> None:
    view = LiveView(open_run(small_run), display=shown, clock=DrawingClock(), every_secs=2.0)
    assert view.wait_secs == 2.0
    view.update()
    assert view.wait_secs == pytest.approx(0.25 / 0.05)


def test_a_run_that_cannot_be_read_is_given_up_after_a_while(small_run: str, shown: Any) -> None:
    def away(store: Any) -> Glance:
        raise StoreUnavailable("The bucket is away.")

    view = LiveView(open_run(small_run), display=shown, clock=ManualClock(), look=away)
    assert [view.update() for _ in range(MOST_FAILURES)] == [True] * (MOST_FAILURES - 1) + [False]
    assert [page.partition("</style>")[2] for page in shown.pages] == ['<p class="note">The bucket is away.</p></div>']


def test_a_run_of_which_nobody_knows_whether_it_lives_is_left_some_day(small_run: str, shown: Any) -> None:
    def silent(store: Any) -> Glance:
        return replace(glance(store), state=RunState.UNKNOWN)

    clock = ManualClock()
    view = LiveView(open_run(small_run), display=shown, clock=clock, look=silent)
    assert view.update()
    clock.advance(SILENT_SECS)
    assert view.update()
    clock.advance(1.0)
    assert not view.update()


def test_whatever_stands_for_a_run_is_taken(small_run: str, shown: Any, tmp_path: Path) -> None:
    [component] = list_runs(root=tmp_path / "barograph-runs")
    for run in (small_run, Path(small_run), open_run(small_run), component):
        watch(run, display=shown)
    assert len(set(shown.pages)) == 1
    with pytest.raises(SettingsError, match="Expected a run or its path, not int"):
        watch(3)
    with pytest.raises(NotARun):
        watch(tmp_path / "nothing")

