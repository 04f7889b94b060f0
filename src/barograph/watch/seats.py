"""Where rules run: ours in the watcher's thread or spread over processes, others' in a process of their own.

A rule that somebody else wrote may loop for ever, end its process or fill the terminal. So the rules that do not
come with Barograph share a process that can be ended without harm: `rule_timeout_secs` after a rule began on
a step it is taken out, by name, and the others go on where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barograph.errors import SettingsError
from barograph.model.clock import Clock
from barograph.rules.base import Rule
from barograph.watch.executor import LocalExecutor, RuleExecutor
from barograph.watch.line import LineFactory
from barograph.watch.process_executor import RULE_TIMEOUT_SECS, ProcessExecutor
from barograph.watch.process_line import ProcessLine


def seats(
    *, processes: int = 1, rule_timeout_secs: float = RULE_TIMEOUT_SECS,
    line: LineFactory | None = None,
) -> Callable[[Sequence[Rule], Clock], Iterable[RuleExecutor]]:
    """Return the seating for a watcher.

    Args:
        processes: How many the rules that come with Barograph are spread over; 1: the watcher's own alone.
        rule_timeout_secs: Longest time a rule that does not come with Barograph may take for one step.
        line: Begins the processes, on other machines, say; None: on this one. Where it is given, none of the rules
            runs in the watcher's own process.

    Raises:
        SettingsError: A number is not above zero.
    """
    if processes < 1:
        raise SettingsError(f"processes is {processes}; it must be 1 or more.")
    if not rule_timeout_secs > 0:
        raise SettingsError(f"rule_timeout_secs is {rule_timeout_secs:g}; it must be above 0.")

    def seated(rules: Sequence[Rule], clock: Clock) -> Iterable[RuleExecutor]:
        ours = [rule for rule in rules if is_ours(rule)]
        others = [rule for rule in rules if not is_ours(rule)]
        for number in range(processes):
            # Every n-th, so that the dear ones of one family do not end up together.
            part = ours[number::processes]
            if part and processes == 1 and line is None:
                yield LocalExecutor(part, clock)
            elif part:
                yield ProcessExecutor(part, line=line or ProcessLine)
        if others:
            yield ProcessExecutor(others, rule_timeout_secs=rule_timeout_secs, line=line or ProcessLine)

    return seated


def is_ours(rule: Rule) -> bool:
    """Return whether a rule comes with Barograph."""
    return type(rule).__module__.partition(".")[0] == "barograph"
