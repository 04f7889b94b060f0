"""A remedy that casts operations to another type from the start of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from barograph.capsule.torch.wrapping import wrap


class Casting:
    """Casts operations of forward passes.

    The script's own autocast blocks cast to this type instead. Outside them, all operations are cast except those of
    backward passes and updates, whose types follow from the forward pass.

    Args:
        dtype: Target type; float32: no operation is cast.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._kinds = ("cpu", *(["cuda"] if torch.cuda.is_available() else []))

    def begin(self) -> None:
        """Start casting."""
        wrap(torch.autocast, "__enter__", self._entered)
        self._set(self._casts)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend casting."""
        before = [torch.is_autocast_enabled(kind) for kind in self._kinds]
        self._set(False)
        try:
            yield
        finally:
            for kind, enabled in zip(self._kinds, before, strict=True):
                torch.set_autocast_enabled(kind, enabled)

    @property
    def _casts(self) -> bool:
        return self._dtype is not torch.float32

    def _set(self, enabled: bool) -> None:
        for kind in self._kinds:
            torch.set_autocast_enabled(kind, enabled)
            if enabled:
                torch.set_autocast_dtype(kind, self._dtype)

    def _entered(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make an autocast block of the script use this type; a block that disables autocast is unchanged."""
        block = args[0]
        if block._enabled and self._casts:
            block.fast_dtype = self._dtype
        else:
            block._enabled = False
        return original(*args, **kwargs)
