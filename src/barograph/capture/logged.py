"""Extracts the numbers from a logged dictionary, including nested ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def numbers_in(values: Mapping[Any, Any], passed_over: Callable[[str, Any], None] = lambda name, value: None,
               of: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers in a mapping by name; names in nested mappings are joined.

    Args:
        values: Name to number, to something with one element (waits for its device), or to another mapping.
        passed_over: Called with any other value and its name, except None.
        of: Prefix of each name.

    Example:
        >>> list(numbers_in({"loss": 0.5, "val": {"accuracy": 1}, "note": "text"}))
        [('loss', 0.5), ('val.accuracy', 1.0)]
    """
    for name, value in values.items():
        path = f"{of}.{name}" if of else str(name)
        if isinstance(value, Mapping):
            yield from numbers_in(value, passed_over, path)
        elif isinstance(value, int | float):
            yield path, float(value)
        elif _has_one_element(value):
            yield path, float(value.item() if hasattr(value, "item") else value)
        elif value is not None:
            passed_over(path, value)


def _has_one_element(value: Any) -> bool:
    """Return whether this is a tensor, an array or a scalar with one real number."""
    shape, dtype = getattr(value, "shape", None), str(getattr(value, "dtype", "complex"))
    return shape is not None and all(size == 1 for size in shape) and not any(
        kind in dtype for kind in ("complex", "str", "object", "<U", "|S"))
