"""Transforms a traced JAX step into one that also returns marked values, inside loops and branches too.

All operations of the step remain, in their order; additions only read. Some tensors are computed twice, for reading
(`flow.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core
from jax.sharding import PartitionSpec

from barograph.capture.jax import foreign
from barograph.capture.jax.calls import called, scanned
from barograph.capture.jax.flow import Flow
from barograph.capture.jax.joining import Places, Shapes, joined
from barograph.capture.jax.marks import MARK, Mark
from barograph.capture.jax.reduce import identity_like, reduce
from barograph.capture.plan import Taking
from barograph.model.activations import bound_of
from barograph.model.key import Kind

if TYPE_CHECKING:
    from barograph.capture.jax.products import Product

_Around = tuple[int, ...]
"""The loops and branches around an operation, each by its identity."""

Wants = Callable[[Mark], Taking | None]
"""Returns what to record of a marked tensor; None: nothing."""

GATE = "gate"
"""Role of the gradient measurements: for each gradient the sum of squares, and 1 if it is non-finite."""

DEVICES = "devices"
"""Axis of the devices of a `shard_map` or `pmap`."""

_WITH_UNITS = frozenset({Kind.OUTPUT, Kind.INPUT, Kind.BATCH, Kind.TARGET})
_OF_STEPS = frozenset({Kind.GRADIENT, Kind.UPDATE})


@dataclass(frozen=True, slots=True)
class Found:
    """An additional result of a transformed step.

    Attributes:
        mark: Its mark.
        taking: What to record of it.
        shape: Shape of the tensor.
        dtype: Type of its elements.
        whole: The tensor itself, or an array of integers, rather than statistics.
        parts: Shapes of its statistics, from the native loop or from `reduce`; None: it is whole.
        axes: Meanings of the leading axes, the outermost first: the number of a scan, or `DEVICES`.
    """

    mark: Mark
    taking: Taking
    shape: tuple[int, ...]
    dtype: str
    whole: bool
    parts: Shapes | None = None
    axes: tuple[str, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether the native loop computes its statistics."""
        return self.parts is not None and "moments" in self.parts


@dataclass(frozen=True, slots=True)
class Lies:
    """The memory layout of a tensor's elements.

    Attributes:
        array: The tensor.
        order: Its axes in memory order, the outermost first; (): by number.
        fixed: The compiler must use that order, so that it need not copy the tensor for us; not if that could change
            bits.
    """

    array: Any
    order: tuple[int, ...] = ()
    fixed: bool = False


