"""A remedy to try: casts operations to another type from the start of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from barograph.capsule.torch.wrapping import wrap


class Casting:
    """Casts operations of forward passes.

    Where the script casts by itself, its blocks cast to this type instead; elsewhere all operations are, but for
    those of backward passes and updates, which follow from the types of the forward pass.

    Args:
        dtype: To which; float32: no operation is cast.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._kinds = ("cpu", *(["cuda"] if torch.cuda.is_available() else []))

    def begin(self) -> None:
        """Cast from now on."""
        wrap(torch.autocast, "__enter__", self._entered)
        self._set(self._casts)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Cast nothing meanwhile."""
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
        """Let a block of the script's own cast to this type; one that turns casting off stays as it is."""
        block = args[0]
        if block._enabled and self._casts:
            block.fast_dtype = self._dtype
        else:
            block._enabled = False
        return original(*args, **kwargs)
