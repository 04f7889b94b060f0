"""Fetches variables as arrays: one by one, or together if that is faster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from barograph.capture.keras.arrays import array_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.keras.backends import ValueOf

ReadAll = Callable[[], Sequence[Any]]
Reader = Callable[[Sequence[Any]], ReadAll | None]
WORTH_WHILE = 24
"""Number of variables in a group from which fetching them together is faster."""

TIMES = 6
"""Number of separate fetches of a group before a joint function is made, which takes tenths of a second."""


class Fetching:
    """Fetches the variables of one training.

    Args:
        reader: Makes, from the values of several variables, a function that returns all tensors; None: not possible.
        making: Returns the context for making it.
    """

    def __init__(self, reader: Reader | None, making: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reader = reader
        self._making = making
        self._groups: dict[str, _Group] = {}

    def arrays(self, name: str, variables: Mapping[str, Any], value: ValueOf) -> dict[str, Callable[[], NDArray[Any]]]:
        """Return by path functions for the elements that variables have when the first of them is called.

        Args:
            name: Name of the group.
            variables: Variables by path; the same object if none has changed.
            value: Returns the value of each.
        """
        if self._reader is None:
            return {path: functools.partial(_value_of, variable, value) for path, variable in variables.items()}
        group = self._groups.get(name)
        if group is None or not group.holds(variables):
            group = self._groups[name] = _Group(variables)
        read_all = group.begins(value, self._reader, self._making)
        if read_all is None:
            return {path: functools.partial(group.one, variable, value) for path, variable in variables.items()}
        tensors = functools.cache(read_all)
        return {path: functools.partial(_item_of, tensors, number) for number, path in enumerate(variables)}


class _Group:
    """Variables that are fetched together."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._held = tuple(variables.values())
        self._fetched = self._times = 0
        self._read_all: ReadAll | None = None

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Return whether these are they, still."""
        return self._variables is variables and len(self._held) == len(variables)

    def begins(
        self, value: ValueOf, reader: Reader, making: Callable[[], AbstractContextManager[Any]]
    ) -> ReadAll | None:
        """Return a function that fetches all, if that is worthwhile by now."""
        if self._times < TIMES:
            self._times = self._times + 1 if self._fetched >= WORTH_WHILE else 0
            self._fetched = 0
            if self._times == TIMES:  # try once
                with making():
                    self._read_all = reader([value(variable) for variable in self._held])
        return self._read_all

    def one(self, variable: Any, value: ValueOf) -> NDArray[Any]:
        """Fetch one variable."""
        self._fetched += 1
        return _value_of(variable, value)


def _item_of(tensors: ReadAll, number: int) -> NDArray[Any]:
    return array_of(tensors()[number])


def _value_of(variable: Any, value: ValueOf) -> NDArray[Any]:
    return array_of(value(variable))
