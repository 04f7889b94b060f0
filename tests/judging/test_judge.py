"""One rule at work: what it needs, what it remembers, and what happens when it misbehaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barograph.judging.judge import Judge
from barograph.judging.needs import Need
from barograph.model.clock import ManualClock
from barograph.model.finding import Symptom, Unmet
from barograph.model.key import Key, Kind
from barograph.model.records import UnitSummaries
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.registry import installed
from barograph.runs.reading.view import StepView

LOSS = Key(Kind.LOSS, "total")
FC = Key(Kind.OUTPUT, "fc")
SUMMARY = Summary(count=4, min=1.0, max=1.0, sum=4.0, sum_sq=4.0, sum_abs=4.0)

Said = Iterable[Symptom | Unjudged]


def take(judge: Judge, *views: StepView) -> tuple[list[int], list[str]]:
    """Return the steps at which findings opened, and the problems."""
    opened, problems = [], []
    for view in views:
        events, said = judge.take(view)
        opened += [item.opened_step for item in events]
        problems += said
    return opened, problems


def losses(*values: float, first: int = 0) -> list[StepView]:
    return [StepView.of(step, {LOSS: value}) for step, value in enumerate(values, first)]


def rule_that(high: type[Rule], judge: Callable[[Rule, StepView, Memory], Any]) -> Rule:
    return type("Odd", (high,), {"judge": judge})()


def test_a_symptom_becomes_a_finding_with_its_evidence(high: type[Rule]) -> None:
    judge = Judge(high(), ManualClock())

    take(judge, *losses(0.5, 2.0))

    (finding,) = judge.open()
    assert (finding.code, finding.message, finding.evidence[0].value) == ("X901", "The loss is 2.", 2.0)


def test_a_step_without_anything_of_the_kinds_it_needs_is_not_shown(high: type[Rule]) -> None:
    judge = Judge(high(), ManualClock())

    judge.take(StepView.of(0, {FC: SUMMARY}))

    assert judge.to_json()["calls"] == 0


def test_memory_is_one_for_each_worker_and_optimizer(high: type[Rule]) -> None:
    judge = Judge(high(), ManualClock())
    take(judge, *losses(0.0, 0.0), StepView.of(Step(0, 0, "G"), {LOSS: 0.0}), StepView.of(0, {LOSS: 0.0}, group="p1"))

    assert judge.to_json()["memories"] == {"p0|": {"seen": 2}, "p0|G": {"seen": 1}, "p1|": {"seen": 1}}


@pytest.mark.parametrize("cut", range(5))
def test_a_restart_at_any_step_changes_nothing(high: type[Rule], cut: int) -> None:
    views = losses(0.0, 2.0, 2.0, 0.0, 2.0)
    whole, before, after = (Judge(high(patience=2, recovery=1), ManualClock()) for _ in range(3))

    take(before, *views[:cut])
    after.load(json.loads(json.dumps(before.to_json())))
    take(after, *views[cut:])
    take(whole, *views)

    assert after.to_json() == whole.to_json()


def test_a_rule_that_raises_is_named_once_and_not_asked_again(raises: type[Rule]) -> None:
    judge = Judge(raises(), ManualClock())

    opened, problems = take(judge, *losses(0.0, 2.0, 2.0, 2.0))

    assert opened == [1]
    assert problems == [
        "The rule X902 raises is not used any more: it failed at step 2 of p0: ZeroDivisionError: by design"
    ]
    said = judge.not_evaluated()
    assert said is not None
    assert said.reason == "The rule failed at step 2 of p0: ZeroDivisionError: by design"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (None, "TypeError: 'NoneType' object is not iterable"),
        ("ab", "TypeError: it yields str; a rule yields Symptom or Unjudged"),
        ([3], "TypeError: it yields int; a rule yields Symptom or Unjudged"),
    ],
)
def test_a_rule_that_returns_something_else_is_named(high: type[Rule], said: object, problem: str) -> None:
    _, problems = take(Judge(rule_that(high, lambda *_: said), ManualClock()), *losses(0.0, 0.0))

    assert problems == [f"The rule X901 high is not used any more: it failed at step 0 of p0: {problem}"]


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        ({1: 2}, "its memory['x'] has the key 1; only texts come back from JSON as they were"),
        ((1, 2), "its memory['x'] holds tuple"),
        ([{"a": {1}}], "its memory['x'][…]['a'] holds set"),
    ],
)
def test_a_rule_that_keeps_what_json_cannot_is_named(high: type[Rule], kept: object, problem: str) -> None:
    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        memory["x"] = kept
        return ()

    _, problems = take(Judge(rule_that(high, judge), ManualClock()), *losses(0.0, 0.0))

    assert len(problems) == 1
    assert problem in problems[0]


def test_what_is_kept_late_is_caught_before_it_is_saved(high: type[Rule]) -> None:
    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        memory["x"] = {1, 2} if view.step.number == 2 else []
        return ()

    late = Judge(rule_that(high, judge), ManualClock())
    _, problems = take(late, *losses(0.0, 0.0, 0.0))

    assert problems == []
    assert late.check() == (
        "The rule X901 high is not used any more: it failed: its memory['p0|']['x'] holds set; "
        "use numbers, texts, lists and dicts with text keys"
    )
    assert json.dumps(late.to_json())


def test_a_slow_rule_is_named_once_and_still_asked(high: type[Rule]) -> None:
    clock = ManualClock()

    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        clock.advance(1.5)
        yield Symptom("slowly wrong", "wait")

    opened, problems = take(Judge(rule_that(high, judge), clock), *losses(0.0, 0.0))

    assert opened == [0]
    assert problems == ["The rule X901 high took 1.5 s over step 0; findings come late."]


def test_what_another_version_saved_of_a_rule_with_other_needs_is_taken_up(high: type[Rule]) -> None:
    before = Judge(high(), ManualClock())
    take(before, *losses(0.5))
    needs = (Selection(kinds=frozenset({Kind.LOSS})), Selection(kinds=frozenset({Kind.FACT})))
    after = Judge(type("Now", (high,), {"needs": needs})(), ManualClock())
    after.load(before.to_json())

    assert after.not_evaluated() is None


def test_a_rule_that_saw_nothing_says_what_would_feed_it(high: type[Rule]) -> None:
    said = Judge(high(), ManualClock()).not_evaluated()

    assert said is not None
    assert said.reason == "Needs data that was not recorded: loss."
    assert said.feed == "Call backward on one number, or pass the loss where a step ends: run.step(loss)."


@pytest.mark.parametrize(("code", "reason", "feed"), [
    ("T104", "loss matching total in evaluation; fact, loss, tree matching early_stopping*, depth, total",
     "Boosted trees only."),
    ("D107", "fact matching classes*; fact matching label_min*; fact matching label_max*; label",
     "Classification only: a cross-entropy of torch, Keras or Optax, or run.save_predictions(targets, "
     "predictions)."),
    ("D103", "batch unit by unit; output", 'Record tensors: the preset "standard", or a collection with these kinds.'),
    ("M102", "machine matching gpu*; machine matching cpu_busiest",
     "NVIDIA GPUs only; none was in use, or machine_hz is 0."),
    ("L108", "loss; confusion, label, target", "Only for losses of torch, Keras or Optax over classes or distances, "
     "such as a cross-entropy or a mean squared error."),
    ("O101", "optimizer state; gradient, gradient clipped; weight",
     'Record tensors: the preset "standard", or a collection with these kinds.'),
])
def test_what_would_feed_a_rule_is_said_for_what_it_is(code: str, reason: str, feed: str) -> None:
    said = Judge(installed().named(code)(), ManualClock()).not_evaluated()

    assert said is not None
    assert said.reason == f"Needs data that was not recorded: {reason}."
    assert said.feed == feed


def test_layers_that_go_by_other_names_are_told_with_the_names_that_are_known() -> None:
    judge = Judge(installed().named("A104")(), ManualClock())
    take(judge, StepView.of(0, {Key(Kind.OUTPUT, "fc"): Summary(count=1)}, layers={Key(Kind.OUTPUT, "fc"): "Linear"}))

    said = judge.not_evaluated()
    assert said is not None
    assert said.reason == ("The model has no such layer: Conv1D, Linear, Softmax, with a name such as *attend*, "
                           "*attn*, *c_attn.")


def test_a_rule_fed_in_part_says_so(high: type[Rule]) -> None:
    both = type("Both", (high,), {"needs": (
        Selection(kinds=frozenset({Kind.LOSS})),
        Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.EVAL}))),
    )})
    judge = Judge(both(), ManualClock())
    take(judge, *losses(0.0))

    said = judge.not_evaluated()

    assert said is not None
    assert said.reason == "In part: needs data that was not recorded: loss in evaluation."
    assert said.feed.startswith("Evaluate in the run")


def test_a_rule_that_could_not_judge_says_why(high: type[Rule]) -> None:
    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        yield Unjudged("2 losses so far; it compares 20")

    unfed = Judge(rule_that(high, judge), ManualClock())
    take(unfed, *losses(0.0, 0.0))

    said = unfed.not_evaluated()
    assert said is not None
    assert said.reason == "Not judged yet: 2 losses so far; it compares 20."
    assert said.status is Unmet.NOT_ENOUGH_DATA


@pytest.mark.parametrize("code", ["T104", "T102"])
def test_a_rule_for_trees_does_not_apply_to_a_network_that_is_never_evaluated(code: str) -> None:
    judge = Judge(installed().named(code)(), ManualClock())
    take(judge, *losses(0.0, 0.0))

    said = judge.not_evaluated()
    assert said is not None
    assert said.status is Unmet.NOT_APPLICABLE
    assert "valuate" not in said.feed


def test_a_rule_that_compares_workers_does_not_apply_to_one_alone() -> None:
    judge = Judge(installed().named("P103")(), ManualClock())
    take(judge, StepView.of(0, {Key(Kind.WEIGHT, "fc.weight"): Summary(count=1)}))

    said = judge.not_evaluated()
    assert said is not None
    assert (said.reason, said.status) == ("Not judged yet: only one worker was recorded.", Unmet.NOT_APPLICABLE)


def test_who_goes_on_knows_that_an_evaluation_was_recorded(high: type[Rule]) -> None:
    before = Judge(installed().named("D102")(), ManualClock())
    take(before, StepView.of(Step(1, 1, mode=Mode.EVAL), {LOSS: 0.0}))
    after = Judge(installed().named("D102")(), ManualClock())
    after.load(before.to_json())

    said = after.not_evaluated()
    assert said is not None
    assert said.status is Unmet.NOT_APPLICABLE


def test_what_it_says_of_a_step_it_has_no_need_of_does_not_hide_why_it_could_not_judge(high: type[Rule]) -> None:
    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        yield Unjudged("too few losses" if view.step.mode is Mode.TRAIN else "not a step of training")

    in_training = Schedule(modes=frozenset({Mode.TRAIN}))
    needs = property(lambda _: (Selection(kinds=frozenset({Kind.LOSS}), schedule=in_training),))
    unfed = Judge(type("Odd", (high,), {"judge": judge, "needs": needs})(), ManualClock())
    take(unfed, *losses(0.0), StepView.of(Step(1, 1, mode=Mode.EVAL), {LOSS: 0.0}))

    said = unfed.not_evaluated()
    assert said is not None
    assert said.reason == "Not judged yet: too few losses."


def test_a_window_that_is_not_full_hides_no_better_reason(high: type[Rule]) -> None:
    said_so = {0: Unjudged("1 of 10"), 1: Unjudged("it is too noisy"), 2: Unjudged("1 of 10", passing=True)}

    def judge(self: Rule, view: StepView, memory: Memory) -> Said:
        yield said_so[view.step.number]

    unfed = Judge(rule_that(high, judge), ManualClock())
    take(unfed, *losses(0.0, 0.0, 0.0))

    said = unfed.not_evaluated()
    assert said is not None
    assert said.reason == "Not judged yet: it is too noisy."


def test_a_rule_that_judged_is_evaluated(high: type[Rule]) -> None:
    judge = Judge(high(), ManualClock())

    take(judge, *losses(0.0))

    assert judge.not_evaluated() is None


def test_a_need_is_met_only_in_the_detail_it_asks_for() -> None:
    import numpy as np

    units = UnitSummaries(4, np.zeros((1, 7)))
    plain = StepView.of(0, {FC: SUMMARY}, layers={FC: "ReLU"})
    detailed = StepView.of(0, {FC: SUMMARY}, layers={FC: "ReLU"}, units={FC: units})
    relu = Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset({"ReLU"}))
    tanh = Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset({"Tanh"}))
    relu_units = Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset({"ReLU"}), units=True)
    rates = Selection(kinds=frozenset({Kind.LEARNING_RATE}))

    assert [Need(need).meets(plain) for need in (relu, tanh, relu_units, rates)] == [True, False, False, False]
    assert Need(relu_units).meets(detailed)
    assert Need(rates).meets(StepView.of(0, {Key(Kind.LEARNING_RATE, "group0"): 0.1}))


@pytest.mark.parametrize(("need", "later"), [
    (Selection(kinds=frozenset({Kind.OUTPUT}), layers=frozenset({"Tanh"})),
     StepView.of(5, {FC: SUMMARY}, layers={FC: "Tanh"})),
    (Selection(kinds=frozenset({Kind.SCALAR}), include=("reward",)),
     StepView.of(5, {FC: SUMMARY, Key(Kind.SCALAR, "reward"): 1.0})),
    (Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(modes=frozenset({Mode.EVAL}))),
     StepView.of(Step(5, 5, mode=Mode.EVAL), {FC: SUMMARY}, layers={FC: "ReLU"})),
])
def test_a_need_is_met_whenever_it_is_first_recorded(high: type[Rule], need: Selection, later: StepView) -> None:
    rule = type("Needy", (high,), {"needs": property(lambda _: (need,)), "judge": lambda *_: ()})()
    judge, early = Judge(rule, ManualClock()), StepView.of(0, {FC: SUMMARY, LOSS: 0.0}, layers={FC: "ReLU"})

    take(judge, *[early.at(Step(number, number)) for number in range(5)])
    assert judge.not_evaluated() is not None

    take(judge, later)
    assert judge.not_evaluated() is None
