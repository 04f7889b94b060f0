"""A fault opens after patience, holds, and closes after recovery; steps that say nothing count for neither."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from barograph.judging.tracks import Tracks, checked_symptom
from barograph.model.finding import Evidence, Finding, FindingState, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode, Step
from barograph.rules.base import Memory, Rule
from barograph.runs.reading.view import StepView

FC = Key(Kind.OUTPUT, "fc")
LOSS = Key(Kind.LOSS, "total")


@dataclass(frozen=True, kw_only=True)
class Silent(Rule):
    """X900: Nothing."""

    code: ClassVar[str] = "X900"
    name: ClassVar[str] = "silent"
    severity: ClassVar[Severity] = Severity.NOTE
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        return ()


def symptom(step: int, subject: str = "", key: Key | None = LOSS, since: int | None = None) -> Symptom:
    return Symptom(f"wrong at {step}", "mend it", (Evidence(key, step, "value", 1.0, 0.5),), subject, since)


def follow(tracks: Tracks, pattern: str, *, first: int = 0) -> list[str]:
    """Show one step for each letter: s sick, c clean, u unjudged, - not recorded; return what happened."""
    events: list[Finding] = []
    for step, letter in enumerate(pattern, first):
        view = StepView.of(step, {} if letter == "-" else {LOSS: 1.0})
        found = [symptom(step)] if letter == "s" else []
        events += tracks.take(view, found, judged=letter != "u")
    return [f"{item.state.value} {item.since_step}-{item.last_step}" for item in events]


def test_a_finding_that_counts_takes_each_message_and_stays_open() -> None:
    tracks = Tracks(Silent(recovery=1))
    for step, letter in enumerate("sccscc"):
        counted = [replace(symptom(step), counting=True)] if letter == "s" else []
        tracks = again(tracks)
        assert not any(item.state is FindingState.CLOSED
                       for item in tracks.take(StepView.of(step, {LOSS: 1.0}), counted, judged=True))

    (found,) = tracks.open()
    assert (found.message, found.opened_step, found.last_step) == ("wrong at 3", 0, 3)


def again(tracks: Tracks) -> Tracks:
    """Return what a watcher that was started again has of these tracks."""
    fresh = Tracks(Silent(recovery=1))
    fresh.load(json.loads(json.dumps(tracks.to_json())))
    return fresh


@pytest.mark.parametrize(
    ("patience", "recovery", "pattern", "expected"),
    [
        (1, 1, "ccc", []),
        (1, 1, "csc", ["open 1-1", "closed 1-1"]),
        (2, 1, "csc", []),
        (2, 1, "cscsc", []),
        (2, 1, "cssc", ["open 1-2", "closed 1-2"]),
        (3, 2, "sssssssscsc", ["open 0-2"]),
        (3, 2, "sssssssscscc", ["open 0-2", "closed 0-9"]),
        (1, 2, "sccs", ["open 0-0", "closed 0-0", "open 3-3"]),
        (2, 2, "su-us", ["open 0-4"]),
        (1, 2, "scu-u-uc", ["open 0-0", "closed 0-0"]),
        (1, 1, "su-u-u", ["open 0-0"]),
    ],
)
def test_one_fault_is_one_finding(patience: int, recovery: int, pattern: str, expected: Sequence[str]) -> None:
    assert follow(Tracks(Silent(patience=patience, recovery=recovery)), pattern) == expected


def test_an_open_finding_knows_how_long_it_has_lasted() -> None:
    tracks = Tracks(Silent())

    follow(tracks, "sss")

    assert [(item.since_step, item.opened_step, item.last_step) for item in tracks.open()] == [(0, 0, 2)]


def test_a_finding_says_what_was_seen_when_it_opened() -> None:
    tracks = Tracks(Silent(patience=2))

    follow(tracks, "sss")

    (finding,) = tracks.open()
    assert finding.message == "wrong at 1"
    assert (finding.code, finding.rule, finding.severity, finding.worker) == ("X900", "silent", Severity.NOTE, "p0")


def test_a_closed_finding_keeps_the_step_it_closed_at() -> None:
    tracks = Tracks(Silent(recovery=2))
    tracks.take(StepView.of(0, {LOSS: 1.0}), [symptom(0)], judged=True)
    tracks.take(StepView.of(1, {LOSS: 1.0}), [], judged=True)

    (closed,) = tracks.take(StepView.of(2, {LOSS: 1.0}), [], judged=True)

    assert (closed.state, closed.last_step, closed.closed_step) == (FindingState.CLOSED, 0, 2)


def test_faults_of_different_subjects_modes_optimizers_and_workers_live_apart() -> None:
    tracks = Tracks(Silent(recovery=1))
    places = [
        ("p0", Step(0, 0), "a"), ("p0", Step(0, 0), "b"), ("p0", Step(0, 0, "G"), "a"),
        ("p0", Step(0, 0, "", Mode.EVAL), "a"), ("p1", Step(0, 0), "a"),
    ]
    for worker, step, subject in places:
        tracks.take(StepView.of(step, {LOSS: 1.0}, group=worker), [symptom(0, subject)], judged=False)

    tracks.take(StepView.of(Step(1, 1), {LOSS: 1.0}), [symptom(1, "b")], judged=True)

    still = [(item.worker, item.optimizer, item.mode.value, item.subject) for item in tracks.open()]
    assert still == [("p0", "", "train", "b"), ("p0", "G", "train", "a"), ("p0", "", "eval", "a"),
                     ("p1", "", "train", "a")]
    assert len({item.id for item in tracks.open()}) == 4


def test_a_step_that_recorded_another_layer_says_nothing_of_this_one() -> None:
    tracks = Tracks(Silent(recovery=1))
    tracks.take(StepView.of(0, {FC: 1.0}), [symptom(0, "fc", FC)], judged=True)

    assert tracks.take(StepView.of(1, {LOSS: 1.0}), [], judged=True) == []
    assert len(tracks.take(StepView.of(2, {FC: 1.0}), [], judged=True)) == 1


def test_a_fault_of_the_run_as_a_whole_is_judged_by_every_step() -> None:
    tracks = Tracks(Silent(recovery=1))
    tracks.take(StepView.of(0, {FC: 1.0}), [symptom(0, "", None)], judged=True)

    assert len(tracks.take(StepView.of(1, {LOSS: 1.0}), [], judged=True)) == 1


def test_the_rule_may_know_that_it_began_earlier() -> None:
    tracks = Tracks(Silent())

    (opened,) = tracks.take(StepView.of(30, {LOSS: 1.0}), [symptom(30, since=20)], judged=True)

    assert (opened.since_step, opened.opened_step) == (20, 30)
    assert opened.id.startswith("X900-20-")


def test_the_same_subject_twice_in_a_step_counts_once() -> None:
    tracks = Tracks(Silent(patience=2))

    assert tracks.take(StepView.of(0, {LOSS: 1.0}), [symptom(0), symptom(0)], judged=True) == []


@pytest.mark.parametrize("cut", range(13))
def test_a_restart_in_the_middle_changes_nothing(cut: int) -> None:
    pattern, rule = "csscsssccscc", Silent(patience=2, recovery=2)
    before, after = Tracks(rule), Tracks(rule)

    events = follow(before, pattern[:cut])
    after.load(json.loads(json.dumps(before.to_json())))
    events += follow(after, pattern[cut:], first=cut)

    assert events == follow(Tracks(rule), pattern) == ["open 1-2", "closed 1-6"]


def test_a_worker_that_starts_again_keeps_what_is_open_and_loses_its_streaks() -> None:
    tracks = Tracks(Silent(patience=2))
    step = StepView.of(5, {LOSS: 1.0})
    tracks.take(step, [symptom(5, "a", since=4), symptom(5, "b")], judged=True)
    tracks.take(step, [symptom(5, "a")], judged=False)

    tracks.new_attempt("p0")

    again = StepView.of(3, {LOSS: 1.0}, attempt=1)
    assert tracks.take(again, [symptom(3, "a"), symptom(3, "b")], judged=True) == []
    assert [item.subject for item in tracks.open()] == ["a"]


def test_the_same_fault_in_another_attempt_has_another_id() -> None:
    first = Tracks(Silent()).take(StepView.of(3, {LOSS: 1.0}), [symptom(3)], judged=True)
    second = Tracks(Silent()).take(StepView.of(3, {LOSS: 1.0}, attempt=1), [symptom(3)], judged=True)

    assert first[0].id != second[0].id
    assert second[0].attempt == 1


def test_numbers_of_numpy_become_plain() -> None:
    odd = Symptom("m", "r", (Evidence(LOSS, np.int64(3), "value", np.float32(0.5), np.float64(1.0)),),  # type: ignore[arg-type]
                  since=np.int64(2))  # type: ignore[arg-type]

    plain = checked_symptom(odd)

    assert json.dumps([plain.evidence[0].step, plain.evidence[0].value, plain.since]) == "[3, 0.5, 2]"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("the loss is high", "it yields str; a rule yields Symptom or Unjudged"),
        (Symptom(3, "r"), "the message of its symptom is int; it must be a text"),  # type: ignore[arg-type]
        (Symptom("m", "r", ("loss",)), "the evidence of its symptom holds 'loss'; it must hold Evidence"),  # type: ignore[arg-type]
    ],
)
def test_what_a_rule_must_not_yield_is_named(wrong: object, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        checked_symptom(wrong)

    assert str(caught.value) == message
