"""The script's own variables: counters, best values, histories, weight averages.

A checkpoint contains those that have changed since the training started, if they are plain data, tensors, models that
no optimizer updates, or objects of the script's own classes with such values. Initial settings (number of epochs,
output paths) have not changed, and the restarted script sets them again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn

from barograph.capture.frames import is_of_script, loop_names, place_of, requests_now, set_locals
from barograph.capture.torch.generators import GENERATORS, put_state, state_of
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.read import raw_tensor
from barograph.capture.torch.unpacking import Unpacker
from barograph.errors import BarographError, NotPlain

_PLAIN = (bool, int, float, str, bytes, complex, type(None))
_CONTAINERS = (list, dict, tuple, set, OrderedDict, Counter)
_DEEPEST = 5
_MOST_ELEMENTS = 2**22
_LOOSE_ELEMENTS = 2**14
"""Maximum size of a saved tensor in a variable: larger ones are batches, predictions and so on, made in each step."""
_MOST_NAMES = 5000


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable of the script.

    Attributes:
        path: Number of the frame or name of the module; name; attributes: `0/self/best`.
        value: Its value.
        holder: The object that has it as an attribute; None: a variable of a frame or module.
    """

    path: str
    value: Any
    holder: Any


def variables_of(frames: Sequence[FrameType], but: Collection[int]) -> Iterator[Variable]:
    """Yield the variables of frames, of their files, and of objects of the script's own classes there.

    Args:
        frames: Frames of the script, from the innermost.
        but: Identities of objects saved elsewhere.
    """
    seen = set(but)
    found = (item for where, space in _spaces(frames) for name, value in list(space.items())
             for item in _inside(f"{where}/{name}", value, None, seen, 0))
    return itertools.islice(found, _MOST_NAMES)


