"""Remedies that are tried on a held step: what each is, and what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from barograph.errors import SettingsError, UnknownName, nearest

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_NUMBERS = ("lr", "clip")
_KNOWN = (*_NUMBERS, "dtype", "without-sample")


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that is done otherwise.

    Attributes:
        name: "lr": the learning rate of all groups; "clip": the greatest norm of all gradients; "dtype": the type that
            operations are cast to; "without-sample": samples are left out.
        value: A number, or the name of a type; of "without-sample" row numbers with commas, "" for the guilty ones.
    """

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


def remedy_from(text: str) -> Remedy:
    """Return the remedy that a person typed.

    Raises:
        UnknownName: There is no such remedy, or no such type.
        SettingsError: Its value is no number above 0, or no rows.

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
    """What came of a step with a remedy.

    Attributes:
        finite: The loss, the gradients, and the weights after the update were, and so was all of the steps after it.
        good_steps: Steps of which all was finite, the held one first, up to one of which something was not.
        norm: Of all gradients as the optimizer used them.
        ratio: Norm of the update to that of the weights.
        losses: Of the held step and of those after it, which take the data that the script has next.
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
