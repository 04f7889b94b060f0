"""Knows where the script is in its data: which passes over which loaders are under way, and how far each is.

A pass is told from others by its loader (what it is made of, and its number among its likes, in the order in which
they were first used) and by its number among the passes over that loader: a script that is started anew comes to the
same ones.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from barograph.capture.torch_packing import Packer, Unpacker
from barograph.capture.torch_putting_back import unpacked_random
from barograph.capture.torch_random import RandomStates, random_states
from barograph.capture.torch_standing import packed_random


@dataclass(frozen=True, slots=True)
class PassName:
    """Which pass of a script it is.

    Attributes:
        loader: What its loader is made of.
        number: Of that loader among those made alike.
        begun: Passes over it that began before.
    """

    loader: str
    number: int
    begun: int


@dataclass(slots=True, eq=False)
class Pass:
    """One pass over a loader.

    Attributes:
        name: Of it.
        loader: Weakly.
        random: Where all generators stood right before it began.
        generators: Where those of the loader, its samplers and its data stood then, by name.
        given: Batches that came out of it.
        ended: It has no more.
        asked_at: Optimizer steps that had been made when it was last asked for a batch; None: it never was.
    """

    name: PassName
    loader: weakref.ref[DataLoader[Any]]
    random: RandomStates
    generators: dict[str, Any]
    given: int = 0
    ended: bool = False
    asked_at: int | None = None


class LoaderNames:
    """Names the passes of a script."""

    def __init__(self) -> None:
        self._loaders: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()
        self._alike: dict[str, int] = {}
        self._begun: dict[tuple[str, int], int] = {}

    def begins(self, loader: DataLoader[Any]) -> PassName:
        """Return the name of a pass that begins now; called once for each."""
        key = self._loaders.get(loader)
        if key is None:
            kind = _made_of(loader)
            key = self._loaders[loader] = (kind, self._alike.get(kind, 0))
            self._alike[kind] = key[1] + 1
        begun = self._begun.get(key, 0)
        self._begun[key] = begun + 1
        return PassName(*key, begun)


class PassBook:
    """The passes that are under way in the thread that trains.

    Args:
        names: Of passes; those begun before count.
    """

    def __init__(self, names: LoaderNames) -> None:
        self._names = names
        self._passes: weakref.WeakKeyDictionary[Any, Pass] = weakref.WeakKeyDictionary()
        self._beginning: Pass | None = None

    def will_begin(self, loader: DataLoader[Any]) -> None:
        """Note how everything stands right before a pass begins."""
        if _in_main_thread():
            self._beginning = Pass(self._names.begins(loader), weakref.ref(loader), random_states(),
                                   states_of(generators_of(loader)))

    def begins(self, iterator: Any) -> None:
        """Note that it has begun."""
        if self._beginning is not None and _in_main_thread():
            self._passes[iterator], self._beginning = self._beginning, None

    def adopt(self, iterator: Any, current: Pass) -> None:
        """Note that an iterator goes on with a pass."""
        self._passes[iterator] = current

    def of(self, iterator: Any) -> Pass | None:
        """Return what is known of the pass that an iterator makes; None where it is another thread's."""
        return self._passes.get(iterator) if _in_main_thread() else None

    def open(self) -> Iterator[Pass]:
        """Yield the passes that have given batches and may give more."""
        for item in list(self._passes.values()):
            if item.given and not item.ended and item.loader() is not None:
                yield item


def packed_pass(item: Pass, packer: Packer, name: str) -> dict[str, Any]:
    """Return a pass as plain data: which it is, how far, and where generators stood when it began and stand now."""
    loader = item.loader()
    now = states_of(generators_of(loader)) if loader is not None else {}
    return {
        "loader": item.name.loader, "number": item.name.number, "begun": item.name.begun, "given": item.given,
        "random": packed_random(item.random, packer, f"{name}/random"),
        "generators": packer.pack(item.generators, f"{name}/generators"),
        "generators_now": packer.pack(now, f"{name}/generators_now"),
    }


def begun_again(
    loader: DataLoader[Any], packed: Mapping[str, Any], unpacker: Unpacker, iterate: Callable[[DataLoader[Any]], Any]
) -> tuple[Any, Pass]:
    """Return a pass over a loader that stands where a packed one stood; random states are left anywhere.

    Of data in memory, indices are drawn and passed over. Of a stream, and where other processes load (their random
    numbers follow from what they have loaded), batches are loaded and dropped.

    Args:
        loader: Which.
        packed: As `packed_pass` returned it.
        unpacker: Of its values.
        iterate: Begins a pass.

    Raises:
        StopIteration: It has fewer batches than were given then.
    """
    states = unpacked_random(packed["random"], unpacker)
    generators = unpacker.unpack(packed["generators"])
    states.put_back()
    put_states(generators_of(loader), generators)
    iterator = iterate(loader)
    given = int(packed["given"])
    if loader.num_workers == 0 and not isinstance(loader.dataset, torch.utils.data.IterableDataset):
        for _ in range(given):
            iterator._next_index()
        iterator._num_yielded += given
    else:
        for _ in range(given):
            next(iterator)
    put_states(generators_of(loader), unpacker.unpack(packed["generators_now"]))
    name = PassName(packed["loader"], packed["number"], packed["begun"])
    return iterator, Pass(name, weakref.ref(loader), states, generators, given)


def generators_of(loader: DataLoader[Any]) -> dict[str, Any]:
    """Return the generators of random numbers that a loader, its samplers and its data hold, by name."""
    found: dict[str, Any] = {}
    batches = getattr(loader, "batch_sampler", None)
    holders = {"loader": loader, "sampler": loader.sampler, "batch_sampler": batches,
               "batch_sampler.sampler": getattr(batches, "sampler", None), "dataset": loader.dataset}
    for where, holder in holders.items():
        for name, value in getattr(holder, "__dict__", {}).items():
            if isinstance(value, torch.Generator | np.random.Generator | np.random.RandomState | random.Random):
                found[f"{where}.{name}"] = value
    return found


def states_of(generators: dict[str, Any]) -> dict[str, Any]:
    """Return where generators stand."""
    return {name: _state(item) for name, item in generators.items()}


def put_states(generators: dict[str, Any], states: dict[str, Any]) -> None:
    """Let generators stand where they stood."""
    for name, state in states.items():
        item = generators.get(name)
        if isinstance(item, torch.Generator):
            item.set_state(state)
        elif isinstance(item, np.random.Generator):
            item.bit_generator.state = state
        elif isinstance(item, np.random.RandomState):
            item.set_state(state)
        elif isinstance(item, random.Random):
            item.setstate(state)


def _state(item: Any) -> Any:
    if isinstance(item, np.random.Generator):
        return _copied(item.bit_generator.state)
    if isinstance(item, random.Random):
        return item.getstate()
    return item.get_state()


def _copied(state: Any) -> Any:
    """Return a state that does not go on with its generator, whose whole numbers (of any size) JSON can hold."""
    return {name: _copied(value) for name, value in state.items()} if isinstance(state, dict) else state


def _made_of(loader: DataLoader[Any]) -> str:
    data = loader.dataset
    try:
        length = str(len(data))  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        length = "stream"
    return f"{type(data).__name__}[{length}] by {loader.batch_size}, {type(loader.sampler).__name__}"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
