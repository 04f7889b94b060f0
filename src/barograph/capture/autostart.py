"""Starts recording in a process that `barograph run` started, as soon as it has imported a framework."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType

from barograph.model.launch import LAUNCH_VARIABLE


def arm(begin: Callable[[], None] | None = None) -> None:
    """Wait for the import of torch; costs a few microseconds an import until then.

    Args:
        begin: What to do then; None: begin to record.
    """
    sys.meta_path.insert(0, _AfterTorch(begin or _begin))


def begin_if_armed() -> None:
    """Begin now rather than at the import of torch, if that was still waited for."""
    waiting = [finder for finder in sys.meta_path if isinstance(finder, _AfterTorch)]
    for finder in waiting:
        sys.meta_path.remove(finder)
        finder.begin()


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Finds torch as everybody does, and acts when it has been loaded."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin = begin

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self.begin()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _begin() -> None:
    begin = time.perf_counter()
    try:
        from barograph.capture.recording import start_from_launch

        start_from_launch(os.environ, begin)
    except Exception as error:
        if '"strict": true' in os.environ.get(LAUNCH_VARIABLE, ""):
            raise
        print(f"Barograph: cannot record this process: {error}", file=sys.stderr)
