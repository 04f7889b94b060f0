"""Hooks on every module, removable for a single pass whose inside is not recorded.

Where a global hook is there, torch takes a longer way into each module, some microseconds for each: of a model of a
hundred layers that is half a millisecond a step, also where the hook itself does nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_modules

_BEFORE = "_global_forward_pre_hooks"
_AFTER = "_global_forward_hooks"


class _OfOneModule:
    """A hook on one module, during its pass.

    A pass that was broken off leaves it there until the next one, and the model may be saved or copied meanwhile:
    then it becomes something of Python's own that does nothing.
    """

    def __init__(self, hear: Callable[..., None]) -> None:
        self._hear = hear

    def __call__(self, *args: Any) -> None:
        self._hear(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")


class ModuleHooks:
    """Calls back at the start and the end of any module's forward pass.

    Args:
        begins: Called with the module and its arguments by position.
        ended: Called with the module, its arguments, and what it returned.
    """

    def __init__(self, begins: Callable[..., None], ended: Callable[..., None]) -> None:
        self._begins = begins
        self._ended = ended
        self._handles: list[Any] = []
        self._of_one: list[Any] = []
        self._threads: set[int] = set()

    @property
    def are_in(self) -> bool:
        """Whether anything is heard."""
        return bool(self._handles)

    def put_in(self) -> None:
        """Hear of every module from now on."""
        if not self._handles:
            self._handles = [
                torch_modules.register_module_forward_pre_hook(self._begins),
                torch_modules.register_module_forward_hook(self._ended, with_kwargs=True),
            ]

    def take_out(self) -> None:
        """Hear of none."""
        self._let_go()
        for handle in self._handles:
            handle.remove()
            # torch forgets to: it would hold a hook to be there, and warn whoever compiles a model later.
            getattr(torch_modules, "_global_forward_hooks_with_kwargs", {}).pop(handle.id, None)
        self._handles = []

    def only(self, module: nn.Module) -> None:
        """Hear of nothing but this module, whose pass has just begun, until `all_again`.

        Nothing is changed where that would save nothing, as others have hooks, or where other threads call models.
        """
        self._threads.add(threading.get_ident())
        before, after = getattr(torch_modules, _BEFORE, None), getattr(torch_modules, _AFTER, None)
        if not self._handles or self._of_one or before is None or after is None or len(self._threads) > 1:
            return
        if [*before, *after] != [handle.id for handle in self._handles]:
            return
        try:
            self._of_one = [module.register_forward_pre_hook(_OfOneModule(self._begins), prepend=True)]
            self._of_one.append(module.register_forward_hook(
                _OfOneModule(self._ended), prepend=True, with_kwargs=True, always_call=True))
        except Exception:  # noqa: BLE001 - one that takes no hooks, as those of TorchScript, is heard with all others
            self._let_go()
            return
        before.clear()
        after.clear()

    def all_again(self) -> None:
        """Hear of every module again."""
        if not self._of_one:
            return
        self._let_go()
        for hooks, handle, hear in zip((_BEFORE, _AFTER), self._handles, (self._begins, self._ended), strict=False):
            getattr(torch_modules, hooks)[handle.id] = hear

    def _let_go(self) -> None:
        for handle in self._of_one:
            handle.remove()
        self._of_one = []
