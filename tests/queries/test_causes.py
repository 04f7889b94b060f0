"""The suspicions of a run's findings, weighed together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from barograph.queries.causes import causes_in_order, diagnose


def finding(
    code: str,
    *causes: tuple[str, float],
    opened: int = 10,
    state: FindingState = FindingState.OPEN,
    severity: Severity = Severity.COSTLY,
) -> Finding:
    return Finding(
        id=f"{code}-{opened}", code=code, rule=code.lower(), severity=severity, state=state, message="", remedy="",
        evidence=(), subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=opened, opened_step=opened,
        last_step=opened, closed_step=None, opened_unix=0.0,
        causes=tuple(Suspicion(cause, weight, f"seen by {code}") for cause, weight in causes),
    )


def test_without_suspicions_nothing_is_diagnosed() -> None:
    assert diagnose([finding("L101")]) == ()


def test_what_was_seen_itself_comes_before_what_many_suspect() -> None:
    many = [finding(f"L10{number}", (Cause.LEARNING_RATE_TOO_HIGH, 0.5)) for number in range(1, 9)]
    first, second = diagnose([*many, finding("P101", (Cause.GRADIENTS_NOT_RESET, 0.9), opened=90)])
    assert (first.cause, first.weight) == ("gradients-not-reset", 0.9)
    assert (second.cause, second.weight) == ("learning-rate-too-high", pytest.approx(0.5 + 0.3 * 0.5 * (1 - 0.5**7)))


def test_two_rules_that_suspect_the_same_say_more_than_one() -> None:
    found = diagnose([
        finding("L101", ("a", 0.4), ("b", 0.42)), finding("W101", ("a", 0.3)),
    ])
    assert [(item.cause, item.weight) for item in found] == [("a", pytest.approx(0.4 + 0.3 * 0.6 * 0.3)), ("b", 0.42)]


def test_a_rule_counts_once_however_many_findings_it_has() -> None:
    (found,) = diagnose([finding("A101", ("dead-relu", 0.5), opened=step) for step in range(20)])
    assert found.weight == 0.5


def test_what_is_gone_and_what_is_a_note_count_less() -> None:
    found = diagnose([
        finding("L104", ("gone", 0.5), state=FindingState.CLOSED), finding("L101", ("open", 0.5)),
        finding("M113", ("noted", 0.5), severity=Severity.NOTE),
    ])
    assert [(item.cause, item.weight) for item in found] == [("open", 0.5), ("gone", 0.4), ("noted", 0.25)]


def test_between_equals_the_first_that_was_suspected_comes_first() -> None:
    found = diagnose([finding("L105", ("late", 0.5), opened=50), finding("W101", ("early", 0.5), opened=5)])
    assert [item.cause for item in found] == ["early", "late"]


def test_the_reason_is_that_of_the_strongest() -> None:
    (found,) = diagnose([finding("L101", ("a", 0.1)), finding("W101", ("a", 0.6))])
    assert found.why == "seen by W101"


def test_the_causes_of_a_finding_are_ordered_by_the_whole_run() -> None:
    loss = finding("L101", ("learning-rate-too-low", 0.2), ("labels-unrelated", 0.15))
    whole = diagnose([loss, finding("L108", ("labels-unrelated", 0.6))])
    assert [item.cause for item in causes_in_order(loss, whole)] == ["labels-unrelated", "learning-rate-too-low"]


def test_a_finding_tells_the_better_reason_that_another_has_for_its_cause() -> None:
    loss = finding("L101", ("labels-unrelated", 0.45), ("weight-decay-too-large", 0.1))
    decay = replace(finding("O104", ("weight-decay-too-large", 0.9)), remedy="Lower it.")
    first, second = causes_in_order(loss, diagnose([loss, decay]))
    assert (first.cause, first.why, first.remedy) == ("weight-decay-too-large", "seen by O104", "Lower it.")
    assert (second.cause, second.why) == ("labels-unrelated", "seen by L101")


def test_the_advice_of_a_finding_is_for_what_it_suspects_first() -> None:
    found = diagnose([replace(finding("N101", ("a", 0.9), ("b", 0.5)), remedy="Look."),
                      replace(finding("N102", ("b", 0.3)), remedy="Look there.")])
    assert [(item.cause, item.remedy) for item in found] == [("a", "Look."), ("b", "Look there.")]


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_a_weight_that_is_no_share_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Suspicion("a", weight)
