"""The functions inside the operations of a traced JAX step, and the arguments they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call",
                   "custom_vjp_call"})
"""Operations that call one function once: not loops or branches."""


def called(eqn: Any) -> tuple[Any, Sequence[Any]] | None:
    """Return the function that an operation calls, and its constants; None: it calls none."""
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    if eqn.primitive.name not in CALLS or inner is None:
        return None
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())


def scanned(eqn: Any) -> tuple[int, int]:
    """Return the numbers of constant and of carried operands of a `scan`."""
    if "num_carry" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    # Since JAX 0.11, operands are grouped by their role.
    constants, carried, _ = eqn.params["ft_in"].unpack()
    return len(constants), len(carried)
