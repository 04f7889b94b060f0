"""Data flow of a traced function: decides which copy of a marked tensor to read.

A compiler sums new values in the loop that computes them, without storing them. If a value is read as well, it is
stored and summed in another loop, in another order, which changes the last bits of the training. So for a tensor that
is only summed, we read a second copy, computed from values that are stored anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.extend import core

from barograph.capture.jax.calls import called
from barograph.capture.jax.foreign import flat
from barograph.capture.jax.marks import MARK
from barograph.capture.jax.meshes import explicit_axes

_SUMS = frozenset({"argmax", "argmin", "reduce", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
                   "reduce_sum", "reduce_xor"})
"""Operations that reduce many numbers to one."""

_ADDITIONS = frozenset({"add", "add_any"})

_AS_IT_IS = frozenset({"copy", "copy_p"})

_ONE_BY_ONE = _AS_IT_IS | frozenset({
    "abs", "add", "and", "broadcast_in_dim", "clamp", "convert_element_type", "cos", "div", "eq", "erf", "erfc", "exp",
    "expm1", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne",
    "neg", "not", "or", "pow", "reduce_precision", "reshape", "rsqrt", "select_n", "sign", "sin", "sqrt", "square",
    "squeeze", "stop_gradient", "sub", "tanh", "transpose"})
"""Elementwise operations, which are computed within the loop of a sum."""

_DEEPEST = 24
"""Maximum depth of recomputed operations, far above that of a layer."""


class Flow:
    """The operations of one traced function, without those of nested functions.

    Args:
        jaxpr: The function.
        outermost: It is not nested in another function, which would use its results.
    """

    def __init__(self, jaxpr: Any, *, outermost: bool = True) -> None:
        self._outermost = outermost
        self._made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self._users: dict[Any, list[Any]] = {}
        for eqn in jaxpr.eqns:
            for atom in eqn.invars:
                self._use(atom, eqn)
        for atom in jaxpr.outvars:
            self._use(atom, None)
        origins = (self._origin(eqn.invars[0]) for eqn in jaxpr.eqns if eqn.primitive is MARK)
        self._marked = {origin for origin in origins if not isinstance(origin, core.Literal)}

    def _use(self, atom: Any, eqn: Any) -> None:
        if not isinstance(atom, core.Literal):
            self._users.setdefault(atom, []).append(eqn)

    def made_by(self, atom: Any) -> Any:
        """Return the operation that makes a value; None: an argument or a literal."""
        return None if isinstance(atom, core.Literal) else self._made.get(atom)

    def read_at(self, mark: Any, value: Callable[[Any], Any]) -> Any:
        """Return the tensor to read at a mark: the marked one, or a copy if it is only summed.

        Args:
            mark: The marking operation.
            value: Returns the value of a variable.
        """
        origin = self._origin(mark.invars[0])
        eqn = self.made_by(origin)
        if eqn is None or not _is_one_by_one(eqn) or not self._goes_into_a_sum(origin):
            return value(mark.invars[0])
        return self._again(origin, eqn, value, {}, _DEEPEST)

    def feels_order(self, variable: Any) -> bool:
        """Return whether the memory layout of a value can change bits of other values.

        That is so if elementwise results of it are summed, or are a product that is added to another: the compiler
        rounds one of the two products, depending on their layout. (Differences of products, as in SGD with momentum,
        were tested without such an effect.) It is also assumed if the uses are unknown.
        """
        left, met = [variable], set[int]()
        while left:
            for eqn in self._users.get(left.pop(), ()):
                if eqn is None:
                    if not self._outermost:
                        return True
                elif id(eqn) not in met:
                    met.add(id(eqn))
                    if self._adds_products(eqn) or not (_hands_on(eqn) or eqn.primitive.name in _ONE_BY_ONE):
                        return True
                    left += eqn.outvars
        return False

    def _adds_products(self, eqn: Any) -> bool:
        makers = [self.made_by(self._origin(atom)) for atom in eqn.invars]
        return eqn.primitive.name in _ADDITIONS and all(
            maker is not None and maker.primitive.name == "mul" for maker in makers)

    def _goes_into_a_sum(self, variable: Any) -> bool:
        """Return whether a chain of single uses of a value ends in a sum."""
        while len(users := self._uses(variable)) == 1 and users[0] is not None:
            if users[0].primitive.name in _SUMS:
                return True
            made = self._made_of(variable, users[0])
            if not _is_one_by_one(users[0]) or len(made) != 1:
                return False
            variable = made[0]
        return False

    def _made_of(self, variable: Any, eqn: Any) -> list[Any]:
        """Return the results of an operation that depend on a value; for a called function these may not be all."""
        function = called(eqn)
        if function is None:
            return list(eqn.outvars)
        inner = function[0]
        reached = {within for within, given in zip(inner.invars, eqn.invars, strict=True)
                   if self._origin(given) is variable}
        for operation in inner.eqns:
            if any(not isinstance(atom, core.Literal) and atom in reached for atom in operation.invars):
                reached.update(operation.outvars)
        return [made for made, within in zip(eqn.outvars, inner.outvars, strict=True)
                if not isinstance(within, core.Literal) and within in reached]

    def _origin(self, atom: Any) -> Any:
        """Return the variable that a marked or copied variable has its value from."""
        while (eqn := self.made_by(atom)) is not None and _hands_on(eqn):
            atom = eqn.invars[0]
        return atom

    def _uses(self, variable: Any) -> list[Any]:
        """Return the operations that use a value, directly, marked or copied; None: it is a result."""
        found, left = [], [variable]
        while left:
            for eqn in self._users.get(left.pop(), ()):
                if eqn is not None and _hands_on(eqn):
                    left.append(eqn.outvars[0])
                else:
                    found.append(eqn)
        return found

    def _again(self, variable: Any, eqn: Any, value: Callable[[Any], Any], known: dict[Any, Any], depth: int) -> Any:
        """Return a recomputed result of an operation; `known` caches recomputed values by variable."""
        if variable not in known:
            operands = [self._operand(operand, value, known, depth - 1) for operand in eqn.invars]
            with eqn.ctx.manager:
                made = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
            known.update(zip(eqn.outvars, made if eqn.primitive.multiple_results else [made], strict=True))
        return known[variable]

    def _operand(self, atom: Any, value: Callable[[Any], Any], known: dict[Any, Any], depth: int) -> Any:
        origin = self._origin(atom)
        if isinstance(origin, core.Literal):
            return origin.val
        eqn = self.made_by(origin)
        # Values used directly are stored anyway.
        if eqn is not None and depth and _is_one_by_one(eqn) and (
                origin not in self._marked or self._goes_into_a_sum(origin)):
            return self._again(origin, eqn, value, known, depth)
        if origin not in known:
            known[origin] = _as_another(value(origin))
        return known[origin]


def _as_another(tensor: Any) -> Any:
    """Return the tensor such that the compiler does not recognize it, which would merge both computations."""
    if not isinstance(tensor, jax.core.Tracer) or not tensor.shape:
        return tensor
    if explicit_axes(tensor):
        return lax.optimization_barrier(tensor)
    return lax.optimization_barrier(flat(tensor)).reshape(tensor.shape)


def _hands_on(eqn: Any) -> bool:
    return eqn.primitive is MARK or eqn.primitive.name in _AS_IT_IS


def _is_one_by_one(eqn: Any) -> bool:
    """Return whether an operation is elementwise, or calls a function of only such operations."""
    function = called(eqn)
    if function is None:
        return eqn.primitive.name in _ONE_BY_ONE
    return not eqn.params.get("differentiated") and all(map(_is_one_by_one, function[0].eqns))
