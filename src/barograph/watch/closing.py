"""The summary at the end of a run, in about twelve lines: recorded steps, problems, remedies, location of the run."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence

from barograph.model.capsule import ANOTHER_WORKER
from barograph.model.manifest import EndState
from barograph.queries.problems import Problem
from barograph.queries.summary import OF_TENSORS, RunSummary, steps_made_and_seen
from barograph.queries.wording import Part, not_evaluated_line, problem_rest
from barograph.runs.state.control import STOP
from barograph.watch.figures import count
from barograph.watch.wording import problem_head, recording_cost, shown

MOST_LINES = 12
_LABEL = 10
_LINES_OF_A_PROBLEM = 4
"""Title, evidence, remedy, consequences."""
_RULES = "(barograph show RUN --rules)"

_NO_STEP = "No training step was recorded: "
_TO_RECORD_STEPS = {
    "jax": "Wrap the training step in barograph.jax.observe.",
    "tensorflow": "End each step of a TensorFlow loop with barograph.tensorflow.step.",
}
"""How to record steps, by framework."""
_BY_HAND = "Mark where a step ends: run = barograph.attach(explicit_steps=True), then run.step(loss)."


def closing_text(
    summary: RunSummary, *, command: str = "", interrupted: bool = False, width: int | None = None
) -> str:
    """Return the text to print when a run has ended.

    Args:
        summary: Summary of the run.
        command: How the command ended, if it failed.
        interrupted: The watching was interrupted before the end of the run.
        width: Columns of the terminal: longer lines are wrapped, and count as wrapped. None: no line is wrapped.
            Nothing is cut; paths and commands are not wrapped.
    """
    last = [_labeled("run", summary.url)]
    last += [_labeled("watched", "not to the end: it was interrupted")] if interrupted else []
    head = _head(summary, width)
    beside = [*_beside(summary, command, width, actions=2)]
    room = MOST_LINES - len(head) - len(beside) - len(last)
    if room < _LINES_OF_A_PROBLEM:
        beside = [*_beside(summary, command, width, actions=1)]
        room = MOST_LINES - len(head) - len(beside) - len(last)
    body = problem_lines(summary.problems, most=room, width=width)
    return "\n".join(["", *head, *body, *beside, *last])


def problem_lines(
    problems: Sequence[Problem], *, most: int, width: int | None, more: str = "barograph show RUN --all"
) -> list[str]:
    """Return problems in at most `most` lines: complete first problems rather than fragments of all.

    Args:
        problems: Problems, the worst first.
        most: Maximum number of lines. The first problem has its title, evidence and remedy even if they exceed it.
        width: See `closing_text`.
        more: Command that shows the omitted problems.
    """
    lines: list[str] = []
    for place, problem in enumerate(problems):
        left = len(problems) - place - 1
        room = most - len(lines) - bool(left)
        whole = _problem(problem, width)
        if len(whole) <= room - 2 * min(left, 1):
            lines += whole
        elif not place:
            lines += _problem(problem, width, consequences=False)
        elif room >= len(brief := _problem(problem, width, brief=True)):
            lines += brief
        elif room >= len(head := _title(problem, width)):
            lines += head
        else:
            lines.append(f"  and {count(left + 1, 'more problem')} ({more})")
            break
    return lines


def _problem(problem: Problem, width: int | None, *, brief: bool = False, consequences: bool = True) -> list[str]:
    lines = _title(problem, width)
    for kind, text in problem_rest(problem):
        if kind is Part.REMEDY or (kind is Part.EVIDENCE and not brief):
            lines += wrapped(_LABEL_OF_NONE, text, width)
        elif kind is Part.CONSEQUENCES and consequences and not brief:
            lines.append(_consequences(problem.leads_to, width))
    return lines


def _title(problem: Problem, width: int | None) -> list[str]:
    return wrapped("  ", problem_head(problem).plain, width, below=len(_LABEL_OF_NONE))


def _consequences(names: Sequence[str], width: int | None) -> str:
    """Return a line with as many names as fit, and the number of omitted ones."""
    whole = _labeled("", f"leads to: {', '.join(names)}")
    for kept in range(len(names) - 1, 0, -1):
        if width is None or len(whole) <= width:
            break
        whole = _labeled("", f"leads to: {', '.join(names[:kept])} and {len(names) - kept} more")
    return whole


def _head(summary: RunSummary, width: int | None) -> list[str]:
    if not summary.trained:
        why, _, fix = next((text for text in summary.unseen if text.startswith(_NO_STEP)), "").partition(". ")
        if fix:
            return [*_filled(f"{why}.", width), *wrapped(_labeled("fix"), fix, width)]
        return [*_filled(summary.verdict, width),
                *(wrapped(_labeled("fix"), how_to_record_steps(summary), width) if summary.may_train else ())]
    recorded = recorded_lines(summary)
    if problems := summary.problems:
        found = f"{count(len(problems), 'problem')} found"
        return _first_that_fits("barograph: ", [f"{found}; {text}" for text in recorded], width)
    # For steps that cannot be read, no rule knows which records are missing; a script without training needs none.
    mute = summary.logged or (summary.incidents and not summary.steps)
    unjudged = "" if mute else not_evaluated_line(summary.not_evaluated)
    verdict = summary.verdict
    if not summary.held:
        verdict = verdict.partition(f" {OF_TENSORS}")[0]  # the first line has the number
    verdicts = [f"{verdict} {unjudged} {rules}." for rules in (_RULES, "(show --rules)")] if unjudged else [verdict]
    return [*_first_that_fits("barograph: ", recorded, width), *_first_that_fits("  ", verdicts, width)]


def how_to_record_steps(summary: RunSummary) -> str:
    """Return how to record the steps of a training that recorded none, in the framework that it loaded."""
    used = {name for worker in summary.workers for name in worker.loaded}
    if summary.untrained is not None:
        used |= {name.casefold() for name in summary.untrained.frameworks}
    advice = [text for name, text in _TO_RECORD_STEPS.items() if name in used]
    if not used & {"torch", "pytorch"}:
        return " ".join(advice or [_BY_HAND])
    # TensorBoard loads TensorFlow, that Keras, and that JAX.
    return " ".join([_BY_HAND] if "keras" in used else [_BY_HAND, *advice])


def _filled(text: str, width: int | None) -> list[str]:
    return wrapped("barograph: ", text, width, below=2)


def _first_that_fits(first: str, texts: Sequence[str], width: int | None) -> list[str]:
    """Return the first text that fits in one line of the terminal; if none does, the last, wrapped."""
    wraps = [wrapped(first, text, width, below=2) for text in texts]
    return next((lines for lines in wraps if len(lines) == 1), wraps[-1])


def recorded_lines(summary: RunSummary) -> list[str]:
    """Return the numbers of recorded steps and evaluations and the cost compared with the budget, in full to brief."""
    made, seen = steps_made_and_seen(summary.workers)
    made, seen = (max(number, *(getattr(item, name) for item in summary.workers), 0) if summary.workers else 0
                  for number, name in ((made, "steps"), (seen, "steps_seen")))
    lost = max((item.lost for item in summary.workers if item.steps == made), default=0)
    seen = max(item.steps_seen for item in summary.workers) if lost else seen
    tensors = f" (tensors at {'each' if seen == made - lost else f'{seen:,}'})" if made else ""
    lasts = [item.last for item in summary.workers if item.last is not None]
    evaluations = max((last.coverage.evaluations for last in lasts), default=0)
    steps = f"{f'{made - lost:,} of ' if lost else ''}{count(made, 'step')}{tensors}"
    recorded = f"{steps}, {count(evaluations, 'evaluation')}"
    costliest = max((last.cost for last in lasts), key=lambda cost: cost.share, default=None)
    # A run that another tool recorded has no such times.
    if costliest is None or costliest.train_secs <= 0:
        return [recorded]
    brief = recorded if evaluations else steps
    return [f"{recorded}; {recording_cost(costliest)}", f"{brief}; {recording_cost(costliest, brief=True)}",
            f"{brief}; {recording_cost(costliest, brief=True, budget=False)}"]


def _beside(summary: RunSummary, command: str, width: int | None, *, actions: int) -> Iterable[str]:
    """Yield further information, one line each."""
    place = shlex.quote(summary.url)
    entries: list[tuple[str, str]] = []
    if summary.held:
        first = summary.held[0]
        of = f" of {first.optimizer}" if first.optimizer else ""
        rest = f" and {count(len(summary.held) - 1, 'more step')}" if len(summary.held) > 1 else ""
        verb = "replay" if len(summary.held) == 1 else "capsules"
        entries.append(("held", f"step {first.step}{of}{rest}: {first.text} (barograph {verb} {place})"))
    entries += _with_more("done", [str(item) for item in summary.actions if not item.came_too_late], most=actions)
    entries += _with_more("not done", [*(str(item) for item in summary.actions if item.came_too_late),
                                       *(text for _, text in summary.would_have)], most=1)
    entries += _with_more("state", _endings(summary), most=1)
    if summary.problems:
        entries += _with_more("not seen", [text for text in summary.unseen if not text.startswith(OF_TENSORS)], most=1)
        may_judge = any(item.last is None or item.steps for item in summary.workers)
        if may_judge and (line := not_evaluated_line(summary.not_evaluated)):
            entries.append(("rules", f"{line} {_RULES}"))
    # The last one contains the result. What was not seen has a line already.
    said = {text.rstrip(".").casefold() for text in summary.unseen}
    entries += _with_more("warning", [text for text in summary.warnings[::-1]
                                      if text.rstrip(".").casefold() not in said], most=1)
    if command:
        entries.append(("command", command))
    if summary.go_on_from is not None:
        entries.append(("resume", f"barograph resume {place}   (from step {summary.go_on_from:,})"))
    for label, text in entries:
        # Users copy commands, so they are not wrapped.
        yield from wrapped(_labeled(label), shown(text), None if place in text else width)


def _endings(summary: RunSummary) -> list[str]:
    """Return how workers ended that did not finish, without what the lines of a problem or action already contain."""
    stopped = {item.worker for item in summary.actions if item.action == STOP and item.done}
    endings = []
    for item in sorted(summary.workers, key=lambda item: item.reason.startswith(ANOTHER_WORKER)):
        is_said = summary.is_said(item.reason)
        if item.word == EndState.FINISHED.value or (item.word == EndState.STOPPED.value and item.name in stopped):
            continue
        if not is_said or len(summary.workers) > 1:
            why = f" ({item.reason})" if item.reason and not is_said else ""
            endings.append(f"{item.name} {item.word}{why} after {count(item.steps, 'step')}")
    return endings


def _with_more(label: str, texts: Sequence[str], *, most: int) -> list[tuple[str, str]]:
    entries = [(label, text) for text in texts[:most]]
    if len(texts) > most:
        entries[-1] = (label, f"{entries[-1][1]} (and {len(texts) - most} more)")
    return entries


def _labeled(label: str, text: str = "") -> str:
    return f"  {label:<{_LABEL}}{text}"


_LABEL_OF_NONE = _labeled("")


def wrapped(first: str, text: str, width: int | None, *, below: int | None = None) -> list[str]:
    """Return a text wrapped to the terminal; a word that is longer than a line is not split.

    Args:
        first: Prefix of the first line.
        text: The text.
        width: Columns of the terminal; None: one line.
        below: Indentation of the other lines; None: they align with the text.

    Example:
        >>> wrapped("  fix: ", "Initialize the biases to 0.", 24)
        ['  fix: Initialize the', '       biases to 0.']
    """
    if width is None:
        return [first + text]
    indent = " " * (len(first) if below is None else below)
    return textwrap.wrap(text, max(20 + len(indent), width), initial_indent=first, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False) or [first.rstrip()]
