"""The data trace: the samples of each batch, and the batches of each step.

Indices are drawn in the process that trains, whoever reads the samples then: they are noted as they are drawn, and
found again by the number of the draw when the batch comes. The loader's order, its randomness and what it gives stay
as they are.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from barograph.capture.torch.orders import hint_for
from barograph.capture.torch.sources import Source, names_in, source_of
from barograph.capture.torch.values import tensors_in
from barograph.model.trace import BatchFed, OrderHint

_MOST_WAITING = 4096
"""Batches that are remembered between two steps: a long evaluation gives many, and feeds none."""


class _DataSet:
    """What is known of one data set: its label, its size and which names were told. It holds nothing of the data set.

    Args:
        label: For people.
        size: Samples; -1: not known.
    """

    def __init__(self, label: str, size: int) -> None:
        self.label = label
        self.size = size
        self._told = bytearray(max(0, size))

    def names_of(self, indices: Iterable[int], source: Source) -> tuple[tuple[int, str], ...]:
        """Return index and name of the samples that were not named before."""
        told = self._told
        found = []
        for index in indices:
            if 0 <= index < len(told) and not told[index]:
                told[index] = 1
                name = source(index)
                if name is not None:
                    found.append((index, str(name)))
        return tuple(found)


class MadeOf(NamedTuple):
    """The samples of a batch, as stored in a capsule.

    Attributes:
        loader: Class of the data set.
        first, samples, indices, loader_worker, names: As of `BatchFed`.
        source: Names its samples; None: nobody does.
    """

    loader: str
    first: int
    samples: int
    indices: bytes | None
    loader_worker: int
    names: tuple[tuple[int, str], ...]
    source: Source | None

    def told(self) -> dict[str, Any]:
        """Return it as plain JSON data, with the names that are known."""
        if self.indices is None:
            names = [name for _, name in self.names]
        else:
            names = [_name(self.source, index) for index in _numbers(self.indices)] if self.source else []
        return {"loader": self.loader, "first": self.first, "samples": self.samples, "names": names,
                "indices": None if self.indices is None else _numbers(self.indices),
                "loader_worker": None if self.loader_worker < 0 else self.loader_worker}


@dataclass(slots=True)
class _Drawn:
    """A drawn batch that has not arrived.

    Attributes:
        first: Place of its first sample in the pass.
        samples: How many; 0: only the batch will tell.
        indices: As 64-bit numbers; None: a stream has none.
        keys: What a sampler gave that is no number.
        worker: The loader's worker that reads it; -1: none, or not known.
    """

    first: int
    samples: int
    indices: bytes | None
    keys: tuple[str, ...] = ()
    worker: int = -1


@dataclass(slots=True, eq=False)
class _Pass:
    """One pass over a loader.

    Attributes:
        serial: Which, of all passes of this process.
        number: Which of those that fed steps; -1: it fed none yet.
        drawer: What indices are drawn from: one iterator may make several passes, each with its own.
        data: What is read.
        source: Names its samples; None: nobody does.
        hint: What the order was perhaps drawn from; None once it was told.
        alive: The iterator, weakly.
        tasks: Number of the draw to what was drawn, of batches that have not come.
        draws, samples: Drawn so far.
        read: Of a stream: the loader's worker to the samples that came from it.
        ended: It gave its last batch.
        dealt: What the loader has drawn for itself; None: nothing.
    """

    serial: int
    drawer: Any
    data: _DataSet
    source: Source | None
    hint: OrderHint | None
    alive: weakref.ref[Any]
    tasks: dict[int, _Drawn] = field(default_factory=dict)
    draws: int = 0
    samples: int = 0
    read: dict[int, int] = field(default_factory=dict)
    ended: bool = False
    number: int = -1
    dealt: Dealt | None = None


class Dealt(NamedTuple):
    """The order of a pass that another library's loader has drawn itself.

    Attributes:
        data: The data set.
        indices: Of its samples, in order; emptied where others come from then on.
        together: How many make a batch; the last may have fewer.
        source: Names its samples; None: whatever names those of any data set.
    """

    data: Any
    indices: Sequence[int]
    together: int
    source: Source | None = None


class Traced(NamedTuple):
    """A batch that arrived, with its pass.

    Attributes:
        of: The pass.
        made: What it was made of.
    """

    of: _Pass
    made: MadeOf


class LoaderTrace:
    """Follows batches from the sampler to the step.

    Attributes:
        source: The user's own function that names samples; None: the data set does, where it can.
        dealt: Returns the order that another library has drawn for what torch reads as a stream; None: it has not.
    """

    def __init__(self) -> None:
        self.source: Source | None = None
        self.dealt: Callable[[Any], Dealt | None] = lambda dataset: None
        # By the identity of the iterator, which is forgotten when that goes: much quicker than a weak dictionary.
        self._passes: dict[int, _Pass] = {}
        self._data: dict[int, tuple[weakref.ref[Any] | None, _DataSet]] = {}
        self._labels: dict[str, int] = {}
        self._came: Traced | None = None
        self._waiting: list[Traced] = []
        self._last = -1
        self._serial = self._feeding = 0

    def name_samples(self, source: Source) -> None:
        """Have samples named by a function of the user's."""
        self.source = source

    def dealt_by(self, dealt: Callable[[Any], Dealt | None]) -> None:
        """Ask `dealt` for the order that another library has drawn."""
        self.dealt = dealt

    # While the loader draws and gives

    def begins_pass(self, iterator: _BaseDataLoaderIter) -> bool:
        """Return whether the draw that comes is the first of a pass."""
        known = self._passes.get(id(iterator))
        return known is None or known.drawer is not iterator._sampler_iter

    def begin_pass(self, iterator: _BaseDataLoaderIter) -> None:
        """Note that a pass begins, right before its first draw."""
        is_stream = iterator._dataset_kind == _DatasetKind.Iterable
        hint = None if is_stream else hint_for(iterator._index_sampler)
        dealt = self.dealt(iterator._dataset) if is_stream else None
        data = iterator._dataset if dealt is None else dealt.data
        source = self.source or (dealt.source if dealt is not None else None) or source_of(data)
        passes, identity = self._passes, id(iterator)
        alive = weakref.ref(iterator, lambda _: passes.pop(identity, None))
        passes[identity] = _Pass(self._serial, iterator._sampler_iter, self._data_of(data), source, hint, alive,
                                 dealt=dealt)
        self._serial += 1

    def drew(self, iterator: _BaseDataLoaderIter, drawn: Any) -> None:
        """Note what a sampler gave: the indices of one batch."""
        current = self._passes.get(id(iterator))
        if current is None:
            return
        # A loader with workers numbers what it sends to them.
        task = getattr(iterator, "_send_idx", current.draws)
        dealt = current.dealt
        if dealt is not None:
            drawn = dealt.indices[current.samples:current.samples + dealt.together]
            batch = _batch(drawn, current.samples, together=True)
        elif iterator._dataset_kind == _DatasetKind.Iterable:
            batch = _Drawn(0, 0, None)
        else:
            batch = _batch(drawn, current.samples, together=iterator._auto_collation)
        current.tasks[task] = batch
        current.draws += 1
        current.samples += batch.samples

    def gave(self, iterator: _BaseDataLoaderIter, batch: Any) -> None:
        """Note that a batch came: `take` tells what it was made of.

        Raises:
            Exception: What names samples failed. It is not asked again in this pass; the batch is noted.
        """
        self._came = None
        current = self._passes.get(id(iterator))
        if current is None:
            return
        drawn = _take(current, iterator)
        if iterator._num_workers:
            _note_workers(current, iterator)
        if drawn is None or not torch.is_grad_enabled():
            return
        if current.dealt is not None and not (current.dealt.indices and drawn.samples == _rows(batch)):
            # Samples were passed over as they were read: from here on others come than were dealt.
            current.dealt = current.dealt._replace(indices=())
            return
        failure = None
        try:
            made_of = _made_of(current, drawn, batch, together=iterator._auto_collation)
        except Exception as error:  # noqa: BLE001 - the user's own function may raise anything; it is raised below
            failure, current.source = error, None
            made_of = _made_of(current, drawn, batch, together=iterator._auto_collation)
        self._came = Traced(current, made_of)
        if failure is not None:
            raise failure

    def passed_over(self, iterator: _BaseDataLoaderIter, batch: Any) -> None:
        """Note that a batch came which feeds no step; its samples are named when they come again."""
        current = self._passes.get(id(iterator))
        if current is None:
            return
        source, current.source = current.source, None
        try:
            with torch.enable_grad():
                self.gave(iterator, batch)
        finally:
            current.source, self._came = source, None

    def take(self) -> Traced | None:
        """Return the batch that came last, once; None where it is not known, or one of an evaluation."""
        came, self._came = self._came, None
        return came

    def feeds(self, traced: Traced) -> None:
        """Note that the script has a batch from now on: it feeds the step that comes."""
        self._waiting.append(traced)
        self._last = traced.of.serial
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[0]

    def note_workers(self, iterator: _BaseDataLoaderIter) -> None:
        """Note which of the loader's workers read what was drawn before a pass began."""
        current = self._passes.get(id(iterator))
        if current is not None:
            _note_workers(current, iterator)

    def ended(self, iterator: _BaseDataLoaderIter) -> None:
        """Note that a pass gave its last batch."""
        current = self._passes.get(id(iterator))
        if current is not None:
            current.ended = True

    # When a step ends

    def end_step(self, tick: int, step: int, optimizer: str) -> list[BatchFed]:
        """Return the batches that fed the step that ends."""
        if not self._waiting:
            return []
        batches = []
        for one, made in self._training():
            if one.number < 0:
                one.number, self._feeding = self._feeding, self._feeding + 1
            hint, one.hint = one.hint, None
            batches.append(BatchFed(
                tick, step, optimizer, one.number, made.loader, one.data.size, made.first, made.samples,
                made.indices or b"", made.loader_worker, made.names, hint))
        self._waiting.clear()
        return batches

    def _training(self) -> list[Traced]:
        """Return what has come since the last step, without the batches of an evaluation.

        A pass that ended, or that nobody goes on with, and fed no step, was none of training: unless it came last.
        """
        last = self._last
        return [item for item in self._waiting
                if item.of.serial == last or item.of.number >= 0 or not (item.of.ended or item.of.alive() is None)]

    # Small things

    def _data_of(self, dataset: Any) -> _DataSet:
        reference, known = self._data.get(id(dataset), (None, None))
        if known is not None and (known.size == _length(dataset) if reference is None else reference() is dataset):
            return known
        name = type(dataset).__name__
        self._labels[name] = number = self._labels.get(name, 0) + 1
        found = _DataSet(name if number == 1 else f"{name} {number}", _length(dataset))
        try:
            reference = weakref.ref(dataset)
        except TypeError:
            reference = None  # a list, say
        self._data[id(dataset)] = reference, found
        return found


