"""The compiled function inside an observed JAX step, and the second version of it, which returns statistics as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax

from barograph.capture.jax_harvest import Basket, Found, Wants, harvest, marks_of, steps_in
from barograph.errors import UnsupportedCapture

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Harvested:
    """What a call of the second version returned beside what the step returns.

    Attributes:
        found: What each value is.
        values: As arrays that may still be computed.
    """

    found: Sequence[Found]
    values: Sequence[Any]


class Program:
    """One traced form of a compiled function: of arguments of certain shapes.

    Args:
        function: What `jax.jit` returned.
        args, kwargs: As it is called.

    Attributes:
        steps: Optimizer steps that one call makes.
        marks: What is marked in it.
        calls: How often the second version was called.
        many_devices: The arguments lie on several devices.
    """

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._traced = _anew(function).trace(*args, **kwargs)
        self._static = _static_of(function, args, kwargs)
        self._closed = self._traced.jaxpr
        self.steps = steps_in(self._closed.jaxpr)
        self.marks = marks_of(self._closed.jaxpr)
        self.calls = 0
        leaves = self.leaves(args, kwargs)
        self.many_devices = any(len(leaf.sharding.device_set) > 1 for leaf in leaves if isinstance(leaf, jax.Array))
        self._run: Any = None
        self._found: tuple[Found, ...] = ()
        self.passed_over: frozenset[str] = frozenset()

    def leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arrays among the arguments, in the order of the traced function."""
        positions, names = self._static
        dynamic = tuple(arg for number, arg in enumerate(args) if number not in positions)
        named = {name: value for name, value in kwargs.items() if name not in names}
        leaves: list[Any] = jax.tree.leaves((dynamic, named))
        return leaves

    def compile(self, wants: Wants, *, wholes: bool) -> None:
        """Make the second version.

        Args:
            wants: What is taken of what is marked.
            wholes: Tensors are returned whole where that is possible: what reads them lies in the same memory.
        """
        infos = jax.tree.leaves(self._traced.args_info)
        donated = [number for number, info in enumerate(infos) if info.donated]
        closed, extra = self._closed, len(self._closed.jaxpr.invars) - len(infos)
        if extra:
            raise UnsupportedCapture("The step closes over arrays in a way that this version of JAX keeps apart.")
        outcome = Basket(wants, wholes)

        def run(*leaves: Any) -> tuple[list[Any], list[Any]]:
            basket = Basket(wants, wholes)
            found = harvest(closed.jaxpr, closed.consts, leaves, basket)
            outcome.found, outcome.passed_over = basket.found, basket.passed_over
            return found, basket.values

        given = getattr(self._traced, "_params", {})
        shardings = {name: value for name, value in (("in_shardings", given.get("in_shardings")),) if value is not None}
        self._run = jax.jit(run, donate_argnums=donated, keep_unused=True, **shardings)
        avals = [jax.ShapeDtypeStruct(info.shape, info.dtype) for info in infos]
        jax.eval_shape(run, *avals)
        self._found, self.passed_over = tuple(outcome.found), frozenset(outcome.passed_over)

    @property
    def compiled(self) -> bool:
        """Whether there is a second version."""
        return self._run is not None

    def forget(self) -> None:
        """Have the second version made anew: something else is taken."""
        self._run = None

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Harvested]:
        """Call the second version; return what the step returns, and what is marked in it."""
        self.calls += 1
        outs, values = self._run(*self.leaves(args, kwargs))
        return jax.tree.unflatten(self._traced.out_tree, outs), Harvested(self._found, values)


class Compiled:
    """A step as the user compiled it: by `jax.jit`, `jax.pmap`, `nnx.jit` or `equinox.filter_jit`.

    Raises:
        UnsupportedCapture: It is none of these.
    """

    def __init__(self, step: Call) -> None:
        self.step = step
        self._slot = next((name for name in ("jitted_fn", "_cached") if hasattr(getattr(step, name, None), "trace")), "")
        if hasattr(step, "trace") and not self._slot:
            self.function: Any = step
        elif self._slot:
            self.function = getattr(step, self._slot)
        elif hasattr(step, "lower"):
            self.function = jax.jit(step)
        else:
            raise UnsupportedCapture(
                f"{getattr(step, '__name__', step)!r} is not compiled, so there is no program to add statistics to; "
                "write observe(jax.jit(step)), or the same with nnx.jit or equinox.filter_jit.")

    def call(self, instead: Call | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the step, with `instead` in place of the compiled function within it."""
        if instead is None:
            return self.step(*args, **kwargs)
        if not self._slot:
            return instead(*args, **kwargs)
        with self._replaced(instead):
            return self.step(*args, **kwargs)

    @contextmanager
    def _replaced(self, instead: Call) -> Iterator[None]:
        # Past what makes the objects of Equinox unchangeable; it is put back before anybody else can see it.
        object.__setattr__(self.step, self._slot, instead)
        try:
            yield
        finally:
            object.__setattr__(self.step, self._slot, self.function)


def signature(leaves: Sequence[Any], structure: Any) -> Any:
    """Return what tells two traced forms of a function apart."""
    return structure, tuple((getattr(leaf, "shape", None), getattr(leaf, "dtype", type(leaf)),
                             getattr(leaf, "weak_type", None), getattr(leaf, "sharding", None)) for leaf in leaves)


def _anew(function: Any) -> Any:
    """Return the same compiled function as one that has not been traced yet: nothing was marked when it was."""
    plain, info = getattr(function, "__wrapped__", None), getattr(function, "_jit_info", None)
    if plain is None or info is None:
        return function
    return jax.jit(lambda *args, **kwargs: plain(*args, **kwargs), static_argnums=info.static_argnums,
                   static_argnames=info.static_argnames, donate_argnums=info.donate_argnums,
                   donate_argnames=info.donate_argnames)


def _static_of(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[frozenset[int], frozenset[str]]:
    """Return which arguments are no arrays, but part of what is compiled."""
    info = getattr(function, "_jit_info", None)
    positions = {number % len(args) for number in getattr(info, "static_argnums", ()) if -len(args) <= number < len(args)}
    return frozenset(positions), frozenset(getattr(info, "static_argnames", ()))
