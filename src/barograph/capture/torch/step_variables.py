"""The values of the script's variables at the start of a step, such as step numbers or labels.

A loss may depend on more than batches and arguments of a model. Kept are plain values: numbers, strings, and references
to tensors and arrays assigned since the previous step.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

_NOT_THE_SCRIPT = re.compile(r"[/\\](?:torch|barograph|site-packages|dist-packages)[/\\]|^<")
_MOST_FRAMES = 64
_MOST_TEXT = 1000
_MOST_BYTES = 64 * 2**20


_NEVER_KEPT = (ModuleType, FunctionType, type, nn.Module)
"""Types of most variables of a script."""


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of one running function, or of a method's object.

    Attributes:
        where: File and name of the function: "train.py:fit"; "train.py:<module>" for the script itself; with ".self"
            for the object.
        values: Values by name.
    """

    where: str
    values: Mapping[str, Any]


class VariableWatch:
    """Remembers existing tensors, to detect new ones."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], weakref.ref[Any]] | None = None

    def now(self) -> list[Variables]:
        """Return the script's variables that may have changed since the last call."""
        seen: dict[tuple[str, str], weakref.ref[Any]] = {}
        found = []
        for where, holder in _holders():
            values = {}
            for name, value in list(holder.items()):
                if isinstance(value, _NEVER_KEPT) or not isinstance(name, str) or name.startswith("__"):
                    continue
                if _is_plain(value):
                    values[name] = value
                elif _is_data(value):
                    known = None if self._before is None else self._before.get((where, name))
                    seen[where, name] = weakref.ref(value)
                    # At the first step all are new, and the script creates them again.
                    if self._before is not None and (known is None or known() is not value):
                        values[name] = value
            found.append(Variables(where, values))
        self._before = seen
        return found


def put_variables(wanted: Mapping[str, Mapping[str, Any]], differs: Callable[[Any, Any], bool]) -> None:
    """Restore variables of the script; equal ones are unchanged.

    Args:
        wanted: Values by `Variables.where`, and by name.
        differs: Compares the current and the earlier value.
    """
    for where, holder in _holders(writes=True):
        for name, value in wanted.get(where, {}).items():
            if name in holder and differs(holder[name], value):
                holder[name] = value


def _holders(*, writes: bool = False) -> Iterator[tuple[str, MutableMapping[str, Any]]]:
    """Yield the variables of each running function of the script, innermost first, and of its object."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        file = frame.f_code.co_filename
        if _is_of_the_script(file):
            where, holder = f"{os.path.basename(file)}:{frame.f_code.co_qualname}", frame.f_locals
            owner = holder.get("self")
            yield where, holder
            if writes and holder is not frame.f_globals and sys.version_info < (3, 13):
                # Until Python 3.13 this is the only way to write them.
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
            if owner is not None and not isinstance(owner, nn.Module) and hasattr(owner, "__dict__"):
                yield f"{where}.self", vars(owner)
        frame = frame.f_back


@functools.lru_cache(4096)
def _is_of_the_script(file: str) -> bool:
    return not _NOT_THE_SCRIPT.search(file) and not file.startswith(sys.base_prefix)


def _is_plain(value: Any) -> bool:
    if type(value) is slice:
        return all(part is None or type(part) is int for part in (value.start, value.stop, value.step))
    return type(value) in (bool, int, float) or (type(value) is str and len(value) < _MOST_TEXT)


def _is_data(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return (not isinstance(value, nn.Parameter) and value.grad_fn is None and not value.requires_grad
                and value.layout is torch.strided and value.numel() * value.element_size() <= _MOST_BYTES)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray) and value.nbytes <= _MOST_BYTES
