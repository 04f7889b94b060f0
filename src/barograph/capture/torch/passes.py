"""The script's position in its data: current passes over loaders, and their progress.

A pass is identified by its loader (its description, and its number among loaders with the same description, in order of
first use) and by its number among the passes over that loader: a restarted script makes the same ones.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from barograph.capture.steps import Steps, StepsIterator
from barograph.capture.torch.generators import generators_of, put_states, states_of
from barograph.capture.torch.packing import Packer
from barograph.capture.torch.putting_back import unpacked_random
from barograph.capture.torch.random import RandomStates, random_states
from barograph.capture.torch.standing import packed_random
from barograph.capture.torch.unpacking import Unpacker


@dataclass(frozen=True, slots=True)
class PassName:
    """Identifies a pass of a script.

    Attributes:
        loader: Description of its loader.
        number: Position among the loaders with the same description, in order of first use.
        begun: Number of earlier passes over it.
    """

    loader: str
    number: int
    begun: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The states of random generators.

    Attributes:
        random: The global generators.
        own: Generators of the loader, its samplers and its data set, by name.
    """

    random: RandomStates
    own: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Pass:
    """One pass over a loader.

    Attributes:
        name: Its name.
        loader: Returns its loader. A strong reference if its iterator has none: the script may have no other.
        begin: States of generators before it started.
        first: States before its first batch, which may differ; None: no batch was requested.
        given: Number of batches delivered.
        ended: It has no more.
        asked_at: Number of optimizer steps when its last batch was requested; None: never.
    """

    name: PassName
    loader: Callable[[], Any]
    begin: Standing
    first: Standing | None = None
    given: int = 0
    ended: bool = False
    asked_at: int | None = None


class LoaderNames:
    """Names the passes of a script."""

    def __init__(self) -> None:
        self._loaders: weakref.WeakKeyDictionary[Any, tuple[str, int]] = weakref.WeakKeyDictionary()
        self._alike: dict[str, int] = {}
        self._begun: dict[tuple[str, int], int] = {}

    def begins(self, loader: Any) -> PassName:
        """Return the name of a pass that starts now; called once per pass."""
        key = self._loaders.get(loader)
        if key is None:
            kind = _made_of(loader)
            key = self._loaders[loader] = (kind, self._alike.get(kind, 0))
            self._alike[kind] = key[1] + 1
        begun = self._begun.get(key, 0)
        self._begun[key] = begun + 1
        return PassName(*key, begun)


class PassBook:
    """The current passes in the training thread.

    Args:
        names: Names passes; earlier passes count.
    """

    def __init__(self, names: LoaderNames) -> None:
        self._names = names
        self._passes: weakref.WeakKeyDictionary[Any, Pass] = weakref.WeakKeyDictionary()
        self._beginning: Pass | None = None

    def will_begin(self, loader: Any) -> None:
        """Note the states of generators before a pass starts."""
        if _in_main_thread():
            self._beginning = Pass(self._names.begins(loader), _held(loader), standing_of(loader))

    def begins(self, iterator: Any) -> None:
        """Note that it has started."""
        if self._beginning is not None and _in_main_thread():
            self._passes[iterator], self._beginning = self._beginning, None

    def adopt(self, iterator: Any, current: Pass) -> None:
        """Note that an iterator continues a pass."""
        self._passes[iterator] = current

    def of(self, iterator: Any) -> Pass | None:
        """Return the pass of an iterator; None if it belongs to another thread."""
        return self._passes.get(iterator) if _in_main_thread() else None

    def open(self) -> Iterator[Pass]:
        """Yield the passes that have delivered batches and may deliver more."""
        for item in list(self._passes.values()):
            if item.given and not item.ended and item.loader() is not None:
                yield item


def packed_pass(item: Pass, packer: Packer, name: str) -> dict[str, Any]:
    """Return a pass as plain data: identity, progress, and states of generators at its start and now."""
    loader = item.loader()
    now = states_of(generators_of(loader)) if loader is not None else {}
    first = item.first or item.begin
    return {
        "loader": item.name.loader, "number": item.name.number, "begun": item.name.begun, "given": item.given,
        "begin": _packed(item.begin, packer, f"{name}/begin"), "first": _packed(first, packer, f"{name}/first"),
        "generators_now": packer.pack(now, f"{name}/generators_now"),
    }


def begun_again(
    loader: Any, packed: Mapping[str, Any], unpacker: Unpacker, iterate: Callable[[Any], Any]
) -> tuple[Any, Pass]:
    """Return a pass over a loader at the position of a packed one; random states are arbitrary.

    For data in memory, indices are drawn and skipped. For streams and loaders with workers (whose random numbers depend
    on what they have loaded), batches are loaded and dropped.

    Args:
        loader: The loader.
        packed: Result of `packed_pass`.
        unpacker: Unpacks its values.
        iterate: Starts a pass.

    Raises:
        StopIteration: It has fewer batches than were delivered before.
    """
    begin, first = (_unpacked(packed[which], unpacker) for which in ("begin", "first"))
    put_back(loader, begin)
    iterator = iterate(loader)
    put_back(loader, first)
    given = int(packed["given"])
    if isinstance(iterator, StepsIterator):
        iterator.made = given
    elif loader.num_workers == 0 and not isinstance(loader.dataset, torch.utils.data.IterableDataset):
        for _ in range(given):
            iterator._next_index()
        iterator._num_yielded += given
    else:
        for _ in range(given):
            next(iterator)
    put_states(generators_of(loader), unpacker.unpack(packed["generators_now"]))
    name = PassName(packed["loader"], packed["number"], packed["begun"])
    return iterator, Pass(name, _held(loader), begin, first, given)


def standing_of(loader: Any) -> Standing:
    """Return the current states of generators."""
    return Standing(random_states(), states_of(generators_of(loader)))


def put_back(loader: Any, standing: Standing) -> None:
    """Restore states of generators."""
    standing.random.put_back()
    put_states(generators_of(loader), standing.own)


def _held(loader: Any) -> Callable[[], Any]:
    # A loader with persistent workers references its iterator, and would never be released.
    return weakref.ref(loader) if getattr(loader, "persistent_workers", False) else lambda: loader


def _packed(standing: Standing, packer: Packer, name: str) -> dict[str, Any]:
    return {"random": packed_random(standing.random, packer, f"{name}/random"),
            "own": packer.pack(dict(standing.own), f"{name}/own")}


def _unpacked(packed: Mapping[str, Any], unpacker: Unpacker) -> Standing:
    return Standing(unpacked_random(packed["random"], unpacker), unpacker.unpack(packed["own"]))


def _made_of(loader: Any) -> str:
    if isinstance(loader, Steps):
        return f"{loader.count} steps"
    data = loader.dataset
    try:
        length = str(len(data))
    except (TypeError, NotImplementedError):
        length = "stream"
    return f"{type(data).__name__}[{length}] in batches of {loader.batch_size}, {type(loader.sampler).__name__}"


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