@dataclass(slots=True)
class Basket:
    """Values collected while a step is traced again.

    Attributes:
        wants: Returns what to record.
        wholes: Return whole tensors outside loops and branches, because their reader shares the memory.
        calls: The program calls the native loop for statistics.
        found: Descriptions of the values.
        values: Traced values, in the same order.
        scans: Number of loops so far, which numbers them.
        passed_over: Marks inside operations without accessible body.
        products: Outputs of unmarked layers, by the identity of the operations that make them.
        changes: Paths of parameters whose update is the change of weights rather than the optimizer's result.
        loops: Search loops, branches and per-device functions.
        bound: Maximum norm of gradients: a loop iteration that exceeds it keeps the carried values. None: no check.
    """

    wants: Wants
    wholes: bool
    calls: bool = False
    found: list[Found] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    scans: int = 0
    passed_over: set[str] = field(default_factory=set)
    bound: float | None = None
    products: Mapping[int, Product] = field(default_factory=dict)
    changes: frozenset[str] = frozenset()
    loops: bool = True

    def take(self, array: Any, mark: Mark, before: Any = None, lies: Lies | None = None,
             read: Callable[[], Any] | None = None) -> None:
        """Collect one marked tensor, and its difference from the earlier one, if known.

        Args:
            array: The tensor.
            mark: Its mark.
            before: The earlier tensor; None: unknown.
            lies: Its memory layout; None: by axis number, as far as known.
            read: Returns the input of the native loop; None: the tensor.
        """
        changes = mark.path in self.changes
        if mark.kind is Kind.UPDATE and changes:
            return
        if self.bound is not None and mark.kind is Kind.GRADIENT and not mark.role:
            self._put(_judged(array), Found(replace(mark, role=GATE), Taking(), tuple(array.shape), "float32", True))
        taking, change = self.wants(mark), replace(mark, kind=Kind.UPDATE)
        of_change = self.wants(change) if changes and before is not None else None
        if of_change is None:
            self._gather(array, mark, taking, lies, read=read)
        elif not self._uses_native(array, change, of_change):
            self._gather(array, mark, taking)
            self._gather(_difference(array, before), change, of_change, dtype=array.dtype)
        else:
            both = taking is not None and self._uses_native(array, mark, taking)
            itself, statistics = foreign.summarize_change(array, before, taking.histogram if taking and both else None,
                                                          of_change.histogram)
            if itself is None:
                self._gather(array, mark, taking)
            else:
                self._put(itself, _found_of(array, mark, taking or Taking(), itself))
            self._put(statistics, _found_of(array, change, of_change, statistics))

    def _uses_native(self, array: Any, mark: Mark, taking: Taking) -> bool:
        """Return whether the program calls the native loop for an array."""
        return self.calls and not taking.raw and not mark.role and foreign.takes(array)

    def _gather(
        self, array: Any, mark: Mark, taking: Taking | None, lies: Lies | None = None, dtype: Any = None,
        read: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        if taking is None:
            return
        units, known = taking.units and mark.kind in _WITH_UNITS, bound_of(mark.layer)
        bound = math.nan if known is None else known
        if self._uses_native(array, mark, taking):
            # No barrier, so that the compiler fuses its computation as it would without us.
            if lies is None or units:
                lies = Lies(array if read is None else read())
            statistics = foreign.summarize(
                lies.array, taking.histogram, order=lies.order, fixed=lies.fixed, units=units, bound=bound)
            self._put(statistics, _found_of(array, mark, taking, statistics))
            return
        # Make it a separate array, which the next call cannot donate.
        value = lax.optimization_barrier(array)
        whole = taking.raw or bool(mark.role) or (self.wholes and not (self.calls and foreign.takes(array)))
        dtype = array.dtype if dtype is None else dtype
        found = Found(mark, taking, tuple(array.shape), jnp.dtype(dtype).name, whole)
        if whole:
            self._put(value.astype(dtype), found)
        else:
            reduced = reduce(value, taking.histogram, units=units, bound=bound)
            self._put(reduced, replace(found, parts=_shapes(reduced)))

    def _put(self, value: Any, found: Found) -> None:
        self.values.append(value)
        self.found.append(found)

    def unfit(self) -> Any:
        """Return whether the collected gradients exceed the bound; those of loops were checked there."""
        judged = [jnp.reshape(value, (-1, 2)) for item, value in zip(self.found, self.values, strict=True)
                  if item.mark.role == GATE and not any(axis != DEVICES for axis in item.axes)]
        if not judged or self.bound is None:
            return None
        # If devices have the same gradients, use the maximum.
        squares, bad = zip(*((part[:, 0].max(), part[:, 1].max()) for part in judged), strict=True)
        return (sum(bad) > 0) | (jnp.sqrt(sum(squares)) > self.bound)

    def handed_out(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the additional results of a program: each value, or None if it is among the joined ones."""
        together = places_of(self.found).numbers
        values = [None if number in together else value for number, value in enumerate(self.values)]
        return values, joined([self.values[number] for number in together])

    def within(self) -> Basket:
        """Return a basket for the inside of a loop or a branch, where tensors are reduced."""
        return replace(self, wholes=False, found=[], values=[])

    def anew(self) -> Basket:
        """Return an empty copy: the inside of a loop is traced more than once."""
        return self.within()

    def add(self, inner: Basket, values: Sequence[Any], axis: str = "") -> None:
        """Add the values collected inside, with an additional axis."""
        self.scans = max(self.scans, inner.scans)
        self.found += [replace(item, axes=(axis, *item.axes)) if axis else item for item in inner.found]
        self.values += values


class Returns(Protocol):
    """The additional results of a transformed step.

    Attributes:
        found: Their descriptions.
        places: Positions of the joined ones.
    """

    @property
    def found(self) -> Sequence[Found]: ...

    @property
    def places(self) -> Places: ...


def places_of(found: Sequence[Found]) -> Places:
    """Return the positions of joined statistics: all except 64-bit ones and those inside loops."""
    return Places({number: item.parts for number, item in enumerate(found) if item.parts is not None and not item.axes
                   and (item.is_native or jnp.dtype(item.dtype).itemsize < 8)})


def withheld(unfit: Any, before: Any, after: Any) -> Any:
    """Return the values after an update: the earlier ones if its gradients exceeded the bound."""
    return jnp.where(unfit, before, after)


def _found_of(array: Any, mark: Mark, taking: Taking, statistics: foreign.Statistics) -> Found:
    return Found(mark, taking, tuple(array.shape), jnp.dtype(array.dtype).name, False, _shapes(statistics))


def _shapes(statistics: Mapping[str, Any]) -> Shapes:
    return {name: part.shape for name, part in statistics.items()}


def _difference(array: Any, before: Any) -> Any:
    """Return the change of an array, in float32 for narrower types."""
    wide = array.dtype if array.dtype.itemsize >= 4 else jnp.float32
    # Behind a barrier, so that the compiler uses the rounded value rather than the one before rounding.
    return lax.optimization_barrier(array).astype(wide) - before.astype(wide)


def _judged(gradient: Any) -> Any:
    magnitude = jnp.abs(gradient).astype(jnp.float32)
    return jnp.stack([jnp.sum(magnitude * magnitude), jnp.any(~jnp.isfinite(gradient)).astype(jnp.float32)])


def marks_in(jaxpr: Any) -> bool:
    """Return whether a traced function contains marks, at any depth."""
    return any(eqn.primitive is MARK or any(map(marks_in, core.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)


def marks_of(jaxpr: Any) -> list[Mark]:
    """Return everything that is marked in a traced function, at any depth."""
    found: list[Mark] = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is MARK:
            found.append(eqn.params["mark"])
        for inner in core.jaxprs_in_params(eqn.params):
            found += marks_of(inner)
    return found


def changes_in(jaxpr: Any) -> frozenset[str]:
    """Return the paths of updates that the weights also show, by their earlier values.

    If updates are applied for another purpose, too, such as averaging weights, or in another branch or loop than they
    are made, it is unknown which weights belong to the update, or to each step.
    """
    traced: dict[Kind, dict[str, list[_Around]]] = {Kind.UPDATE: {}, Kind.WEIGHT: {}}
    _look_for_changes(jaxpr, (), traced)
    updates, weights = traced[Kind.UPDATE], traced[Kind.WEIGHT]
    return frozenset(path for path, places in updates.items() if _are_around(weights.get(path, ()), places))


def _are_around(weights: Sequence[_Around], updates: Sequence[_Around]) -> bool:
    """Return whether there are weights for each update, in the same place or further out."""
    return len(weights) == len(updates) and all(
        update[: len(weight)] == weight for weight, update in zip(sorted(weights), sorted(updates), strict=True))


def _look_for_changes(jaxpr: Any, around: _Around, traced: Mapping[Kind, dict[str, list[_Around]]]) -> None:
    for eqn in jaxpr.eqns:
        if eqn.primitive is MARK:
            mark = eqn.params["mark"]
            if mark.kind is Kind.UPDATE or (mark.kind is Kind.WEIGHT and len(eqn.invars) > 1):
                traced[mark.kind].setdefault(mark.path, []).append(around)
        elif not eqn.params.get("differentiated"):
            function = called(eqn)
            if function is not None:
                _look_for_changes(function[0], around, traced)
            elif eqn.primitive.name in _INTO:
                for inner in core.jaxprs_in_params(eqn.params):
                    _look_for_changes(inner, (*around, id(inner)), traced)


def steps_in(jaxpr: Any) -> int:
    """Return the number of optimizer steps per call: the iterations of the loops around a marked update."""
    found = 1
    for eqn in jaxpr.eqns:
        for inner in core.jaxprs_in_params(eqn.params):
            if _marks_steps(inner):
                turns = eqn.params["length"] if eqn.primitive is core.primitives.scan_p else 1
                found = max(found, turns * steps_in(inner))
    return found


def _marks_steps(jaxpr: Any) -> bool:
    return any((eqn.primitive is MARK and eqn.params["mark"].kind in _OF_STEPS)
               or any(map(_marks_steps, core.jaxprs_in_params(eqn.params))) for eqn in jaxpr.eqns)


def harvest(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], basket: Basket, *, outermost: bool = True
            ) -> list[Any]:
    """Evaluate a traced function while another is traced, collect marked values, and return its results.

    Args:
        jaxpr, consts: The function and its constants.
        args: Its arguments.
        basket: Collects the values.
        outermost: It is not nested in another.
    """
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    flow = Flow(jaxpr, outermost=outermost)
    for eqn in jaxpr.eqns:
        given = [value(atom) for atom in eqn.invars]
        if eqn.primitive is MARK:
            before = given[1] if len(given) > 1 else None
            basket.take(given[0], eqn.params["mark"], before, _as_it_lies(eqn, flow, value),
                        functools.partial(flow.read_at, eqn, value))
            found: Sequence[Any] = given[:1]
        else:
            found = _evaluate(eqn, given, basket)
        known.update(zip(eqn.outvars, found, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _as_it_lies(eqn: Any, flow: Flow, value: Callable[[Any], Any]) -> Lies | None:
    """Return the memory layout of a result; None: by axis number, as far as known.

    On a CPU, results of a convolution have samples first and channels last, and a matrix product follows its operands.
    Gradients of kernels are such results and are transposed only when used: reading them in another order would copy
    them only for us.

    Args:
        eqn: The operation.
        flow: Data flow of its function.
        value: Returns the value of a variable.
    """
    if eqn.primitive.name == "conv_general_dilated":
        samples, channels, *places = eqn.params["dimension_numbers"].out_spec
        made = eqn.outvars[0]
        return Lies(value(made), (samples, *places, channels), fixed=not flow.feels_order(made))
    source = flow.made_by(eqn.invars[0]) if eqn.invars else None
    if source is None:
        return None
    if eqn.primitive is MARK:
        return _as_it_lies(source, flow, value)
    # For two axes the compiler swaps the operands.
    if eqn.primitive.name == "transpose" and source.primitive.name == "dot_general" and len(
            eqn.params["permutation"]) > 2:
        return Lies(value(eqn.invars[0]))
    return None


def _evaluate(eqn: Any, given: list[Any], basket: Basket) -> Sequence[Any]:
    # Values recomputed by a checkpointed function, for its gradient, were collected before.
    if not eqn.params.get("differentiated") and any(map(marks_in, core.jaxprs_in_params(eqn.params))):
        function, looks_into = called(eqn), _INTO.get(eqn.primitive.name)
        if function is not None:
            return harvest(*function, given, basket, outermost=False)
        if looks_into is not None and basket.loops:
            return looks_into(eqn, given, basket)
        basket.passed_over.add(eqn.primitive.name)
    with eqn.ctx.manager:
        found = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
    product = basket.products.get(id(eqn))
    if product is not None:
        basket.take(jnp.moveaxis(found, product.axis, -1), product.mark)
    return found if eqn.primitive.multiple_results else [found]


def _into_scan(eqn: Any, given: list[Any], basket: Basket) -> list[Any]:
    params, inner, gathered = eqn.params, eqn.params["jaxpr"], basket.within()
    gathered.scans += 1
    name = f"scan{gathered.scans}"
    consts, carried = scanned(eqn)

    def body(carry: list[Any], each: list[Any]) -> tuple[list[Any], tuple[list[Any], list[Any]]]:
        turn = gathered.anew()
        found = harvest(inner.jaxpr, inner.consts, [*given[:consts], *carry, *each], turn, outermost=False)
        gathered.found, gathered.scans = turn.found, turn.scans
        carried_on, unfit = found[:carried], turn.unfit()
        if unfit is not None:
            carried_on = [withheld(unfit, before, after) for before, after in zip(carry, carried_on, strict=True)]
        return carried_on, (found[carried:], turn.values)

    carry, (each, values) = lax.scan(body, given[consts : consts + carried], given[consts + carried :],
                                     length=params["length"], reverse=params["reverse"], unroll=params["unroll"])
    basket.add(gathered, values, name)
    return [*carry, *each]


def _into_branches(eqn: Any, given: list[Any], basket: Basket) -> list[Any]:
    """Search the branches of a `cond` or a `switch`: values of a branch not taken get count 0."""
    branches, operands = eqn.params["branches"], given[1:]
    baskets = [basket.within() for _ in branches]

    def run(number: int, *args: Any) -> tuple[list[Any], list[Any]]:
        gathered, branch = baskets[number].anew(), branches[number]
        found = harvest(branch.jaxpr, branch.consts, args, gathered, outermost=False)
        baskets[number] = gathered
        return found, gathered.values

    shapes = [jax.eval_shape(lambda *args, number=number: run(number, *args)[1], *operands)
              for number in range(len(branches))]

    def taken(number: int) -> Callable[..., tuple[list[Any], list[Any]]]:
        def branch(*args: Any) -> tuple[list[Any], list[Any]]:
            found, values = run(number, *args)
            return found, [values if other == number else identity_like(shape) for other, shape in enumerate(shapes)]

        return branch

    found: list[Any]
    found, values = lax.switch(given[0], [taken(number) for number in range(len(branches))], *operands)
    for gathered, its_values in zip(baskets, values, strict=True):
        basket.add(gathered, its_values)
    return found


def _into_shards(eqn: Any, given: list[Any], basket: Basket) -> list[Any]:
    """Search the function that runs on each device of a mesh: each returns its values, concatenated."""
    params, gathered = eqn.params, basket.within()
    axes = tuple(sorted(params["manual_axes"])) if "manual_axes" in params else tuple(params["mesh"].axis_names)

    def body(*args: Any) -> tuple[list[Any], list[Any]]:
        turn = gathered.anew()
        found = harvest(params["jaxpr"], (), args, turn, outermost=False)
        gathered.found, gathered.scans = turn.found, turn.scans
        return found, jax.tree.map(lambda value: value[None], turn.values)

    mapped = jax.shard_map(body, mesh=params["mesh"], in_specs=tuple(params["in_specs"]),
                           out_specs=(list(params["out_specs"]), PartitionSpec(axes)),
                           axis_names=set(axes), check_vma=params.get("check_vma", False))
    found, values = mapped(*given)
    basket.add(gathered, values, DEVICES)
    return list(found)


_INTO: dict[str, Callable[[Any, list[Any], Basket], list[Any]]] = {
    "scan": _into_scan,
    "cond": _into_branches,
    "shard_map": _into_shards,
}
