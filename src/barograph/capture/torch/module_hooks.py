"""Hooks on every module, removable for a single pass whose inside is not recorded.

With a global hook, PyTorch takes a slower path for each module, some microseconds each: half a millisecond per step for
a model with a hundred layers, even if the hook does nothing.
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

    After an aborted pass it stays until the next one, and the model may be saved or copied meanwhile: then the hook
    becomes a built-in Python object that does nothing.
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
        begins: Called with the module and its positional arguments.
        ended: Called with the module, its arguments, and its result.
    """

    def __init__(self, begins: Callable[..., None], ended: Callable[..., None]) -> None:
        self._begins = begins
        self._ended = ended
        self._handles: list[Any] = []
        self._of_one: list[Any] = []
        self._threads: set[int] = set()

    @property
    def are_in(self) -> bool:
        """Whether the hooks are installed."""
        return bool(self._handles)

    def put_in(self) -> None:
        """Observe every module from now on."""
        if not self._handles:
            self._handles = [
                torch_modules.register_module_forward_pre_hook(self._begins),
                torch_modules.register_module_forward_hook(self._ended, with_kwargs=True),
            ]

    def take_out(self) -> None:
        """Observe no module."""
        self._let_go()
        for handle in self._handles:
            handle.remove()
            # PyTorch forgets this: it would assume a hook, and warn when a model is compiled later.
            getattr(torch_modules, "_global_forward_hooks_with_kwargs", {}).pop(handle.id, None)
        self._handles = []

    def only(self, module: nn.Module) -> None:
        """Observe only this module, whose pass has just started, until `all_again`.

        Nothing changes if that would save nothing because others have hooks, or if other threads call models.
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
        except Exception:  # noqa: BLE001 - modules without hooks, such as TorchScript's, are observed with global hooks
            self._let_go()
            return
        before.clear()
        after.clear()

    def all_again(self) -> None:
        """Observe every module again."""
        if not self._of_one:
            return
        self._let_go()
        for hooks, handle, hear in zip((_BEFORE, _AFTER), self._handles, (self._begins, self._ended), strict=False):
            getattr(torch_modules, hooks)[handle.id] = hear

    def _let_go(self) -> None:
        for handle in self._of_one:
            handle.remove()
        self._of_one = []
