"""The compiled function inside an observed JAX step, and its second version that returns statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from barograph.capture.jax import foreign
from barograph.capture.jax.alone import losses_alone
from barograph.capture.jax.carried import carried_on
from barograph.capture.jax.harvest import (
    Basket,
    Found,
    Wants,
    changes_in,
    harvest,
    marks_of,
    places_of,
    steps_in,
    withheld,
)  # fmt: skip
from barograph.capture.jax.marks import SCORES, TARGETS
from barograph.capture.jax.names import path_of
from barograph.capture.jax.products import products_of
from barograph.capture.jax.proof import Proof, copies
from barograph.capture.jax.zeros import stillness_of
from barograph.errors import UnsupportedCapture
from barograph.model.key import Kind

Call = Callable[..., Any]

_NO_TENSORS = frozenset({Kind.LEARNING_RATE, Kind.LOSS, Kind.FACT})

_OF_PROBE = frozenset({SCORES, TARGETS})

_SLOTS = ("jitted_fn", "_cached")
"""Attributes in which Flax NNX and Equinox keep the function that `jax.jit` returned."""


@dataclass(slots=True)
class Harvested:
    """The arguments and results of a call of such a version.

    Attributes:
        version: The called version.
        given: Flattened arguments.
        outs: Flattened results of the step.
        values: Additional results, see `version.found`; they may still be computed. None: among the joined ones.
        joined: Joined results, see `version.places`.
    """

    version: Version
    given: Sequence[Any]
    outs: list[Any]
    values: Sequence[Any]
    joined: Mapping[str, Any]

    @property
    def results(self) -> Any:
        """The results of the step in their structure."""
        return self.version.program.results(self.outs)


class Program:
    """One traced form of a compiled function, for arguments of certain shapes.

    Args:
        function: Result of `jax.jit`.
        args, kwargs: Its arguments.

    Attributes:
        steps: Number of optimizer steps per call.
        marks: Its marks.
        kinds: Kinds of marked tensors, for which another version is worth calling.
        stillness: Parameters that cannot change, by the trace alone.
        many_devices: The arguments are on several devices.
        branches: Its computation depends on its arguments: steps say nothing about branches not taken.
        is_mapped: It runs under `pmap`: its results have an axis of devices.
        given_bytes: Memory of all argument arrays.
        gives_away: Some of them are donated.
        structure: Structure of the array arguments.
    """

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._traced = _anew(function).trace(*args, **kwargs)
        self._static = _static_of(function, args)
        self._closed = self._traced.jaxpr
        self.steps = steps_in(self._closed.jaxpr)
        self.marks = marks_of(self._closed.jaxpr)
        self._products = products_of(self._closed.jaxpr, self.names, self.marks)
        self.marks += [product.mark for product in self._products.values()]
        self.kinds = frozenset(mark.kind for mark in self.marks if mark.role not in _OF_PROBE) - _NO_TENSORS
        self.stillness = stillness_of(self._closed.jaxpr, self._closed.consts)
        self._changes = changes_in(self._closed.jaxpr)
        self._alone = losses_alone(self._closed.jaxpr)
        self.branches = _has_branches(self._closed.jaxpr)
        leaves = self.leaves(args, kwargs)
        self._still = ({number: args[number] for number in self._static[0]},
                       {name: kwargs[name] for name in self._static[1] if name in kwargs}, len(args))
        self.structure = jax.tree.structure(self._dynamic(args, kwargs))
        self.many_devices = any(len(leaf.sharding.device_set) > 1 for leaf in leaves if isinstance(leaf, jax.Array))
        self.is_mapped = _is_mapped(function)
        self.given_bytes = sum(int(getattr(leaf, "nbytes", 0)) for leaf in leaves)
        self.gives_away = any(self.donated)
        self._donated_kinds = frozenset((info.shape, info.dtype) for info in jax.tree.leaves(self._traced.args_info)
                                        if info.donated)
        self._carried: Mapping[int, int] | None = None

    @property
    def closed(self) -> Any:
        """The traced function."""
        return self._closed

    @property
    def donated(self) -> tuple[bool, ...]:
        """Whether each argument array is donated."""
        return tuple(bool(info.donated) for info in jax.tree.leaves(self._traced.args_info))

    def may_donate(self, result: Any) -> bool:
        """Return whether the next call may donate a result: it donates an argument of that shape and type."""
        return (result.shape, result.dtype) in self._donated_kinds

    @property
    def avals(self) -> list[Any]:
        """The shape and type of each array among the arguments; empty if the step also closes over arrays."""
        infos = jax.tree.leaves(self._traced.args_info)
        if len(infos) != len(self._closed.jaxpr.invars):
            return []
        return [_like(info, var.aval) for info, var in zip(infos, self._closed.jaxpr.invars, strict=True)]

    def leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arrays among the arguments, in the order of the traced function."""
        return self.flat(args, kwargs)[0]

    def flat(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """Return the arrays among the arguments, and their structure."""
        leaves, structure = jax.tree.flatten(self._dynamic(args, kwargs))
        return leaves, structure

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with these arrays; other arguments are those of the trace."""
        dynamic, named = jax.tree.unflatten(self.structure, leaves)
        positions, names, count = self._still
        moving = iter(dynamic)
        args = tuple(positions[number] if number in positions else next(moving) for number in range(count))
        return args, {**named, **names}

    def _dynamic(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        positions, names = self._static
        return (tuple(arg for number, arg in enumerate(args) if number not in positions),
                {name: value for name, value in kwargs.items() if name not in names})

    def compile(self, wants: Wants, *, on_host: bool, bound: float | None = None, keeps: bool = False,
                apart: bool = False) -> Version:
        """Return another version of the function, with additional results.

        Args:
            wants: Returns what to record of a mark.
            on_host: The program runs on the host: it calls the native loop for statistics; without the native loop, it
                returns whole tensors if possible, because their reader shares the memory.
            bound: Withhold updates with non-finite gradients or a norm above it. None: never.
            keeps: Keep donated arguments, so that the step can be undone.
            apart: Return only the additional results: another program makes the step.
        """
        infos, avals = jax.tree.leaves(self._traced.args_info), self.avals
        closed, calls = self._closed, on_host and foreign.is_there()

        def basket_of() -> Basket:
            return Basket(wants, on_host, calls, bound=bound, products=self._products, changes=self._changes)

        outcome = basket_of()
        if len(avals) != len(closed.jaxpr.invars):
            raise UnsupportedCapture("The step closes over arrays, which this version of JAX handles separately.")

        def run(*leaves: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
            basket = basket_of()
            found = harvest(closed.jaxpr, closed.consts, leaves, basket)
            outcome.found, outcome.passed_over = basket.found, basket.passed_over
            unfit = basket.unfit()
            if unfit is not None:
                for place, source in self.carried.items():
                    found[place] = withheld(unfit, leaves[source], found[place])
            return [] if apart else found, *basket.handed_out()

        jax.eval_shape(run, *avals)
        donated = () if keeps or apart else tuple(number for number, info in enumerate(infos) if info.donated)
        shardings = getattr(self._traced, "_params", {}).get("in_shardings")
        compiled = jax.jit(run, donate_argnums=donated, keep_unused=True,
                           **({} if shardings is None else {"in_shardings": shardings}))
        return Version(self, compiled, tuple(outcome.found), frozenset(outcome.passed_over), frozenset(donated))

    @property
    def carried(self) -> Mapping[int, int]:
        """Which result replaces which argument in the next call, by index."""
        if self._carried is None:
            self._carried = carried_on(self._traced.args_info, self._traced.out_info)
        return self._carried

    def loss_alone(self, found: Any, loss: Any) -> str:
        """Return the loss function whose mean a loss is, without additions; "": unknown.

        Args:
            found: Results of the step.
            loss: A leaf of them.
        """
        leaves = jax.tree.leaves(found)
        place = next((number for number, leaf in enumerate(leaves) if leaf is loss), None)
        if place is not None and len(leaves) == len(self._alone):
            return self._alone[place]
        # Flax NNX and Equinox assemble their results from those of the compiled function.
        shape = getattr(loss, "shape", ())
        fitting = {name for name, info in zip(self._alone, jax.tree.leaves(self._traced.out_info), strict=True)
                   if info.shape == shape and jnp.issubdtype(info.dtype, jnp.floating)}
        return fitting.pop() if len(fitting) == 1 else ""

    @property
    def names(self) -> list[str]:
        """Name of each argument: its position, and its path there."""
        return [".".join(filter(None, (path_of(keys[1:2]), path_of(keys[2:])))) for keys, _ in
                jax.tree_util.tree_flatten_with_path(self._traced.args_info)[0]]

    @property
    def result_names(self) -> list[str]:
        """Name of each result: its position, and its path there."""
        return [".".join(filter(None, (path_of(keys[:1]), path_of(keys[1:])))) or "result" for keys, _ in
                jax.tree_util.tree_flatten_with_path(self._traced.out_info)[0]]

    def results(self, outs: Sequence[Any]) -> Any:
        """Return results as the step returns them."""
        return jax.tree.unflatten(self._traced.out_tree, outs)


class Version:
    """A compiled version of a step with additional results.

    Attributes:
        program: The traced form of the function.
        found: Additional results.
        places: Positions of the joined ones.
        passed_over: Marks inside operations without accessible body.
        donated: Donated arguments.
        calls: Number of calls so far.
        proof: Whether it makes the same steps as the user's function.
    """

    def __init__(self, program: Program, run: Any, found: tuple[Found, ...], passed_over: frozenset[str],
                 donated: frozenset[int]) -> None:
        self.program, self.found, self.passed_over, self.donated = program, found, passed_over, donated
        self.calls, self.proof = 0, Proof()
        self.places = places_of(found)
        self._run = run

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, keeps: bool = False) -> Harvested:
        """Make the step; keep donated arguments if requested."""
        self.calls += 1
        leaves = self.program.leaves(args, kwargs)
        leaves = copies(leaves, self.donated) if keeps else leaves
        outs, values, joined = self._run(*leaves)
        return Harvested(self, leaves, outs, values, joined)

    def values_of(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """Return the whole additional results for these arguments, also while another function is traced."""
        _, values, _ = self._run(*leaves)
        return list(values)


class Compiled:
    """A step as the user compiled it: by `jax.jit`, `jax.pmap`, `nnx.jit` or `equinox.filter_jit`.

    Raises:
        UnsupportedCapture: It is none of these.
    """

    def __init__(self, step: Call) -> None:
        self.step = step
        self._slot = next((name for name in _SLOTS if hasattr(getattr(step, name, None), "trace")), "")
        if hasattr(step, "trace") and not self._slot:
            self.function: Any = step
        elif self._slot:
            self.function = getattr(step, self._slot)
        elif hasattr(step, "lower"):
            self.function = jax.jit(step)
        else:
            raise UnsupportedCapture(
                f"{getattr(step, '__name__', step)!r} is not compiled. Compile it: "
                "observe(jax.jit(step)), or use nnx.jit or equinox.filter_jit.")

    @property
    def name(self) -> str:
        """Name of the user's function."""
        return str(getattr(self.step, "__name__", "") or getattr(self.function, "__name__", ""))

    @property
    def takes_arguments_as_they_are(self) -> bool:
        """Whether the compiled function gets the step's arguments directly, unlike with Flax and Equinox."""
        return not self._slot

    @property
    def programs(self) -> int:
        """Number of compiled forms of the function so far; 0 if unknown."""
        size = getattr(self.function, "_cache_size", None)
        return 0 if size is None else int(size())

    def call(self, instead: Call | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the step, with `instead` in place of its compiled function."""
        if instead is None:
            return self.step(*args, **kwargs)
        if not self._slot:
            return instead(*args, **kwargs)
        with self._replaced(instead):
            return self.step(*args, **kwargs)

    @contextmanager
    def _replaced(self, instead: Call) -> Iterator[None]:
        # Bypass the immutability of Equinox objects; restored before anyone else can see it.
        object.__setattr__(self.step, self._slot, instead)
        try:
            yield
        finally:
            object.__setattr__(self.step, self._slot, self.function)


def signature(leaves: Sequence[Any], structure: Any) -> Any:
    """Return the identity of a traced form of a function."""
    return structure, tuple((getattr(leaf, "shape", None), getattr(leaf, "dtype", type(leaf)),
                             getattr(leaf, "weak_type", None), getattr(leaf, "sharding", None)) for leaf in leaves)


def _anew(function: Any) -> Any:
    """Return the same compiled function without its cached traces, which have no marks."""
    plain, info = getattr(function, "__wrapped__", None), getattr(function, "_jit_info", None)
    if plain is None or info is None:
        return function
    return jax.jit(lambda *args, **kwargs: plain(*args, **kwargs), static_argnums=info.static_argnums,
                   static_argnames=info.static_argnames, donate_argnums=info.donate_argnums,
                   donate_argnames=info.donate_argnames)


def _like(info: Any, aval: Any) -> Any:
    """Return a placeholder for an argument, with its sharding if that is part of its type."""
    place = getattr(aval, "sharding", None)
    explicit = bool(place is not None and getattr(place.mesh, "explicit_axes", ()))
    return jax.ShapeDtypeStruct(info.shape, info.dtype, **({"sharding": place} if explicit else {}))


def _is_mapped(function: Any) -> bool:
    plain = getattr(function, "__wrapped__", None)
    return hasattr(plain, "lower") and not hasattr(plain, "trace")


def _has_branches(jaxpr: Any) -> bool:
    return any(eqn.primitive.name == "cond" or any(map(_has_branches, core.jaxprs_in_params(eqn.params)))
               for eqn in jaxpr.eqns)


def _static_of(function: Any, args: tuple[Any, ...]) -> tuple[frozenset[int], frozenset[str]]:
    """Return the static arguments, which are compiled in."""
    info = getattr(function, "_jit_info", None)
    numbers = getattr(info, "static_argnums", ())
    positions = frozenset(number % len(args) for number in numbers if -len(args) <= number < len(args))
    return positions, frozenset(getattr(info, "static_argnames", ()))
