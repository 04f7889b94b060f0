"""What makes each value of a traced function and what uses it: by that, what a mark reads there.

A compiler sums what it has just computed in one loop, without writing it to memory. Where that is read as well, it has
to be there, and is summed by another loop, which adds up in another order: training goes on from other last bits. So
of a tensor that nothing uses but a sum, another is made for us to read, of what lies in memory anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import lax
from jax.extend import core

from barograph.capture.jax.marks import MARK

_SUMS = ("reduce_", "argm")
"""How operations begin that make one number of many."""

_AS_IT_IS = frozenset({"copy", "copy_p"})

_ONE_BY_ONE = _AS_IT_IS | frozenset({
    "abs", "add", "broadcast_in_dim", "convert_element_type", "div", "eq", "erf", "erfc", "exp", "expm1", "ge", "gt",
    "integer_pow", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "neg", "pow", "reshape", "rsqrt",
    "select_n", "sign", "sqrt", "square", "sub", "tanh"})
"""Operations whose every result is made of one element of each operand, which are computed within the loop of a sum."""

_DEEPEST = 24
"""Operations that are made once more, one upon another: a layer's own, by far."""


class Flow:
    """The operations of one traced function, without those within others.

    Args:
        jaxpr: The function.
    """

    def __init__(self, jaxpr: Any) -> None:
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
        """Return the operation that makes a value; None: it is given, or stands in the trace itself."""
        return None if isinstance(atom, core.Literal) else self._made.get(atom)

    def read_at(self, mark: Any, value: Callable[[Any], Any]) -> Any:
        """Return what is read at a mark: its tensor, or one like it, where nothing uses that but a sum.

        Args:
            mark: The operation that marks.
            value: What a variable holds.
        """
        origin = self._origin(mark.invars[0])
        eqn = self.made_by(origin)
        if eqn is None or eqn.primitive.name not in _ONE_BY_ONE:
            return value(mark.invars[0])
        users = self._uses(origin)
        if len(users) != 1 or users[0] is None or not users[0].primitive.name.startswith(_SUMS):
            return value(mark.invars[0])
        return self._again(eqn, value, {}, _DEEPEST)

    def is_summed(self, atom: Any) -> bool:
        """Return whether what is made of a value, element by element, is summed, or goes where that is not known.

        Args:
            atom: A variable.
        """
        left, met = [atom], set[int]()
        while left:
            variable = left.pop()
            for eqn in self._users.get(variable, ()):
                if eqn is None or id(eqn) in met:
                    continue
                met.add(id(eqn))
                if not _hands_on(eqn) and eqn.primitive.name not in _ONE_BY_ONE:
                    return True
                left += eqn.outvars
        return False

    def _origin(self, atom: Any) -> Any:
        """Return the variable whose value another has, marked or copied."""
        while (eqn := self.made_by(atom)) is not None and _hands_on(eqn):
            atom = eqn.invars[0]
        return atom

    def _uses(self, variable: Any) -> list[Any]:
        """Return the operations that use a value, marked or copied or as it is; None: it is a result."""
        found = []
        for eqn in self._users.get(variable, ()):
            found += self._uses(eqn.outvars[0]) if eqn is not None and _hands_on(eqn) else [eqn]
        return found

    def _again(self, eqn: Any, value: Callable[[Any], Any], known: dict[Any, Any], depth: int) -> Any:
        """Return what an operation makes of its operands, made once more; `known`: what has been, by variable."""
        made = eqn.outvars[0]
        if made not in known:
            operands = [self._operand(operand, value, known, depth - 1) for operand in eqn.invars]
            with eqn.ctx.manager:
                known[made] = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
        return known[made]

    def _operand(self, atom: Any, value: Callable[[Any], Any], known: dict[Any, Any], depth: int) -> Any:
        origin = self._origin(atom)
        if isinstance(origin, core.Literal):
            return origin.val
        eqn = self.made_by(origin)
        if eqn is not None and eqn.primitive.name in _ONE_BY_ONE and depth and origin not in self._marked:
            return self._again(eqn, value, known, depth)
        if origin not in known:
            # Behind a barrier, or the compiler would see that it is the same, and make it once. Flat: see `foreign`.
            tensor = value(origin)
            known[origin] = lax.optimization_barrier(tensor.reshape(-1)).reshape(tensor.shape)
        return known[origin]


def _hands_on(eqn: Any) -> bool:
    return eqn.primitive is MARK or eqn.primitive.name in _AS_IT_IS