def _batch(drawn: Any, first: int, *, together: bool) -> _Drawn:
    """Return a batch as it was drawn; a copy, since a sampler may use its list again."""
    members = drawn if together else [drawn]
    try:
        indices = struct.pack(f"{len(members)}q", *members)
    except (TypeError, struct.error):
        keys = tuple(str(item) for item in members) if isinstance(members, Iterable) else (str(members),)
        return _Drawn(first, len(keys), None, keys)
    return _Drawn(first, len(members), indices)


def _numbers(indices: bytes) -> list[int]:
    return memoryview(indices).cast("q").tolist()


def _made_of(current: _Pass, drawn: _Drawn, batch: Any, *, together: bool) -> MadeOf:
    first, samples = drawn.first, drawn.samples
    names: tuple[tuple[int, str], ...] = ()
    if drawn.indices is not None:
        if current.source is not None:
            names = current.data.names_of(_numbers(drawn.indices), current.source)
    elif drawn.keys:
        names = tuple(enumerate(drawn.keys, first))
    else:
        told = names_in(batch)
        samples = len(told) or (_rows(batch) if together else 1)
        first = current.read.get(drawn.worker, 0)
        current.read[drawn.worker] = first + samples
        names = tuple(enumerate(told, first))
    return MadeOf(current.data.label, first, samples, drawn.indices, drawn.worker, names, current.source)


