"""Shows findings on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import TextIO, cast

from rich.console import Console
from rich.text import Text

from barograph.model.finding import Finding, FindingState
from barograph.queries.problems import Problem, problems_of
from barograph.queries.wording import remedy_label
from barograph.watch.lasting_stream import LastingStream
from barograph.watch.notices import Event, Notice
from barograph.watch.wording import finding_lines, gone_line, indented, problem_head, shown


class TerminalNotifier:
    """Writes problems to a terminal.

    Args:
        console: Target; None: standard error. A console over a `LastingStream`, such as the default, discards output
            after its reader is gone, and the watching continues.
        name: Name of the run, to precede each problem; "": none.
        without: Codes of rules whose findings are not written.
    """

    def __init__(self, console: Console | None = None, *, name: str = "", without: Collection[str] = ()) -> None:
        self._name = name
        self._without = without
        self._console = console or Console(file=cast(TextIO, LastingStream(sys.stderr)), highlight=False)
        self._findings: dict[str, Finding] = {}
        self.found: Callable[[], Sequence[Problem]] = lambda: problems_of(self._findings.values())
        """Returns the problems so far, as in the summary; set by the watching code. Default: those of the notices."""
        self._printed: dict[str, str] = {}
        self._causes_printed: set[str] = set()
        self._gone: set[str] = set()

    def notify(self, notice: Notice) -> None:
        """Write a problem in two lines when it opens; skip a finding that follows from one already written."""
        finding = notice.finding
        if finding is None or notice.event not in (Event.OPENED, Event.CLOSED):
            self._print(text_of(notice))
            return
        self._findings[finding.id] = finding
        if finding.code in self._without:
            return
        problem = next(item for item in self.found() if any(one.id == finding.id for one in item.findings))
        if notice.event is Event.CLOSED:
            if problem.state is FindingState.CLOSED and problem.title not in self._gone:
                self._gone.add(problem.title)
                self._print(_gone(problem))
        elif not self._is_printed(problem):
            self._print(_opened(problem, self._blamed_before(problem)))
        self._printed.update({item.id: problem.title for item in problem.findings})
        self._causes_printed.add(problem.cause)

    def _is_printed(self, problem: Problem) -> bool:
        if problem.cause:
            return problem.cause in self._causes_printed
        return any(item.id in self._printed for item in problem.findings)

    def _blamed_before(self, problem: Problem) -> list[str]:
        """Return the titles under which findings of this problem were shown before their cause was found."""
        titles = dict.fromkeys(self._printed[item.id] for item in problem.findings if item.id in self._printed)
        return [title for title in titles if title != problem.title]

    def _print(self, text: Text) -> None:
        if self._name:
            text = Text.assemble((f"{shown(self._name)}: ", "bold"), text)
        # Soft wrap leaves wrapping to the terminal, so that a piped line stays one line.
        self._console.print(text, soft_wrap=True)


def _opened(problem: Problem, blamed_before: Sequence[str]) -> Text:
    replaced = [f"\n          replaces: {shown(title)}" for title in blamed_before]
    return Text.assemble(problem_head(problem), "\n          ", (f"{remedy_label(problem)}: ", "bold"),
                         shown(problem.remedy.text), *replaced)


def _gone(problem: Problem) -> Text:
    last = max(item.last_step for item in problem.findings)
    return Text.assemble(("gone      ", "green"), f"{shown(problem.title)}: not seen since step {last:,}")


def text_of(notice: Notice) -> Text:
    """Return a notice as text for a terminal."""
    finding = notice.finding
    if finding is None or notice.event is Event.ACTION:
        return Text.assemble(("barograph: ", "bold"), notice.text)
    if notice.event is Event.CLOSED:
        return gone_line(finding)
    return Text("\n").join(indented(finding_lines(finding)))
