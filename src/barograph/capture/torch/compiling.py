"""Hooks of a compiled optimizer step, run at a graph break.

A compiler that traces `optimizer.step` also traces the hooks around it, so they would run only once, at compile time.
PyTorch's own optimizers break the graph between these hooks and the arithmetic, so one more break costs no graph. With
`fullgraph=True` a break would be an error, and none is made.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch


def has_compiled() -> bool:
    """Return whether torch's compiler has compiled anything in this process, by its own counters."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return bool(counters.get("stats", {}).get("unique_graphs"))


def hear(hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook; during tracing, make it run whenever the compiled code runs.

    Args:
        hook: One of our hooks.
        args: Its arguments.

    Returns:
        Its result; None if it cannot be called.
    """
    if not torch.compiler.is_compiling():
        return hook(*args)
    return _paused(hook, *args) if _may_pause() else None


def _paused(hook: Callable[..., Any], *args: Any) -> Any:
    return hook(*args)


def _may_pause() -> bool:
    """Return whether the compiler may break the graph; called during tracing."""
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        return not InstructionTranslator.current_tx().one_graph
    except (ImportError, AttributeError):
        return False  # a future torch, or one without compiler: take no risk


def mark_for_compiler() -> None:
    """Register these functions with torch's compiler. Importing it takes a second, so it must be loaded already."""
    global _paused
    if not hasattr(_paused, "_torchdynamo_disable"):
        _paused = torch.compiler.disable(_paused)  # type: ignore[no-untyped-call]
        torch.compiler.assume_constant_result(_may_pause)  # type: ignore[no-untyped-call]
