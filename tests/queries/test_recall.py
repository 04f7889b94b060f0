"""What the last watcher left, read back without watching again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.manifest import Coverage, Heartbeat
from barograph.queries import recall
from barograph.queries.recall import recalled
from barograph.rules.base import Rule
from barograph.rules.losses import LossNotDecreasing
from barograph.rules.registry import Catalog
from barograph.runs.format.metadata import worker_bytes
from barograph.store.base import Store
from barograph.watch.loop import Watcher

Training = Any  # of conftest.py

SEEN = Heartbeat(0, 0.0, coverage=Coverage(loss_seen=True, steps=3, steps_seen=3))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say which rules are installed."""

    def installed(*classes: type[Rule]) -> None:
        monkeypatch.setattr(recall, "installed", lambda: Catalog(classes))

    return installed


def watched(training: Training, *rules: Rule) -> Watcher:
    watcher = Watcher(training.store, rules, clock=training.clock)
    watcher.poll()
    watcher.close()
    return watcher


def test_where_nobody_watched_it_says_so(training: Training) -> None:
    training.steps(0.5)
    training.end()

    found = recalled(training.store)

    assert (found.watched, found.complete, found.problem) == (False, False, "")
    assert found.verdict == "This run has not been watched."


def test_what_a_watcher_found_comes_back_as_it_last_stood(
    training: Training, high: type[Rule], install: Callable[..., None]
) -> None:
    install(high)
    training.steps(0.5, 2.0, 3.0)
    training.end()
    summary = watched(training, high()).findings

    found = recalled(training.store)

    assert found.summary.findings == summary
    assert (found.summary.steps, found.summary.rules) == (3, ("X901",))
    # The event on the store only knows of the step that opened it.
    assert [(item.since_step, item.last_step) for item in found.summary.findings] == [(1, 2)]
    assert (found.watched, found.complete, found.verdict) == (True, True, "1 problem: The loss is 2.")


def test_none_is_said_of_a_run_that_was_judged_to_its_end(
    training: Training, high: type[Rule], install: Callable[..., None]
) -> None:
    install(high)
    training.heartbeat = SEEN
    training.steps(0.5, 0.5, 0.5)
    training.end()
    watched(training, high())

    assert recalled(training.store).verdict == "No problems found in 3 steps."


def test_none_is_not_said_while_something_waits_to_be_judged(
    training: Training, high: type[Rule], install: Callable[..., None]
) -> None:
    install(high)
    training.heartbeat = SEEN
    training.steps(0.5)
    watched(training, high())
    training.steps(0.5, first=1)
    training.end()

    found = recalled(training.store)

    assert (found.watched, found.complete) == (True, False)
    assert found.verdict == "No problems found so far. Not everything was judged yet."


def test_a_later_attempt_that_nobody_saw_waits_to_be_judged(
    store: Store, new_training: type[Training], clock: ManualClock, high: type[Rule], install: Callable[..., None]
) -> None:
    install(high)
    first = new_training(store, clock)
    first.steps(0.5)
    watched(first, high())
    _killed(first)
    new_training(store, clock).steps(0.5, first=1)

    assert not recalled(store).complete


def _killed(training: Training) -> None:
    dead = replace(training.worker, started_ticks=training.worker.started_ticks + 1)
    training.store.put(f"workers/{dead.name}-{dead.attempt:04d}.json", worker_bytes(dead))


def test_a_rule_with_other_parameters_than_the_defaults_is_taken_up_with_them(
    training: Training, high: Any, install: Callable[..., None]
) -> None:
    install(high)
    training.heartbeat = SEEN
    training.steps(5.0, 5.0, 5.0)
    training.end()
    watched(training, high(threshold=9.0))

    assert recalled(training.store).verdict == "No problems found in 3 steps."


@pytest.mark.parametrize("others", [(), (LossNotDecreasing,), ("of the same code",)])
def test_a_rule_that_is_not_installed_here_leaves_the_findings_it_recorded(
    training: Training, high: type[Rule], install: Callable[..., None], others: tuple[Any, ...]
) -> None:
    namesake = type("Namesake", (high,), {})
    install(*(namesake if isinstance(other, str) else other for other in others))
    training.steps(2.0)
    training.end()
    watched(training, high())

    found = recalled(training.store)

    assert found.problem.startswith("It was watched with a rule X901 (")
    assert [item.code for item in found.summary.findings] == ["X901"]
    assert found.verdict == "1 problem: The loss is 2."


def test_without_the_rules_that_watched_none_is_not_said(
    training: Training, high: type[Rule], install: Callable[..., None]
) -> None:
    install()
    training.heartbeat = SEEN
    training.steps(0.5)
    training.end()
    watched(training, high())

    assert recalled(training.store).verdict == "Its watcher recorded no findings."


def test_to_recall_writes_nothing(training: Training, high: type[Rule], install: Callable[..., None]) -> None:
    install(high)
    training.steps(2.0)
    training.end()
    watched(training, high())
    before = [(item.name, item.size_bytes, item.modified_unix) for item in training.store.list()]

    recalled(training.store)

    assert [(item.name, item.size_bytes, item.modified_unix) for item in training.store.list()] == before
