"""Conformance suite for rules: inherit it, and pytest runs it on your rule.

    from barograph.testing.rules import RuleConformance

    class TestLoudWeights(RuleConformance):
        rule = LoudWeights()
        sick = [StepView.of(step, {weight: Summary(count=2, min=-30.0, max=4.0)}) for step in range(5)]
        well = [StepView.of(step, {weight: Summary(count=2, min=-3.0, max=4.0)}) for step in range(20)]

The module does not import pytest: each test is a method that raises `AssertionError` with a message.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from barograph.errors import SettingsError
from barograph.judging.judge import Judge
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.model.summary import MOMENT_FIELDS
from barograph.rules.base import Rule, check_rule_class, rule_with
from barograph.rules.page import page_from_rule
from barograph.runs.format.rows import WorkerRows
from barograph.runs.reading.view import StepView

_REPEATS = 40
_MOST_GROWTH_BYTES = 512
_MOST_RESTARTS = 50
"""Of one run that are tried one by one; each takes a whole run."""


class RuleConformance:
    """Conformance suite for rules: inherit it, and set the rule, a sick run and a healthy run.

    Attributes:
        rule: The rule, with the parameters to test.
        sick: Steps of a run that shows the fault long enough for a finding to open.
        well: A few steps or more of a healthy run. Runs that nearly show the fault are the best test.
    """

    rule: ClassVar[Rule]
    sick: ClassVar[Sequence[StepView]]
    well: ClassVar[Sequence[StepView]]

    # What it says of itself

    def test_the_class_can_be_used(self) -> None:
        """The rule has a code, a name and a severity, and is a frozen dataclass."""
        check_rule_class(type(self.rule))
        assert hash(self.rule) == hash(replace(self.rule)), f"{_title(self.rule)} is not frozen"

    def test_the_page_is_whole(self) -> None:
        """The docstring has every section that a rule page needs."""
        page_from_rule(type(self.rule))

    def test_it_says_what_it_needs(self) -> None:
        """The rule declares at least one Selection, each with kinds."""
        assert self.rule.needs, f"{_title(self.rule)} declares no needs: it would never get a step"
        for need in self.rule.needs:
            assert need.kinds, f"{_title(self.rule)} declares a need without kinds: {need}"

    def test_wrong_parameters_are_refused(self) -> None:
        """A string is refused as the value of a numeric parameter."""
        for item in fields(self.rule):
            value = getattr(self.rule, item.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                try:
                    rule_with(type(self.rule), {item.name: "much"})
                except SettingsError:
                    continue
                raise AssertionError(f'{_title(self.rule)} accepts "much" for {item.name}')

    # What it finds

    def test_a_sick_run_is_found(self) -> None:
        """A finding opens with a message, evidence and a remedy."""
        opened = [item for item in judged(self.rule, self.sick) if item.state is FindingState.OPEN]
        assert opened, f"{_title(self.rule)} finds nothing in the sick run"
        for finding in opened:
            assert finding.message.strip(), f"{_title(self.rule)} opens a finding without a message"
            assert "\n" not in finding.message, f"the message of {_title(self.rule)} has more than one line"
            assert finding.remedy.strip(), f"{_title(self.rule)} gives no remedy"
            assert finding.evidence, f"{_title(self.rule)} gives no evidence"

    def test_a_well_run_is_let_pass(self) -> None:
        """A healthy run has no finding."""
        found = judged(self.rule, self.well)
        assert not found, f"{_title(self.rule)} raises a false alarm: {found[0].message}"

    def test_what_it_does_not_need_says_nothing_to_it(self) -> None:
        """A step without the rule's data causes neither a finding nor an error."""
        shown = [StepView.of(step, {Key(Kind.CUSTOM, "unheard.of"): 1.0}) for step in range(5)]
        empty = [StepView.of(step, {}) for step in range(5)]
        found = judged(self.rule, [*shown, *empty])
        assert not found, f"{_title(self.rule)} finds something in empty steps: {found[0].message}"

    # What it must bear

    def test_nan_and_infinity_are_tolerated(self) -> None:
        """Non-finite records do not raise."""
        for value in (math.nan, math.inf, -math.inf):
            judged(self.rule, [spoilt(view, value) for view in (*self.sick, *self.well)])

    def test_any_order_of_modes_and_skipped_steps_is_tolerated(self) -> None:
        """Evaluations and skipped steps do not raise."""
        steps = [*self.sick, *self.well]
        for change in ({"mode": Mode.EVAL}, {"mode": Mode.PREDICT}, {"skipped": True}):
            judged(self.rule, [view.at(replace(view.step, **change)) for view in steps])

    # What it must not do

    def test_it_remembers_nothing_of_its_own(self) -> None:
        """The same steps give the same findings, also after another run."""
        alone = _as_text(judged(self.rule, self.sick))
        judged(self.rule, self.well)
        again = _as_text(judged(self.rule, self.sick))
        assert again == alone, f"{_title(self.rule)} keeps state outside its memory"

    def test_a_restart_at_any_step_changes_nothing(self) -> None:
        """The rule's memory survives JSON: a restarted watcher gives the same findings."""
        alone = _as_text(judged(self.rule, self.sick))
        always = range(len(self.sick))
        for stop in always[:: math.ceil(len(always) / _MOST_RESTARTS) or 1]:
            again = _as_text(judged(self.rule, self.sick, restart_at=[stop]))
            assert again == alone, f"{_title(self.rule)} has other findings after a restart at step {stop}"
        assert _as_text(judged(self.rule, self.sick, restart_at=always)) == alone, (
            f"{_title(self.rule)} has other findings after a restart at each step")

    def test_its_memory_does_not_grow_with_the_run(self) -> None:
        """The rule's memory is bounded."""
        judge = Judge(self.rule, ManualClock())
        sizes = []
        for repeat in range(_REPEATS):
            for view in _shifted(self.well, repeat):
                judge.take(view)
            sizes.append(len(json.dumps(judge.to_json()["memories"])))
        # Numbers get longer as they rise, and windows fill up in the first half.
        growth = sizes[-1] - sizes[_REPEATS // 2]
        assert growth <= _MOST_GROWTH_BYTES, (
            f"{_title(self.rule)} keeps {sizes[-1]} bytes after {_REPEATS * len(self.well)} steps and "
            f"{sizes[_REPEATS // 2]} after half of them: keep a window"
        )

    def test_it_prints_nothing(self) -> None:
        """The rule writes nothing to standard output or standard error."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            judged(self.rule, [*self.sick, *self.well])
        printed = out.getvalue() + err.getvalue()
        assert not printed, f"{_title(self.rule)} prints: {printed[:80]!r}"

    def test_it_leaves_the_records_as_they_are(self) -> None:
        """The rule does not modify the step, which other rules share."""
        for view in (*self.sick, *self.well):
            before = [rows.moments.copy() for rows in view.rows.values()]
            judged(self.rule, [view])
            after = [rows.moments for rows in view.rows.values()]
            same = all(np.array_equal(one, two, equal_nan=True) for one, two in zip(before, after, strict=True))
            assert same, f"{_title(self.rule)} changes the records of step {view.step.number}"


def judged(rule: Rule, views: Iterable[StepView], *, restart_at: Collection[int] = ()) -> list[Finding]:
    """Return the findings that open and close when a rule gets these steps from a watcher.

    Args:
        views: In the order of the steps.
        restart_at: Positions before which the watcher is restarted from its saved state.

    Raises:
        AssertionError: The rule raised, yielded an invalid value, or has a memory that JSON cannot store.
    """
    judge, findings = Judge(rule, ManualClock()), []
    for number, view in enumerate(views):
        if number in restart_at:
            saved: dict[str, Any] = json.loads(json.dumps(judge.to_json()))
            judge = Judge(rule, ManualClock())
            judge.load(saved)
        events, problems = judge.take(view)
        findings += events
        assert not problems, problems[0]
    problem = judge.check()
    assert not problem, problem
    return findings


def spoilt(view: StepView, value: float) -> StepView:
    """Return the same step with every statistic set to a non-finite value: NaN, inf or -inf."""
    return StepView(view.step, {name: _spoilt_rows(rows, value) for name, rows in view.rows.items()},
                    group=view.group, attempt=view.attempt)


def _spoilt_rows(rows: WorkerRows, value: float) -> WorkerRows:
    moments = rows.moments.copy()
    at = {name: number for number, name in enumerate(MOMENT_FIELDS)}
    counted = "nan" if math.isnan(value) else "posinf" if value > 0 else "neginf"
    # As a tensor of which every element is so: no finite element is left to have extremes or sums.
    moments[:, [at["nan"], at["posinf"], at["neginf"], at["zeros"]]] = 0.0
    moments[:, at[counted]] = moments[:, at["count"]]
    moments[:, at["min"]], moments[:, at["max"]] = math.inf, -math.inf
    moments[:, [at["sum"], at["sum_sq"], at["sum_abs"]]] = 0.0
    return replace(rows, moments=moments, scalars=dict.fromkeys(rows.scalars, value))


def _shifted(views: Sequence[StepView], repeat: int) -> Iterable[StepView]:
    """Yield the views as those of later steps."""
    length = views[-1].step.number + 1 if views else 0
    for view in views:
        number = view.step.number + repeat * length
        yield view.at(replace(view.step, number=number, tick=view.step.tick + repeat * length))


def _as_text(findings: Iterable[Finding]) -> str:
    # As text, in which NaN is NaN: evidence may hold it.
    return json.dumps([finding.to_json() for finding in findings])


def _title(rule: Rule) -> str:
    return f"{rule.code} {rule.name}"
