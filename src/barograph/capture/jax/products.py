"""Finds the layers of a traced JAX step of plain functions: where activations meet a parameter.

The first product of a parameter in the trace is that of the forward pass. Its result is the output of a layer, named
after
the path of its parameters: `l1` for `l1.kernel`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax.extend import core

from barograph.capture.jax.calls import CALLS
from barograph.capture.jax.harvest import marks_in
from barograph.capture.jax.marks import MARK, Mark
from barograph.model.key import Kind

_AS_IT_IS = frozenset({"convert_element_type", "copy", "copy_p", "transpose", "optimization_barrier", "squeeze",
                       "reduce_precision"})


_LOOKED_INTO = CALLS | {"scan", "shard_map"}


@dataclass(frozen=True, slots=True)
class Product:
    """The output of one layer.

    Attributes:
        mark: Its mark.
        axis: Axis of units in the output.
    """

    mark: Mark
    axis: int


def products_of(jaxpr: Any, names: Sequence[str], marks: Iterable[Mark]) -> Mapping[int, Product]:
    """Return the layers' outputs by the identity of the operations that make them.

    Args:
        jaxpr: The step, with marks.
        names: Names of its arguments, by position and path: `0.l1.kernel`.
        marks: All its marks, whose paths are not used again.
    """
    marks = tuple(marks)
    learnt = {mark.path for mark in marks if mark.kind is Kind.GRADIENT}
    parameters = [path if (path := name.partition(".")[2]) in learnt else "" for name in names]
    found: dict[str, tuple[Any, int, str]] = {}
    if len(parameters) == len(jaxpr.invars):
        _walk(jaxpr, parameters, found)
    named = {mark.path for mark in marks if mark.kind is Kind.OUTPUT}
    layers = Counter(path.rpartition(".")[0] for path in found)
    products = {}
    for path, (eqn, axis, layer) in found.items():
        around = path.rpartition(".")[0]
        place = around if around and layers[around] == 1 else path
        if place not in named and around not in named:
            products[id(eqn)] = Product(Mark(Kind.OUTPUT, place, layer), axis)
    return products


def _walk(jaxpr: Any, given: Sequence[str], found: dict[str, tuple[Any, int, str]]) -> None:
    known = {var: path for var, path in zip(jaxpr.invars, given, strict=True) if path}

    def path_of(atom: Any) -> str:
        return "" if isinstance(atom, core.Literal) else known.get(atom, "")

    for eqn in jaxpr.eqns:
        paths = [path_of(atom) for atom in eqn.invars]
        name, inner = eqn.primitive.name, eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if eqn.primitive is MARK or name in _AS_IT_IS:
            if paths[0]:
                known[eqn.outvars[0]] = paths[0]
        elif name in _LOOKED_INTO and inner is not None and marks_in(getattr(inner, "jaxpr", inner)):
            _walk(getattr(inner, "jaxpr", inner), paths, found)
        elif name in ("dot_general", "conv_general_dilated") and bool(paths[0]) != bool(paths[1]):
            axis = _unit_axis(eqn, of_first=bool(paths[0]))
            if axis is not None:
                found.setdefault(paths[0] or paths[1], (eqn, axis, _layer_of(eqn)))


def _unit_axis(eqn: Any, *, of_first: bool) -> int | None:
    """Return the axis of a product that has the parameter's units; None: there is no single one."""
    numbers = eqn.params["dimension_numbers"]
    if eqn.primitive.name == "conv_general_dilated":
        return None if of_first else int(numbers.out_spec[1])
    (of_left, of_right), (batch, _) = numbers
    mine, contracted = eqn.invars[0 if of_first else 1].aval, of_left if of_first else of_right
    if len(mine.shape) - len(contracted) - len(batch) != 1:
        return None
    return len(batch) if of_first else len(eqn.outvars[0].aval.shape) - 1


def _layer_of(eqn: Any) -> str:
    if eqn.primitive.name == "dot_general":
        return "Linear"
    return f"Conv{len(eqn.outvars[0].aval.shape) - 2}d"