def _note_workers(current: _Pass, iterator: _BaseDataLoaderIter) -> None:
    """Note which worker reads what was drawn: once a batch came, nobody knows any more."""
    under_way = getattr(iterator, "_task_info", None) or {}
    for task, drawn in current.tasks.items():
        if drawn.worker < 0 and task in under_way:
            drawn.worker = int(under_way[task][0])


def _take(current: _Pass, iterator: _BaseDataLoaderIter) -> _Drawn | None:
    """Return what the batch that just came was drawn as; None where that is not known."""
    tasks = current.tasks
    under_way = getattr(iterator, "_task_info", None)
    if under_way is None:
        # Those before it could not be read.
        task = next(reversed(tasks), None)
        drawn = None if task is None else tasks[task]
        tasks.clear()
        return drawn
    if getattr(iterator, "_in_order", True):
        # Those before it were given up: their worker had nothing more to read.
        task = iterator._rcvd_idx - 1  # type: ignore[attr-defined]
        for gone in [item for item in tasks if item < task]:
            del tasks[gone]
    else:
        task = next((item for item in tasks if item not in under_way), None)
    return None if task is None else tasks.pop(task, None)


def _name(source: Source | None, index: int) -> str:
    try:
        name = None if source is None else source(index)
    except Exception:  # noqa: BLE001 - a name that cannot be told must not keep a step from being saved
        return ""
    return "" if name is None else str(name)


def _rows(batch: Any) -> int:
    """Return how many samples a batch holds: the length of the first axis of its first tensor; 1 where it has none."""
    return next((tensor.shape[0] for _, tensor in tensors_in(batch) if tensor.dim()), 1)


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001 - it is the user's code, and a stream may raise anything here
        return -1
