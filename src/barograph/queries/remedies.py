"""Remedies of problems: one thing to do, with the setting that it changes, without contradictions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from barograph.queries.consequences import DIRECTIONS, Direction

_MOST_CHARS = 170
_RATE = re.compile(r"\b(?P<verb>lower|raise) the (?P<setting>learning rate|momentum|weight decay)\b"
                   r"(?: from (?P<old>[\d.,e+-]*\d))?(?: to (?P<new>[\d.,e+-]*\d))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do.

    Attributes:
        text: A sentence.
        setting: The setting that it changes, such as "learning rate"; "" if none is known.
        old: Value in this run; None if unknown.
        new: Value to try; None if none is named.
        direction: Whether to raise or lower the setting; None if unknown.
    """

    text: str
    setting: str = ""
    old: float | None = None
    new: float | None = None
    direction: Direction | None = None


def remedy_of(cause: str, text: str) -> Remedy:
    """Return the first remedy in a text, with the setting that it changes.

    Args:
        cause: Name of the cause; "" if unknown.
        text: Remedy text of a rule.

    Example:
        >>> remedy_of("learning-rate-too-high", "Lower the learning rate from 30 to 3; or clip.").new
        3.0
        >>> remedy_of("learning-rate-too-high", "Lower the learning rate from 12,300 to 1,230.").old
        12300.0
    """
    first = first_advice(text)
    found = _RATE.search(first)
    if found is None:
        setting, direction = DIRECTIONS.get(cause, ("", None))
        return Remedy(first, setting, direction=direction)
    direction = Direction.DOWN if found["verb"].lower() == "lower" else Direction.UP
    return Remedy(first, found["setting"].lower(), _value(found["old"]), _value(found["new"]), direction)


def first_advice(text: str) -> str:
    """Return the first of several remedies: up to a semicolon outside parentheses, or the first sentence if long.

    Example:
        >>> first_advice("Clip gradients (clip_grad_norm_; clipnorm in Keras); lower the rate.")
        'Clip gradients (clip_grad_norm_; clipnorm in Keras).'
    """
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == ";" and depth <= 0:
            text = text[:place] + "."
            break
    if len(text) > _MOST_CHARS:
        text = re.split(r"(?<=[a-z0-9)])\. (?=[A-Z])", text, maxsplit=1)[0].rstrip(".") + "."
    return text


def without_conflicts(remedies: list[tuple[str, Remedy]]) -> list[Remedy]:
    """Return the remedies of a run's problems, without contradictory values for one setting.

    Args:
        remedies: Title and remedy of each problem, strongest evidence first.

    Returns:
        In the same order; a remedy that contradicts an earlier one says to fix that problem first.
    """
    moved: dict[str, tuple[str, Remedy]] = {}
    kept: list[Remedy] = []
    for title, remedy in remedies:
        if not remedy.setting or remedy.direction is None:
            kept.append(remedy)
            continue
        first_title, first = moved.setdefault(remedy.setting, (title, remedy))
        if first is remedy:
            kept.append(remedy)
        elif first.direction == remedy.direction:
            kept.append(first)
        else:
            kept.append(Remedy(f"First fix: {first_title}. Then train again."))
    return kept


def contradicting(remedies: list[Remedy]) -> int:
    """Return the number of pairs of remedies that change one setting in opposite directions or to different values."""
    moves = [item for item in remedies if item.setting and item.direction is not None]
    return sum(
        one.setting == other.setting and (one.direction, one.new) != (other.direction, other.new)
        for place, one in enumerate(moves) for other in moves[:place]
    )


def _value(text: str | None) -> float | None:
    try:
        return float(text.replace(",", "")) if text else None
    except ValueError:
        return None
