"""Finds the first operation that made non-finite values from finite ones, during a replay.

It inspects the inputs and outputs of every torch operation. The cause of NaN is the operation that outputs it from
inputs without NaN. If an input had an infinity that an earlier operation made from finite numbers, the earlier one is
the cause; a constant infinity, as in a mask, is not. Non-finite values that no operation made are inputs: samples or
weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from barograph.capsule.order import BadOperation, TensorSeen
from barograph.capsule.torch.samples import bad_rows
from barograph.capsule.torch.stopping import Stopping
from barograph.capsule.torch.where import user_frame
from barograph.capture.frames import is_of_script
from barograph.capture.torch.memory import in_memory

_WRITES_CONSTANTS = frozenset({
    "constant_pad_nd", "empty", "empty_like", "empty_permuted", "empty_strided", "fill", "full", "full_like",
    "lift_fresh", "masked_fill", "masked_scatter", "new_empty", "new_empty_strided", "new_full", "scalar_tensor",
    "where",
})
"""Operations that write infinities on purpose, or leave memory uninitialized."""

_TRACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_MOST_HELD = 512


class Blame(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Observes the inputs and outputs of every operation.

    Args:
        module_now: Returns the path of the module whose forward pass runs, "" outside modules.
        module_of: Returns the path of the module that made a graph node, by its sequence number.
        name_of: Returns the name of a tensor that no operation made: a parameter's path, a part of the batch; ""
            unknown.
        samples: Returns the number of samples in the current batch; 0: unknown.
        stopping: Runs one operation instead, by its number; None: none.

    Attributes:
        found: The first such operation, if any.
    """

    def __init__(
        self, module_now: Callable[[], str], module_of: Callable[[int], str], name_of: Callable[[torch.Tensor], str],
        samples: Callable[[], int] = lambda: 0, stopping: Stopping | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: BadOperation | None = None
        self._module_now, self._module_of, self._name_of, self._samples = module_now, module_of, name_of, samples
        self._infinite: dict[int, tuple[Any, BadOperation | None]] = {}
        self._first_infinity: BadOperation | None = None
        self._stopping = stopping
        self._number = -1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._number += 1
        if self._stopping is not None and self._number == self._stopping.number:
            return self._stopping.run(func, args, kwargs)
        if self.found is not None:
            return func(*args, **kwargs)
        inputs = _readable((args, kwargs))
        # Before it runs, since it may overwrite its inputs.
        before = [_state(tensor) for tensor in inputs]
        seen = [_seen(tensor) for tensor in inputs] if any(before) else []
        result = func(*args, **kwargs)
        self._look(func, inputs, before, seen, result)
        return result

    def forget(self) -> None:
        """Reset, for another step."""
        self.found = self._first_infinity = None

    def verdict(self) -> BadOperation | None:
        """Return the cause: the origin of NaN, or else of the first infinity."""
        return self.found or self._first_infinity

    def loss(self, roots: Iterable[torch.Tensor]) -> None:
        """Check the root of a backward pass: the origin of an infinity in the loss is the cause.

        An infinity that does not reach the loss, such as an exponential in a denominator, is harmless.
        """
        for root in roots:
            maker = self._infinite.get(_place(root), (None, None))[1]
            if self.found is None and maker is not None and not bool(torch.isfinite(root).all()):
                self.found = maker

    def _look(
        self, func: Any, inputs: list[torch.Tensor], before: list[int], seen: list[TensorSeen], result: Any
    ) -> None:
        name = _name(func)
        outputs = _readable(result)
        after = max((_state(tensor) for tensor in outputs), default=_FINE)
        handed_in = self._handed_in(inputs, before)
        if handed_in is not None:
            self.found = handed_in
            return
        if after == _FINE:
            return
        if max(before, default=_FINE) == _FINE and name in _WRITES_CONSTANTS:
            self._hold(outputs, None)
        elif max(before, default=_FINE) == _FINE:
            # It arises here, from finite numbers.
            made = self._bad(name, [_seen(tensor) for tensor in inputs], outputs)
            if after == _NAN:
                self.found = made
                return
            self._first_infinity = self._first_infinity or made
            self._hold(outputs, made)
        elif after == _NAN and _NAN not in before:
            # NaN from infinities: their origin is the cause, if an operation made them.
            makers = [maker for tensor, state in zip(inputs, before, strict=True) if state and (
                maker := self._infinite.get(_place(tensor), (None, None))[1])]
            self.found = makers[0] if makers else self._bad(name, seen, outputs)
        else:
            maker = next((self._infinite[_place(tensor)][1] for tensor, state in zip(inputs, before, strict=True)
                          if state and _place(tensor) in self._infinite), None)
            self._hold(outputs, maker)

    def _handed_in(self, inputs: list[torch.Tensor], before: list[int]) -> BadOperation | None:
        """Return the cause for a non-finite tensor that no operation made."""
        for tensor, state in zip(inputs, before, strict=True):
            if state == _FINE or _place(tensor) in self._infinite:
                continue
            name = self._name_of(tensor)
            if name:
                return BadOperation("", "", name, "", (_seen(tensor),), (), handed_in=True,
                                    rows=bad_rows(tensor, self._samples()), number=self._number)
            # An unknown tensor, such as a mask that the script made before, counts as intended.
            self._hold([tensor], None)
        return None

    def _hold(self, tensors: Iterable[torch.Tensor], maker: BadOperation | None) -> None:
        for tensor in tensors:
            if _state(tensor) and len(self._infinite) < _MOST_HELD:
                # Keep the tensor alive, so that its memory is not reused.
                self._infinite[_place(tensor)] = (tensor, maker)

    def _bad(self, name: str, inputs: list[TensorSeen], outputs: list[torch.Tensor]) -> BadOperation:
        node: Any = torch._C._current_autograd_node()
        made, samples = tuple(map(_seen, outputs)), self._samples()
        rows = next((found for tensor in outputs if (found := bad_rows(tensor, samples))), ())
        if node is None:
            return BadOperation(name, "forward", self._module_now(), _user_line(), tuple(inputs), made, rows=rows,
                                number=self._number)
        # Within the script's own function, its running line counts; otherwise the line that made the node.
        own = isinstance(node, BackwardCFunction)
        line = _user_line() if own else _line_in(node.metadata.get("traceback_", ()))
        of = node.name().removesuffix("0").removesuffix("Backward")
        return BadOperation(name, "backward", self._module_of(node._sequence_nr()), line, tuple(inputs), made, of=of,
                            rows=rows, number=self._number)


_FINE, _INFINITE, _NAN = 0, 1, 2


def _state(tensor: torch.Tensor) -> int:
    """Return whether a tensor is finite, has infinities, or has NaN."""
    with torch.no_grad():
        values = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
        if bool(torch.isfinite(values).all()):
            return _FINE
        return _NAN if bool(torch.isnan(values).any()) else _INFINITE


def _seen(tensor: torch.Tensor) -> TensorSeen:
    with torch.no_grad():
        values = tensor.detach().double() if not tensor.is_complex() else torch.view_as_real(tensor.detach()).double()
        finite = values[torch.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (float("nan"), float("nan"))
        return TensorSeen(
            str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), low, high, int((finite == 0).sum()),
            int(torch.isnan(values).sum()), int(torch.isinf(values).sum()))


def _readable(value: Any) -> list[torch.Tensor]:
    """Return the readable floating-point tensors among an operation's arguments or results."""
    parts = (in_memory(tensor) for tensor in _tensors(value))
    return [part for part in parts if part is not None and (part.is_floating_point() or part.is_complex())
            and part.layout is torch.strided and part.numel() > 0]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (item for item in _pytree.tree_leaves(value) if isinstance(item, torch.Tensor))


def _name(func: Any) -> str:
    """Return an operation's name without its overload and without the suffix of in-place operations."""
    return str(func.overloadpacket.__name__).rstrip("_") if hasattr(func, "overloadpacket") else str(func)


def _place(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _user_line() -> str:
    """Return the running line of the user's code: "train.py:12"."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _line_in(trace: Iterable[str]) -> str:
    """Return the innermost line of the user's code in a stack trace that torch stores with a graph node."""
    found = ""
    for entry in trace:
        for match in _TRACE.finditer(entry):
            if is_of_script(match["file"]):
                found = f"{match['file']}:{match['line']}"
    return found
