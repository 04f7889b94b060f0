"""Rules in a process of their own: the same findings, and whatever one rule does, the others go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from barograph.errors import BadRule, SettingsError
from barograph.measures.summary import summarize
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.processes.process import HostLost
from barograph.rules.base import Rule
from barograph.rules.gradients import VanishingGradient
from barograph.runs.reading.view import StepView
from barograph.watch.executor import Item, LocalExecutor, NewAttempt, RuleExecutor
from barograph.watch.executor_process import IDLE
from barograph.watch.line import Line, RuleLost, Start
from barograph.watch.process_executor import ProcessExecutor
from barograph.watch.process_line import ProcessLine
from barograph.watch.seats import seats

from .foreign_rules import LOSS, Binned, Counting, Dying, Looping, Printing

WENT_ON = "A rule process on another machine was lost. Its rules continue in a new process:"
STEPS = [StepView.of(step, {LOSS: 2.0 if step >= 5 else 0.5}) for step in range(8)]


@contextmanager
def process(*rules: Rule, rule_timeout_secs: float = 30.0) -> Iterator[ProcessExecutor]:
    executor = ProcessExecutor(rules, rule_timeout_secs=rule_timeout_secs)
    try:
        yield executor
    finally:
        executor.close()


def told(executor: RuleExecutor, items: Sequence[Item]) -> list[str]:
    executor.begin(items)
    return [text for one in executor.finish() for text in (*one.problems, *(item.message for item in one.findings))]


def test_it_finds_what_rules_in_this_thread_find() -> None:
    here = LocalExecutor([Counting()], ManualClock())
    with process(Counting()) as there:
        for items in (STEPS[:3], [NewAttempt("p0"), *STEPS[3:7]], STEPS[7:]):
            assert told(there, items) == told(here, items)
        assert there.open() == here.open()
        assert there.not_evaluated() == here.not_evaluated()
        assert there.state() == here.state()


def test_what_it_remembers_is_taken_up_by_another() -> None:
    with process(Counting()) as first:
        told(first, STEPS[:4])
        states, _ = first.state()
    with process(Counting()) as second:
        second.load(states)
        assert told(second, STEPS[4:]) == ["High, the 6th."]


def test_a_rule_that_loops_for_ever_is_taken_out_and_the_others_go_on_where_they_were() -> None:
    with process(Counting(), Looping(), rule_timeout_secs=1.0) as executor:
        assert told(executor, STEPS[:2]) == []
        assert told(executor, STEPS[2:5]) == [
            "The rule X912 looping is not used any more: it took longer than 1 s over one step."
        ]
        # The sixth that it was shown, though its process is another: it remembers the steps before.
        assert told(executor, STEPS[5:]) == ["High, the 6th."]
        states, _ = executor.state()
        assert [state["broken"] for state in states] == ["", ": it took longer than 1 s over one step"]


def test_a_rule_that_ends_its_process_is_taken_out() -> None:
    with process(Dying(), Counting()) as executor:
        assert told(executor, STEPS) == [
            "High, the 6th.", "The rule X913 dying is not used any more: it ended the process that it runs in."
        ]


def test_where_all_were_taken_out_nothing_is_begun_any_more() -> None:
    with process(Dying()) as executor:
        assert told(executor, STEPS[:5]) == [
            "The rule X913 dying is not used any more: it ended the process that it runs in."
        ]
        assert told(executor, STEPS[5:]) == []
        (found,) = executor.not_evaluated()
        assert found.reason == "The rule failed: it ended the process that it runs in"


def test_what_a_rule_prints_goes_to_standard_error_and_it_reads_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with process(Printing()) as executor:
        said = told(executor, STEPS[:6])
        assert told(executor, STEPS[6:]) == []  # once
    (problem,) = [text for text in said if text.startswith("The rule")]
    assert 'prints ("printed by a rule"), which nobody sees' in problem
    assert "High, the 6th." in said
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "printed by a rule" in printed.err


def test_histograms_arrive_where_they_are_needed() -> None:
    weight = summarize(np.array([0.5, -0.25, 3.0]))
    view = StepView.of(0, {Key(Kind.WEIGHT, "fc.weight"): weight})
    with process(Binned()) as executor:
        assert told(executor, [view]) == ["3 elements."]


def test_many_steps_are_not_kept_for_ever() -> None:
    with process(Counting()) as executor:
        for number in range(100):
            told(executor, [StepView.of(number, {LOSS: 0.5})])
        assert sum(map(len, executor._since)) < 64


def test_a_lost_machine_is_no_fault_of_a_rule() -> None:
    lines: list[Line] = []

    def line(start: Start, timeout_secs: float) -> Line:
        lines.append(_Unplugged() if len(lines) == 1 else ProcessLine(start, timeout_secs))
        return lines[-1]

    executor = ProcessExecutor([Counting()], line=line)
    try:
        assert told(executor, STEPS[:5]) == []
        lines[0].close()
        executor._line = _Unplugged()
        assert told(executor, STEPS[5:]) == ["High, the 6th.", f"{WENT_ON} no power", f"{WENT_ON} no power"]
        states, _ = executor.state()
        assert [state["broken"] for state in states] == [""]
    finally:
        executor.close()


def test_where_machine_after_machine_is_lost_the_rules_come_home() -> None:
    def line(start: Start, timeout_secs: float) -> Line:
        raise HostLost("no power")

    executor = ProcessExecutor([Counting()], line=line)
    try:
        assert told(executor, STEPS[:6]) == [
            "High, the 6th.", f"{WENT_ON} no power", f"{WENT_ON} no power",
            "Rules that should run on other machines run on this one: no power",
        ]
    finally:
        executor.close()


class _Unplugged:
    """A line to a machine that is gone."""

    def send(self, message: tuple[str, Any]) -> None:
        raise HostLost("no power")

    def receive(self) -> Any:
        raise HostLost("no power")

    def close(self) -> None:
        pass


def test_a_class_that_nobody_else_can_load_is_refused() -> None:
    class Inside(Counting):
        """X916: Inside a function."""

        code = "X916"

    with pytest.raises(BadRule, match="Keep its class at the top of a module"):
        ProcessExecutor([Inside()])


def test_rules_of_others_get_a_process_and_ours_are_spread() -> None:
    rules = [VanishingGradient(), Counting()]
    alone = list(seats()(rules, ManualClock()))
    assert [type(executor) for executor in alone] == [LocalExecutor, ProcessExecutor]
    spread = list(seats(processes=2)([VanishingGradient(), *rules], ManualClock()))
    assert [type(executor) for executor in spread] == [ProcessExecutor, ProcessExecutor, ProcessExecutor]


@pytest.mark.parametrize(("settings", "says"), [
    ({"processes": 0}, "processes is 0"), ({"rule_timeout_secs": 0.0}, "rule_timeout_secs is 0"),
])
def test_impossible_seatings_are_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        seats(**settings)  # type: ignore[arg-type]


def test_a_process_that_somebody_ends_while_no_rule_is_at_work_is_begun_again() -> None:
    here = LocalExecutor([Counting()], ManualClock())
    ended = "A rule process ended while idle. Its rules continue in a new process."
    with process(Counting()) as there:
        told(here, STEPS[:4]), told(there, STEPS[:4])
        for items in (STEPS[4:5], STEPS[5:6], STEPS[6:7], STEPS[7:]):
            end_process_of(there)
            assert sorted(told(there, items)) == sorted([ended, *told(here, items)])
        assert there.open() == here.open() != []
        assert there.state() == here.state()


def test_a_process_that_ends_again_and_again_takes_its_rules_out() -> None:
    class Ended:
        def __init__(self, start: Start, timeout_secs: float) -> None:
            pass

        def send(self, message: Any) -> None:
            raise RuleLost("ended the process that it runs in", IDLE)

        def receive(self) -> Any:
            raise AssertionError("nothing was taken in")

        def close(self) -> None:
            pass

    executor = ProcessExecutor([Counting()], rule_timeout_secs=30.0, line=Ended)
    assert "not used any more" in told(executor, STEPS[:1])[-1]


def end_process_of(executor: ProcessExecutor) -> None:
    assert isinstance(executor._line, ProcessLine)
    popen = executor._line._process._process
    popen.kill()
    popen.wait()
