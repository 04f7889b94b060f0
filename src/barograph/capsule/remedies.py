"""Remedies to try on a saved step, and their results."""

from __future__ import annotations

import math
from dataclasses import dataclass

from barograph.errors import SettingsError, UnknownName, nearest

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_NUMBERS = ("lr", "clip")
_KNOWN = (*_NUMBERS, "dtype", "without-sample")


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change to try.

    Attributes:
        name: "lr": learning rate of all groups; "clip": maximum norm of all gradients; "dtype": type that operations
            are cast to; "without-sample": omit samples.
        value: A number, or the name of a type; for "without-sample" comma-separated row numbers, "" for the guilty
            ones.
    """

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


def remedy_from(text: str) -> Remedy:
    """Parse a remedy from the command line.

    Raises:
        UnknownName: The remedy or the type does not exist.
        SettingsError: Its value is not a number above 0, or not a list of rows.

    Example:
        >>> str(remedy_from("lr=1e-4")), str(remedy_from("without-sample"))
        ('lr=1e-4', 'without-sample')
    """
    name, _, value = text.partition("=")
    name, value = name.strip().replace("_", "-"), value.strip()
    if name not in _KNOWN:
        raise UnknownName(f'"{name}" is not a remedy. {nearest(name, _KNOWN)}')
    if name == "dtype" and value not in DTYPES:
        raise UnknownName(f'--try dtype is "{value}". {nearest(value, DTYPES)}')
    if name in _NUMBERS and not _is_above_zero(value):
        raise SettingsError(f'--try {name} is "{value}"; it must be a number above 0.')
    if name == "without-sample" and value and not all(part.strip().isdecimal() for part in value.split(",")):
        raise SettingsError(f'--try {name} is "{value}"; it must be row numbers separated by commas, or '
                            "empty for the suspected rows.")
    return Remedy(name, value)


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of a step with a remedy.

    Attributes:
        finite: The loss, the gradients, the weights after the update, and all later steps were finite.
        good_steps: Number of finite steps, the saved one included, before the first non-finite one.
        norm: Norm of all gradients as the optimizer used them.
        ratio: Norm of the update divided by that of the weights.
        losses: Losses of the saved step and of the steps after it, which use the script's next data.
    """

    finite: bool
    good_steps: int
    norm: float
    ratio: float
    losses: tuple[float, ...]


def _is_above_zero(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
