"""What stopping sooner would have saved."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import SettingsError
from barograph.model.finding import FindingState, Severity
from barograph.model.manifest import Heartbeat, Worker
from barograph.report.savings import Price, price_from, savings_of, trained_secs
from barograph.runs.reading.roster import Standing, WorkerState

FIRST_UNIX = 1_800_000_000.0
HOUR = 3600.0


def worker(start: float, end: float, *, attempt: int = 0, name: str = "p0") -> WorkerState:
    declared = Worker(name, attempt, 1, "here", "", FIRST_UNIX + start)
    return WorkerState(declared, Standing.FINISHED, Heartbeat(1, FIRST_UNIX + end), None, None)


def saved(findings: list[Any], workers: list[WorkerState], price: Price | None = None, **more: Any) -> Any:
    return savings_of(findings, workers, price, **{"steps": 100, "judged": True, "so_far": False, **more})


def test_time_and_money_are_those_after_the_first_breaking_finding(finding: Callable[..., Any]) -> None:
    found = [finding(step=60, opened_unix=FIRST_UNIX + 6 * HOUR), finding(step=25, opened_unix=FIRST_UNIX + 2.5 * HOUR),
             finding(Severity.COSTLY, code="A101", step=1)]

    told = saved(found, [worker(0, 10 * HOUR)], Price(2.0, "EUR"))

    assert (told.finding, told.step, told.steps) == ("N101-25-0123456789ab", 25, 74)
    assert (told.secs, told.share) == (7.5 * HOUR, 0.75)
    assert (told.cost, told.saved, told.currency) == (20.0, 15.0, "EUR")
    assert told.text == ("Stopping when N101 non-finite opened at step 25 would have saved 7 h 30 min, 15.00 EUR: 74 "
                         "steps came after it, 75.0% of the training time.")


def test_without_a_price_hours_alone_are_told(finding: Callable[..., Any]) -> None:
    told = saved([finding(opened_unix=FIRST_UNIX + HOUR)], [worker(0, 2 * HOUR)])

    assert (told.price_per_hour, told.cost, told.saved, told.currency) == (None, None, None, "")
    assert "would have saved 1 h 0 min: 94 steps" in told.text


@pytest.mark.parametrize(("optimizer", "workers"), [("#2", ("p0",)), ("", ("p0", "p1"))])
def test_of_several_trainings_the_steps_after_it_are_those_of_its_share_of_the_time(
    finding: Callable[..., Any], optimizer: str, workers: tuple[str, ...]
) -> None:
    found = replace(finding(step=5, opened_unix=FIRST_UNIX + 3 * HOUR), optimizer=optimizer)
    told = saved([found], [worker(0, 4 * HOUR, name=name) for name in workers], steps=1000)

    assert (told.share, told.steps) == (0.25, 250)


def test_a_finding_that_is_over_counts_too(finding: Callable[..., Any]) -> None:
    assert saved([finding(state=FindingState.CLOSED)], [worker(0, HOUR)]).finding == "N101-5-0123456789ab"


def test_where_nothing_breaking_was_found_that_is_said(finding: Callable[..., Any]) -> None:
    told = saved([finding(Severity.COSTLY)], [worker(0, HOUR)], Price(1.0))

    assert (told.finding, told.step, told.secs, told.share, told.saved) == ("", -1, 0.0, 0.0, 0.0)
    assert told.text == "Nothing: no breaking finding opened."
    unjudged = saved([], [worker(0, HOUR)], judged=False)
    assert unjudged.text.startswith("Unknown: not all of the run was evaluated")


def test_pauses_between_attempts_cost_nothing(finding: Callable[..., Any]) -> None:
    workers = [worker(0, 100), worker(500, 600, attempt=1), worker(510, 650, attempt=1, name="p1")]

    assert trained_secs(workers) == 250
    assert saved([finding(opened_unix=FIRST_UNIX + 90)], workers).secs == 160


def test_a_run_that_goes_on_says_so_far(finding: Callable[..., Any]) -> None:
    assert "5.0 s so far" in saved([finding(opened_unix=FIRST_UNIX)], [worker(0, 5)], so_far=True).text


def test_a_worker_that_gave_no_sign_counts_for_nothing(finding: Callable[..., Any]) -> None:
    told = saved([finding()], [replace(worker(0, 5), heartbeat=None)], Price(1.0))

    assert (told.secs, told.saved) == (0.0, 0.0)
    assert math.isnan(told.share)
    assert "of the training time" not in told.text


@pytest.mark.parametrize("per_hour", [-0.01, math.nan, math.inf, -math.inf])
def test_a_price_that_is_none_is_refused(per_hour: float) -> None:
    with pytest.raises(SettingsError, match="must be finite and at least 0"):
        price_from(per_hour, None)


@pytest.mark.parametrize("currency", ["", "  ", "a very long currency", "US\nD", "\x1b[2J"])
def test_a_currency_that_is_no_word_is_refused(currency: str) -> None:
    with pytest.raises(SettingsError, match="short word"):
        price_from(1.0, currency)


def test_a_currency_without_a_price_is_refused() -> None:
    with pytest.raises(SettingsError, match="no price was given"):
        price_from(None, "EUR")


def test_a_price_may_be_nothing() -> None:
    assert price_from(0.0, None) == Price(0.0, "USD")
    assert price_from(None, None) is None
