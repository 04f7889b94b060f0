"""Finds the results of a JAX step that its next call receives: parameters, optimizer state, train state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the arguments or of the results.

    Attributes:
        structure: Structure of its tree.
        kinds: Shape and type of each array.
        numbers: Indices of its arrays.
        place: Position among the arguments, or the results.
    """

    structure: Any
    kinds: tuple[Any, ...]
    numbers: tuple[int, ...]
    place: int

    def continues(self, given: _Part) -> bool:
        """Return whether this result can replace an argument."""
        if not self.numbers or self.structure != given.structure or self.kinds != given.kinds:
            return False
        # A single array could be anything; in the same position it is the same.
        return len(self.numbers) > 1 or (self.place == given.place and bool(self.kinds[0][0]))


def carried_on(args: Any, results: Any) -> Mapping[int, int]:
    """Return which result replaces which argument in the next call, by index.

    Args:
        args: Arguments of the function, `(args, kwargs)`, as shapes.
        results: Its results, as shapes.

    Example:
        >>> shape = jax.ShapeDtypeStruct((2,), "float32")
        >>> state = {"w": shape, "b": shape}
        >>> carried_on(((state, shape), {}), (jax.ShapeDtypeStruct((), "float32"), state))
        {1: 0, 2: 1}
    """
    numbered = _numbered(args)
    given = [part for group, numbers in zip(args, numbered, strict=True) for part in _parts_of(group, numbers)]
    found: dict[int, int] = {}
    free = list(given)
    for part in _results_of(results, _numbered(results), 0):
        match = next((item for item in free if part.continues(item)), None)
        if match is not None and not found.keys() & set(part.numbers):
            free.remove(match)
            found.update(zip(part.numbers, match.numbers, strict=True))
    return found or _common_beginning(args, results)


def _numbered(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, range(len(leaves)))


def _parts_of(group: Any, numbers: Any) -> Iterator[_Part]:
    names = list(group) if isinstance(group, dict) else range(len(group))
    for place, name in enumerate(names):
        yield _part(group[name], numbers[name], place)


def _results_of(tree: Any, numbers: Any, place: int) -> Iterator[_Part]:
    """Yield each part of the results, larger ones first."""
    yield _part(tree, numbers, place)
    if type(tree) in (tuple, list):
        for number, child in enumerate(tree):
            yield from _results_of(child, numbers[number], number)


def _part(tree: Any, numbers: Any, place: int) -> _Part:
    leaves, structure = jax.tree.flatten(tree)
    return _Part(structure, tuple(_kind(leaf) for leaf in leaves), tuple(jax.tree.leaves(numbers)), place)


def _common_beginning(args: Any, results: Any) -> Mapping[int, int]:
    """Return the common prefix of arguments and results, for libraries that pass objects as flat lists."""
    ours = [(number, _kind(leaf)) for number, leaf in enumerate(jax.tree.leaves(results))]
    if ours and not ours[0][1][0] and len(ours) > 1:
        ours = ours[1:]  # Equinox returns a marker first
    found = {}
    for (number, kind), (source, leaf) in zip(ours, enumerate(jax.tree.leaves(args)), strict=False):
        if kind != _kind(leaf):
            break
        found[number] = source
    return found


def _kind(leaf: Any) -> tuple[Any, Any]:
    return tuple(leaf.shape), str(leaf.dtype)
