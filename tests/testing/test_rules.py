"""The suite for rules of one's own: sound ones pass it, and each thing that it forbids is caught."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pytest

from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.model.summary import Summary
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView
from barograph.testing.rules import RuleConformance, judged, spoilt

WEIGHT = Key(Kind.WEIGHT, "fc.weight")


@dataclass(frozen=True, kw_only=True)
class LoudWeights(Rule):
    """X101: A weight is far larger than it should be.

    What it sees: the greatest magnitude of each weight.
    Why it matters: large weights make large outputs.
    What to do: lower the learning rate.
    When it is wrong: embeddings of rare tokens.
    Source: none.
    """

    code: ClassVar[str] = "X101"
    name: ClassVar[str] = "loud-weights"
    severity: ClassVar[Severity] = Severity.DOUBTFUL
    needs = (Selection(kinds=frozenset({Kind.WEIGHT})),)
    limit: float = parameter(10.0, "Largest magnitude that is let pass.", above=0.0)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        for subject, weight in view.summaries(Kind.WEIGHT):
            if weight.max_abs > self.limit:
                evidence = Evidence(subject.key, view.step.number, "max_abs", weight.max_abs, self.limit)
                yield Symptom(f"{subject.key.path} is loud.", "Lower the learning rate.", (evidence,))


SICK = tuple(StepView.of(step, {WEIGHT: Summary(count=2, min=-30.0, max=4.0)}) for step in range(5))
WELL = tuple(StepView.of(step, {WEIGHT: Summary(count=2, min=-3.0, max=4.0)}) for step in range(20))


class TestALoudWeight(RuleConformance):
    rule = LoudWeights()
    sick = SICK
    well = WELL


def suite(rule_class: type[Rule]) -> RuleConformance:
    made = RuleConformance()
    made.rule, made.sick, made.well = rule_class(), SICK, WELL  # type: ignore[misc]
    return made


def broken(judge: object) -> type[Rule]:
    return dataclass(frozen=True, kw_only=True)(type("Broken", (LoudWeights,), {
        "judge": judge, "__doc__": LoudWeights.__doc__, "__module__": __name__,
    }))


def prints(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    print("loud!")
    return LoudWeights().judge(view, memory)


def grows(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    memory.setdefault("all", []).append(view.step.number)
    return LoudWeights().judge(view, memory)


def raises_on_nan(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    for _, weight in view.summaries(Kind.WEIGHT):
        if weight.nan:
            raise ZeroDivisionError("no finite element")
    return LoudWeights().judge(view, memory)


def writes(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    for rows in view.rows.values():
        rows.moments[:] = 0.0
    return ()


def says_nothing_to_do(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    yield Symptom("Loud.", " ", (Evidence(WEIGHT, view.step.number, "max_abs", 1.0, 0.0),))


def finds_in_nothing(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    yield Symptom("Loud.", "Hush.", (Evidence(WEIGHT, view.step.number, "max_abs", 1.0, 0.0),))


_calls = itertools.count()


def counts_its_calls(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    yield Symptom(f"Loud for the {next(_calls)}th time.", "Hush.", (Evidence(WEIGHT, 0, "max_abs", 1.0, 0.0),))


def keeps_a_set(self: Rule, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
    memory["seen"] = {1}
    return ()


@pytest.mark.parametrize(("judge", "test", "says"), [
    (prints, "test_it_prints_nothing", "prints: 'loud!"),
    (grows, "test_its_memory_does_not_grow_with_the_run", "keep a window"),
    (raises_on_nan, "test_nan_and_infinity_are_tolerated", "no finite element"),
    (writes, "test_it_leaves_the_records_as_they_are", "changes the records of step 0"),
    (writes, "test_a_sick_run_is_found", "finds nothing in the sick run"),
    (says_nothing_to_do, "test_a_sick_run_is_found", "gives no remedy"),
    (says_nothing_to_do, "test_a_well_run_is_let_pass", "raises a false alarm: Loud"),
    (counts_its_calls, "test_it_remembers_nothing_of_its_own", "keeps state outside its memory"),
    (counts_its_calls, "test_a_restart_at_any_step_changes_nothing", "after a restart at step 0"),
    (keeps_a_set, "test_a_well_run_is_let_pass", "holds set"),
])
def test_what_the_suite_forbids_it_catches(judge: object, test: str, says: str) -> None:
    own = tuple(view.at(view.step) for view in SICK)
    checked = suite(broken(judge))
    if judge is writes:
        # It spoils what it is shown: its own copies, then.
        checked.sick = checked.well = tuple(  # type: ignore[misc]
            StepView.of(view.step, {WEIGHT: Summary(count=2, min=-30.0, max=4.0)}) for view in own
        )
    with pytest.raises(AssertionError, match=says):
        getattr(checked, test)()


def test_a_page_without_its_sections_is_caught() -> None:
    rule_class = broken(LoudWeights.judge)
    rule_class.__doc__ = "X101: A weight is large."
    with pytest.raises(Exception, match="What it sees"):
        suite(rule_class).test_the_page_is_whole()


def test_a_finding_where_nothing_it_needs_was_recorded_is_impossible_by_the_loop() -> None:
    suite(broken(finds_in_nothing)).test_what_it_does_not_need_says_nothing_to_it()


def test_spoilt_records_are_not_finite_in_every_element() -> None:
    summary = spoilt(SICK[0], float("inf")).summary(WEIGHT)
    assert summary is not None
    assert (summary.count, summary.posinf, summary.sum) == (2, 2, 0.0)


def test_judged_opens_and_closes_as_a_watcher_does() -> None:
    later = tuple(view.at(type(view.step)(tick=5 + view.step.tick, number=5 + view.step.number)) for view in WELL)
    assert [item.state.value for item in judged(LoudWeights(), (*SICK, *later))] == ["open", "closed"]
