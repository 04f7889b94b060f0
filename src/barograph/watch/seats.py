"""Distributes rules to executors: built-in rules to the watcher's thread or several processes, others to their own
process.

A rule from another package may loop forever, end its process or flood the terminal. So these rules share a process
that can be killed: `rule_timeout_secs` after a rule started on a step, it is disabled by name, and the others continue.
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
    """Return the distribution of rules for a watcher.

    Args:
        processes: Number of processes for the built-in rules; 1: the watcher's own.
        rule_timeout_secs: Time limit for one step of a rule that is not built in.
        line: Starts the processes, for example on other machines; None: on this one. If given, no rule runs in the
            watcher's process.

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
            # Every n-th, so that the expensive rules of one family are spread.
            part = ours[number::processes]
            if part and processes == 1 and line is None:
                yield LocalExecutor(part, clock)
            elif part:
                yield ProcessExecutor(part, line=line or ProcessLine)
        if others:
            yield ProcessExecutor(others, rule_timeout_secs=rule_timeout_secs, line=line or ProcessLine)

    return seated


def is_ours(rule: Rule) -> bool:
    """Return whether a rule is built in."""
    return type(rule).__module__.partition(".")[0] == "barograph"
