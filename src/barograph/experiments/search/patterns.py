"""Rejects regular expressions that could take very long."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants, _parser  # type: ignore[attr-defined]  # Python has no public parser of patterns
from typing import Any

_MOST_REPETITIONS = 3
_FEW_TIMES = 1
_REPETITIONS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def why_slow(pattern: str) -> str:
    """Return why matching a pattern could take very long; "" if it cannot.

    Python tries alternatives one by one. Nested repetitions, or repeated alternatives, double their number with every
    character.

    Raises:
        re.error: It is not a regular expression.

    Example:
        >>> why_slow("^run-[0-9]+$"), why_slow("(lr|rate)_.*")
        ('', '')
        >>> why_slow("^(a+)+$")
        'it has nested repetitions'
    """
    try:
        tree = _parser.parse(pattern)
    except RecursionError:
        return "its parentheses nest too deeply"
    except OverflowError as error:
        raise re.error(str(error)) from error
    repetitions = 0
    for operator, argument, repeated in _walk(tree, repeated=False):
        if operator in (_constants.GROUPREF, _constants.GROUPREF_EXISTS):
            return "it has a backreference"
        if operator is _constants.BRANCH and repeated:
            return "it repeats alternatives"
        if operator in _REPETITIONS and argument[0] != argument[1] and argument[1] > _FEW_TIMES:
            if repeated:
                return "it has nested repetitions"
            repetitions += 1
    return f"it has more than {_MOST_REPETITIONS} repetitions" if repetitions > _MOST_REPETITIONS else ""


def _walk(tree: Iterable[tuple[Any, Any]], *, repeated: bool) -> Iterable[tuple[Any, Any, bool]]:
    """Yield every part of a pattern, and whether it is repeated."""
    for operator, argument in tree:
        yield operator, argument, repeated
        within = repeated or (operator in _REPETITIONS and argument[1] > _FEW_TIMES)
        for inner in _trees_in(argument):
            yield from _walk(inner, repeated=within)


def _trees_in(argument: Any) -> Iterable[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from _trees_in(item)
