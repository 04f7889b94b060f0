"""The functions that a traced JAX step calls as parts of it, with what it hands them and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call",
                   "custom_vjp_call"})
"""Operations that call one, once: no loops, and no branches."""


def called(eqn: Any) -> tuple[Any, Sequence[Any]] | None:
    """Return the traced function that an operation calls, and what that closes over; None: it calls none."""
    inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    if eqn.primitive.name not in CALLS or inner is None:
        return None
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
