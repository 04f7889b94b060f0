"""The values of a trial, as the user of a study passes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.errors import TuneError
from barograph.tune.spec import Objective
from barograph.watch.figures import count

Values = float | Sequence[float] | Mapping[str, float]
"""A number; or one for each objective, in order or by name."""


def values_from(values: Any, objectives: Sequence[Objective]) -> tuple[float, ...]:
    """Return one value for each objective.

    Raises:
        TuneError: Their number is wrong, or one is not a number.

    Example:
        >>> values_from({"latency": 3, "accuracy": 0.5}, [Objective("accuracy", True), Objective("latency")])
        (0.5, 3.0)
    """
    names = [objective.name for objective in objectives]
    if isinstance(values, Mapping):
        if missing := [name for name in names if name not in values]:
            raise TuneError(f"The values have no {', '.join(missing)}.")
        found: Sequence[Any] = [values[name] for name in names]
    else:
        found = values if isinstance(values, list | tuple) else [values]
    if len(found) != len(names):
        raise TuneError(f"A trial has {count(len(names), 'value')} ({', '.join(names)}), not {len(found)}.")
    return tuple(_number(value) for value in found)


def _number(value: Any) -> float:
    if not isinstance(value, str | bytes):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):  # of an array with several elements, for example
            pass
    raise TuneError(f"A value of a trial must be a number, not {value!r:.80}.")
