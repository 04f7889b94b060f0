"""Output of `barograph show` without options: a run on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.text import Text

from barograph.cli.inspect.numbers import constants_line, mode_in_brackets
from barograph.cli.printing import Printer
from barograph.model.finding import Severity
from barograph.queries.layers import NOT_FINITE, OK, LayerRow, health_of
from barograph.queries.numbers import Number, without_repeats
from barograph.queries.problems import Problem
from barograph.queries.summary import OF_TENSORS
from barograph.watch.closing import problem_lines, wrapped
from barograph.watch.figures import figure
from barograph.watch.wording import SEVERITY_STYLES, shown

MOST_LINES = 24
_MOST_NUMBERS = 4
_SEVERITY_COLUMN = 2


def print_brief(
    printer: Printer, place: str, *, head: Text, facts: Sequence[tuple[str, str]], verdict: str,
    problems: Sequence[Problem], hint: str, unseen: Sequence[str], unjudged: str, numbers: Sequence[Number],
    layers: Sequence[LayerRow],
) -> None:
    """Print a run in about `MOST_LINES` lines, as wrapped; the worst problem may need more.

    Args:
        printer: Prints.
        place: Path or URL of the run, as typed.
        head: Its name and state.
        facts: Pairs of a name and a line, the most important first.
        verdict: Verdict on a run without problems.
        problems: Problems, the worst first.
        hint: What to do if the run is not fully evaluated; otherwise "".
        unseen: Data that was not recorded.
        unjudged: Number of rules that were not evaluated, and what they need.
        numbers: Losses and other numbers.
        layers: Layers of the model.
    """
    width = printer.console.width if printer.on_terminal else None
    # Users copy paths, so they are not wrapped.
    before = [head, *(line for name, text in facts for line in _entry(name, text, None if name == "place" else width)),
              Text()]
    after = [*(_lines(hint, width) if hint else []),
             *_not_checked(unseen, unjudged, width, "" if problems else verdict),
             *_numbers(numbers, width, place), *_layers(layers, width), _more(place)]
    room = MOST_LINES - len(before) - len(after)
    typed = shlex.quote(place)
    body = [_styled(line) for line in problem_lines(problems, most=room, width=width,
                                                    more=f"barograph show {typed} --all")]
    for line in (*before, *(body or _lines(verdict, width)), *after):
        printer.console.print(line, soft_wrap=True)


def _not_checked(unseen: Sequence[str], unjudged: str, width: int | None, verdict: str) -> list[Text]:
    # The number of steps with tensors stands above, and the verdict may have the first of the rest.
    texts = [text for text in unseen if not text.startswith(OF_TENSORS) and text not in verdict]
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    lines = _entry("not seen", f"{texts[0]}{more}", width) if texts else []
    return [*lines, *(_entry("rules", unjudged, width) if unjudged else [])]


def _numbers(numbers: Sequence[Number], width: int | None, place: str) -> list[Text]:
    lines: list[Text] = []
    numbers = without_repeats(numbers)
    for number in [number for number in numbers if not number.constant][:_MOST_NUMBERS]:
        least, step = number.least()
        mode = mode_in_brackets(number)
        at = f", min {figure(least)} at step {step:,}" if step >= 0 else ""
        lines += _lines(f"{number.series.key}{mode}: {figure(number.first)} to {figure(number.last)}{at}", width)
    more = f"barograph keys {shlex.quote(place)} --kind scalar"
    if constants := constants_line([number for number in numbers if number.constant], more=more):
        lines += _lines(constants, width)
    return [Text(), *lines] if lines else []


def _layers(layers: Sequence[LayerRow], width: int | None) -> list[Text]:
    if not layers:
        return []
    health = health_of(layers)
    named = [f"{health[name]} {name}" for name in (*(item.value for item in Severity), NOT_FINITE, OK) if health[name]]
    return _lines(f"{len(layers)} layers: {', '.join(named)}", width)


def _more(place: str) -> Text:
    return Text.assemble((f"  more: barograph show {shlex.quote(place)} --rules | --layers | --all", "dim"))


def _entry(name: str, text: str, width: int | None) -> list[Text]:
    return [Text(line) for line in wrapped(f"  {name:<9} ", shown(text), width)]


def _lines(text: str, width: int | None) -> list[Text]:
    return [Text(line) for line in wrapped("  ", shown(text), width)]


def _styled(line: str) -> Text:
    text = Text(line)
    word = line[_SEVERITY_COLUMN:].partition(" ")[0]
    if word in tuple(Severity):
        text.stylize(SEVERITY_STYLES[Severity(word)], _SEVERITY_COLUMN, _SEVERITY_COLUMN + len(word))
    return text
