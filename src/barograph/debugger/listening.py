"""Global PyTorch module hooks; models stay free of hooks, so they can be pickled, copied and scripted."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, cast

from barograph.capture.imports import after_import, forget

_COMPILER = "torch._dynamo"
_HOOKS_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"
"""How torch begins to warn that global hooks are called once more for a compiled model: these expect that."""


class Listening:
    """Calls back around the forward pass of each module, also of modules compiled later.

    torch is loaded: it is a module of torch that is listened to.

    Args:
        begins: Called with the module and its arguments.
        ended: Called with the module, its arguments, and what it returned.
    """

    def __init__(self, begins: Callable[[Any, Any], None], ended: Callable[[Any, Any, Any], None]) -> None:
        self._begins = begins
        self._ended = ended
        self._paused: Callable[..., None] | None = None
        self._may_pause: Callable[[], bool] = _never
        self._is_compiling: Callable[[], bool] = sys.modules["torch"].compiler.is_compiling
        # Not loaded for it: most scripts compile nothing.
        after_import(_COMPILER, self._observe_compiler)
        warnings.filterwarnings("ignore", message=_HOOKS_WARNING)
        self._filter: Any = warnings.filters[0]
        hooks = sys.modules["torch.nn.modules.module"]
        self._handles = [hooks.register_module_forward_pre_hook(self._before),
                         hooks.register_module_forward_hook(self._after)]

    def stop(self) -> None:
        """Remove all hooks."""
        forget(self._observe_compiler)
        if self._filter in warnings.filters:
            cast("list[Any]", warnings.filters).remove(self._filter)
        for handle in self._handles:
            handle.remove()

    def _observe_compiler(self) -> None:
        compiler = sys.modules["torch"].compiler
        self._may_pause = compiler.assume_constant_result(_may_pause)
        self._paused = compiler.disable(_call)

    def _before(self, module: Any, given: Any) -> None:
        self._tell(self._begins, module, given)

    def _after(self, module: Any, given: Any, made: Any) -> None:
        self._tell(self._ended, module, given, made)

    def _tell(self, hook: Callable[..., None], *given: Any) -> None:
        if not self._is_compiling():
            hook(*given)
        elif self._paused is not None and self._may_pause():
            # The graph breaks here, and the hook runs whenever what was compiled does.
            self._paused(hook, *given)


def _call(hook: Callable[..., None], *given: Any) -> None:
    hook(*given)


def _may_pause() -> bool:
    """Return whether the compiler may break the graph that it traces: with `fullgraph=True` that is an error."""
    try:
        return not sys.modules["torch._dynamo.symbolic_convert"].InstructionTranslator.current_tx().one_graph
    except (KeyError, AttributeError):
        return False  # of a torch to come: nothing is risked


def _never() -> bool:
    return False
