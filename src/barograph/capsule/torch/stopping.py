"""Stops at one operation of a replayed step, in the debugger, or writes it to a file."""

from __future__ import annotations

import builtins
import pdb
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils import _pytree

from barograph.capsule.order import DEBUGGER, NOTEBOOK, StopAt
from barograph.capsule.standalone import LEAST_LITERAL, OperationText, TensorText, notebook_of, script_of
from barograph.capsule.torch.where import user_frame
from barograph.capture.torch.read import raw_tensor
from barograph.model.tensor import RawTensor
from barograph.runs.format.tensors import raw_tensors_bytes
from barograph.store.inside import Inside

Function = Callable[..., Any]


class Stopping:
    """Carries out the request at an operation.

    Args:
        stop: The operation, and what to do.
    """

    def __init__(self, stop: StopAt) -> None:
        self.number = stop.number
        self._stop = stop

    def run(self, func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the operation; return its result."""
        # It may overwrite its inputs.
        before = _pytree.tree_map_only(torch.Tensor, lambda item: item.detach().clone(), (tuple(args), dict(kwargs)))
        result = func(*args, **kwargs)
        if self._stop.what == DEBUGGER:
            _debug(str(func), _tensors(before), _tensors(result))
        else:
            self._write(func, *before)
        return result

    def _write(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with torch.no_grad():
            small = smallest_part(func, args, kwargs)
            args, kwargs = small or (args, kwargs)
            operation, beside = call_text(func, args, kwargs, self._stop.where, parts=small is not None)
        path = Path(self._stop.file)
        tensors_file = f"{path.stem}.safetensors"
        if self._stop.what == NOTEBOOK:
            text = notebook_of(operation, tensors_file, self._stop.capsule, self._stop.tensors)
        else:
            text = script_of(operation, tensors_file)
        if beside:
            Inside(path.parent).write(tensors_file, raw_tensors_bytes(beside))
        Inside(path.parent).write(path.name, text.encode())


def smallest_part(
    func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return a part of an operation's arguments that still gives a non-finite result.

    Returns:
        Positional and keyword arguments; None: all of them are needed.

    Args:
        func: The operation.
        args, kwargs: Its arguments.
    """
    outputs = [item for item in _tensors(_again(func, args, kwargs)) if _is_bad(item)]
    inputs = _tensors((args, kwargs))
    if not outputs or not inputs:
        return None
    bad = outputs[0]
    at = tuple(int(part) for part in (~torch.isfinite(bad)).nonzero()[0]) if bad.dim() else ()
    for shape, index in ((bad.shape, tuple(slice(part, part + 1) for part in at)),
                         (bad.shape[:1], tuple(slice(part, part + 1) for part in at[:1]))):
        if not index or all(item.numel() <= 1 for item in inputs):
            continue

        def part(item: torch.Tensor, shape: Any = shape, index: Any = index) -> torch.Tensor:
            return item[index].clone() if item.shape[:len(shape)] == shape else item

        cut = _pytree.tree_map_only(torch.Tensor, part, (args, kwargs))
        finite_before = all(not _is_bad(item) for item in inputs)
        if sum(item.numel() for item in _tensors(cut)) >= sum(item.numel() for item in inputs):
            continue
        if finite_before and any(map(_is_bad, _tensors(cut))):
            continue
        if any(map(_is_bad, _tensors(_again(func, *cut)))):
            return cut[0], cut[1]
    return None


def call_text(
    func: Function, args: Sequence[Any], kwargs: Mapping[str, Any], where: tuple[str, ...], *, parts: bool
) -> tuple[OperationText, dict[str, RawTensor]]:
    """Return a call as text, and the tensors that are too large for literals.

    Args:
        func: The operation.
        args, kwargs: Its arguments.
        where: Sentences about where it was found.
        parts: See `OperationText`.
    """
    writing = _Writing()
    words = [writing.text(item) for item in args]
    words += [f"{name}={writing.text(item)}" for name, item in kwargs.items()]
    return OperationText(f"torch.ops.{func}({', '.join(words)})", tuple(writing.tensors), where, parts), writing.beside


class _Writing:
    """Writes values as Python source, and names tensors."""

    def __init__(self) -> None:
        self.tensors: list[TensorText] = []
        self.beside: dict[str, RawTensor] = {}

    def text(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            inner = ", ".join(map(self.text, value))
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, torch.device):
            return 'torch.device("cpu")'
        if isinstance(value, float):
            return _number(value)
        return str(value) if isinstance(value, torch.dtype | torch.layout | torch.memory_format) else repr(value)

    def _tensor(self, tensor: torch.Tensor) -> str:
        name = f"x{len(self.tensors)}"
        tensor = tensor.detach().cpu()
        elements = None
        if tensor.numel() <= LEAST_LITERAL:
            elements = tuple(_number(item) for item in tensor.reshape(-1).tolist())
        else:
            self.beside[name] = raw_tensor(tensor)
        self.tensors.append(TensorText(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), elements))
        return name


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    # Python's repr of a float is exact, except for NaN and infinities.
    text = repr(value)
    return f'float("{text}")' if text in ("nan", "inf", "-inf") else text


def _again(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of an operation for copies of its arguments; None if it raises."""
    copies = _pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    try:
        return func(*copies[0], **copies[1])
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None  # the shapes of the parts do not match


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in _pytree.tree_leaves(value) if isinstance(item, torch.Tensor)]


def _is_bad(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and not bool(torch.isfinite(tensor).all())


def _debug(name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Open the debugger in the user's frame; returns when the user continues."""
    frame: FrameType = user_frame() or sys._getframe(1)
    print(f"\n{name}: its inputs are bad_inputs, its outputs bad_outputs; c continues.", flush=True)
    # As builtins, because they are available in every frame.
    at_hand = {"bad_inputs": inputs, "bad_outputs": outputs}
    vars(builtins).update(at_hand)
    debugger = pdb.Pdb(skip=["barograph.*", "torch.*"])
    debugger.reset()
    try:
        debugger.interaction(frame, None)
    finally:
        for item in at_hand:
            delattr(builtins, item)
