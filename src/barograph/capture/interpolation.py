"""Flattens a nested configuration to dotted names, with its internal references resolved.

Nothing is computed: a reference that calls a resolver, such as `${now:%H}` or `${oc.env:HOME}`, stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

_REFERENCE = re.compile(r"\$\{(?P<up>\.*)(?P<path>[\w\-/]+(?:\.[\w\-/]+)*)\}")
_MOST_DEEP = 50
"""References that are followed, and tables within tables; beyond, they are taken for a circle."""

_LONGEST = 100_000
"""Maximum number of characters: references that occur twice in one another grow exponentially."""


def leaves_of(table: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield each value of a configuration by its name: `model.depth`, `layers.0.size`.

    A list of plain values is one value. References are replaced by their targets.

    Example:
        >>> list(leaves_of({"dim": 8, "layers": [{"size": "${dim}"}], "name": "of ${dim}", "at": "${now:%H}"}))
        [('dim', 8), ('layers.0.size', 8), ('name', 'of 8'), ('at', '${now:%H}')]
    """
    yield from _leaves(table, table, (), above, 0)


def _leaves(
    value: Any, whole: Any, at: tuple[str, ...], above: tuple[str, ...], depth: int
) -> Iterator[tuple[str, Any]]:
    value = _followed(value, whole, at)
    below: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        below = list(value.items())
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        below = list(enumerate(value))
    elif isinstance(value, list | tuple):
        yield ".".join((*above, *at)), [_followed(item, whole, (*at, str(place))) for place, item in enumerate(value)]
    elif at:
        yield ".".join((*above, *at)), value
    for name, item in below if depth < _MOST_DEEP else ():
        yield from _leaves(item, whole, (*at, str(name)), above, depth + 1)


def _followed(value: Any, whole: Any, at: tuple[str, ...]) -> Any:
    first = value
    for _ in range(_MOST_DEEP):
        if not isinstance(value, str) or "${" not in value:
            return value
        alone = _REFERENCE.fullmatch(value)
        if alone is not None:
            found = _at(whole, _target(alone, at))
        else:
            found = _REFERENCE.sub(partial(_text, whole, at), value)
        if found is None or found == value or (isinstance(found, str) and len(found) > _LONGEST):
            return value
        if alone is not None:
            at = _target(alone, at)
        value = found
    return first


def _text(whole: Any, at: tuple[str, ...], match: re.Match[str]) -> str:
    value = _at(whole, _target(match, at))
    return str(value) if isinstance(value, str | int | float) else match[0]


def _target(match: re.Match[str], at: tuple[str, ...]) -> tuple[str, ...]:
    up = len(match["up"])
    return (*(at[:-up] if up else ()), *match["path"].split("."))


def _at(whole: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if isinstance(whole, Mapping):
            whole = whole.get(part)
        elif isinstance(whole, list | tuple) and part.isdecimal() and int(part) < len(whole):
            whole = whole[int(part)]
        else:
            return None
    return whole