def _spaces(frames: Sequence[FrameType]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield namespaces by name: frames by number from the outermost, then the script's modules."""
    for number, frame in enumerate(reversed(frames)):
        if frame.f_locals is not frame.f_globals:
            yield str(number), frame.f_locals
    for name, module in list(sys.modules.items()):
        if is_of_script(str(getattr(module, "__file__", None) or "<built-in>")):
            yield name, vars(module)


def _inside(path: str, value: Any, holder: Any, seen: set[int], depth: int) -> Iterator[Variable]:
    if path.rpartition("/")[2].startswith("__") or id(value) in seen or depth > _DEEPEST:
        return
    if isinstance(value, (*_PLAIN, torch.Tensor, np.ndarray, np.generic)) or type(value) in (
            *_CONTAINERS, deque, defaultdict):
        yield Variable(path, value, holder)
    elif isinstance(value, (nn.Module, *GENERATORS)):
        seen.add(id(value))
        yield Variable(path, value, holder)
    elif is_of_script(_file_of(type(value))) and not isinstance(value, type) and hasattr(value, "__dict__"):
        seen.add(id(value))
        for name, inner in list(vars(value).items()):
            yield from _inside(f"{path}/{name}", inner, value, seen, depth + 1)


class Variables:
    """The script's variables at the start of its training.

    Args:
        frames: Frames of the script at that time.
        but: Identities of objects saved elsewhere: trained models, data.
    """

    def __init__(self, frames: Sequence[FrameType], but: Collection[int]) -> None:
        self._begin = {item.path: mark for item in variables_of(frames, but) if (mark := _mark(item.value))}

    def changed(self, frames: Sequence[FrameType], but: Collection[int], packer: Packer) -> dict[str, Any]:
        """Return the packed variables that have changed since; unpackable ones are listed in "left".

        Args:
            frames: Current frames of the script.
            but: See above; and tensors of the batch.
            packer: Packs.
        """
        found: dict[str, Any] = {}
        left: list[str] = []
        for item in variables_of(frames, but):
            mark = _mark(item.value)
            if mark is None or mark == self._begin.get(item.path):
                continue
            try:
                found[item.path] = _packed(item, packer)
            except NotPlain:
                left.append(item.path)
        return {"places": [place_of(frame) for frame in frames], "values": found, "left": left,
                "loops": [_loop_values(frame) for frame in frames]}


def put_back(saved: Mapping[str, Any], frames: Sequence[FrameType], unpacker: Unpacker) -> list[str]:
    """Restore the script's variables; return those that could not be restored exactly: a sentence each.

    Args:
        saved: Result of `Variables.changed`.
        frames: Current frames of the script.
        unpacker: Unpacks the values.
    """
    places = [place_of(frame) for frame in frames]
    if places != saved["places"]:
        return [f"The script is in {places[0] if places else 'no code of its own'}; it was in "
                f"{saved['places'][0] if saved['places'] else 'none'}."]
    notes = list(_loops_that_differ(saved["loops"], frames))
    there = {item.path: item for item in variables_of(frames, ())}
    loose: dict[int, dict[str, Any]] = {}
    for path, packed in saved["values"].items():
        where, _, name = path.partition("/")
        try:
            value = unpacker.unpack(packed["value"])
        except BarographError as error:
            notes.append(f"{name} could not be restored: {error}")
            continue
        item = there.get(path)
        if item is not None and _in_place(item.value, value):
            continue
        if item is not None and item.holder is not None:
            object.__setattr__(item.holder, path.rpartition("/")[2], value)
        elif "/" not in name and where.isdigit():
            loose.setdefault(int(where), {})[name] = value
        elif "/" not in name and where in sys.modules:
            setattr(sys.modules[where], name, value)
        else:
            notes.append(f"{path} does not exist, so it was not restored.")
    for number, values in loose.items():
        set_locals(frames[len(frames) - 1 - number], values)
    return notes


def _in_place(now: Any, then: Any) -> bool:
    """Restore the content of a container or model in place, so that other references see it; return whether
    possible."""
    if isinstance(now, nn.Module):
        now.load_state_dict(then)
        return True
    if isinstance(now, GENERATORS):
        put_state(now, then)
        return True
    if isinstance(now, deque):
        now.clear()
        now.extend(then)
        return True
    if type(now) is not type(then):
        return False
    if isinstance(now, list):
        now[:] = then
    elif isinstance(now, dict | set):
        now.clear()
        now.update(then)
    else:
        return False
    return True


def _packed(item: Variable, packer: Packer) -> dict[str, Any]:
    value = item.value
    if isinstance(value, nn.Module):
        value = dict(value.state_dict())
    elif isinstance(value, GENERATORS):
        value = state_of(value)
    elif isinstance(value, deque):
        value = list(value)
    before = dict(packer.tensors)
    try:
        return {"value": packer.pack(value, f"variables/{item.path}")}
    except NotPlain:
        packer.tensors.clear()
        packer.tensors.update(before)
        raise


def _mark(value: Any) -> str | None:
    """Return a value that identifies the content of another; None if it is not compared."""
    if isinstance(value, torch.Tensor):
        if value.numel() > _LOOSE_ELEMENTS or value.grad_fn is not None:
            return None
        return f"tensor {id(value)} {_version(value)}"
    if isinstance(value, nn.Module):
        return "module " + ",".join(str(_version(item)) for item in (*value.parameters(), *value.buffers()))
    if isinstance(value, np.ndarray):
        return None if value.size > _LOOSE_ELEMENTS else hashlib.sha256(value.tobytes()).hexdigest()
    try:
        value = state_of(value) if isinstance(value, GENERATORS) else value
        return hashlib.sha256(json.dumps(_plain(value, 0), sort_keys=True).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return None


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, torch.Tensor):
        if value.numel() > _MOST_ELEMENTS:
            return ["tensor", id(value), _version(value)]
        small = value.numel() <= _LOOSE_ELEMENTS and value.device.type == "cpu"
        return ["tensor", hashlib.sha256(raw_tensor(value.detach()).data).hexdigest() if small else
                [id(value), _version(value)]]
    if isinstance(value, np.ndarray | np.generic):
        return ["array", hashlib.sha256(np.asarray(value).tobytes()).hexdigest()]
    if isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value)]
    if depth > _DEEPEST:
        raise ValueError("deep")
    if isinstance(value, Mapping):
        return [type(value).__name__, [[_plain(key, depth + 1), _plain(item, depth + 1)]
                                       for key, item in value.items()]]
    if isinstance(value, set):
        return ["set", sorted(map(repr, value))]
    if isinstance(value, list | tuple | deque):
        return [type(value).__name__, [_plain(item, depth + 1) for item in value]]
    raise TypeError(type(value).__name__)


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _loop_values(frame: FrameType) -> list[list[Any]]:
    """Return the counters of the loops around a position, by name, outermost first: numbers and strings only.

    The loop that requests batches is left out: its counter advances with it.
    """
    loops = loop_names(frame)
    return [[name, repr(frame.f_locals[name])] for names in (loops[:-1] if requests_now(frame) else loops)
            for name in names if isinstance(frame.f_locals.get(name), bool | int | float | str)]


def _loops_that_differ(saved: Sequence[Any], frames: Sequence[FrameType]) -> Iterator[str]:
    for then, frame in zip(saved, frames, strict=True):
        now = _loop_values(frame)
        for (name, was), (_, found) in zip(then, now, strict=False):
            if was != found:
                yield (f"A loop of {place_of(frame)} counts with {name}, which was {was} and is {found}: "
                       "it cannot be advanced.")


def _file_of(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    return str(getattr(module, "__file__", None) or "<built-in>")
