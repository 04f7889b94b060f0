"""One pass over a data loader: what was drawn, what came, and what that was made of."""

from __future__ import annotations

import contextlib
import struct
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from barograph.capture.torch.sources import Source, names_in
from barograph.capture.torch.values import tensors_in
from barograph.model.trace import OrderHint


class DataSet:
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
class Drawn:
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
class LoaderPass:
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
    data: DataSet
    source: Source | None
    hint: OrderHint | None
    alive: weakref.ref[Any]
    tasks: dict[int, Drawn] = field(default_factory=dict)
    draws: int = 0
    samples: int = 0
    read: dict[int, int] = field(default_factory=dict)
    ended: bool = False
    number: int = -1
    dealt: Dealt | None = None

    def draw(self, iterator: _BaseDataLoaderIter, given: Any) -> None:
        """Note what a sampler gave: the indices of one batch."""
        # A loader with workers numbers what it sends to them.
        task = getattr(iterator, "_send_idx", self.draws)
        dealt = self.dealt
        if dealt is not None:
            batch = _drawn(dealt.indices[self.samples:self.samples + dealt.together], self.samples, together=True)
        elif iterator._dataset_kind == _DatasetKind.Iterable:
            batch = Drawn(0, 0, None)
        else:
            batch = _drawn(given, self.samples, together=iterator._auto_collation)
        self.tasks[task] = batch
        self.draws += 1
        self.samples += batch.samples

    def take(self, iterator: _BaseDataLoaderIter) -> Drawn | None:
        """Return what the batch that just came was drawn as; None where that is not known."""
        tasks = self.tasks
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

    def note_workers(self, iterator: _BaseDataLoaderIter) -> None:
        """Note which worker reads what was drawn: once a batch came, nobody knows any more."""
        under_way = getattr(iterator, "_task_info", None) or {}
        for task, drawn in self.tasks.items():
            if drawn.worker < 0 and task in under_way:
                drawn.worker = int(under_way[task][0])

    def was_dealt(self, drawn: Drawn, batch: Any) -> bool:
        """Return whether a batch is what another library has drawn, or nothing was; if it is not, nor is the rest."""
        if self.dealt is not None and not (self.dealt.indices and drawn.samples == _rows(batch)):
            # Samples were passed over as they were read: from here on others come than were dealt.
            self.dealt = self.dealt._replace(indices=())
            return False
        return True

    def made_of(self, drawn: Drawn, batch: Any, *, together: bool) -> MadeOf:
        """Return what a batch was made of.

        Args:
            drawn: As it was drawn.
            batch: It.
            together: It holds several samples.

        Raises:
            Exception: What names samples failed.
        """
        first, samples = drawn.first, drawn.samples
        names: tuple[tuple[int, str], ...] = ()
        if drawn.indices is not None:
            if self.source is not None:
                names = self.data.names_of(_numbers(drawn.indices), self.source)
        elif drawn.keys:
            names = tuple(enumerate(drawn.keys, first))
        else:
            told = names_in(batch)
            samples = len(told) or (_rows(batch) if together else 1)
            first = self.read.get(drawn.worker, 0)
            self.read[drawn.worker] = first + samples
            names = tuple(enumerate(told, first))
        return MadeOf(self.data.label, first, samples, drawn.indices, drawn.worker, names, self.source)

    def name_no_more(self) -> None:
        """Do not ask for names of samples again."""
        self.source = None

    @contextlib.contextmanager
    def without_names(self) -> Iterator[None]:
        """Do not ask for names of samples in a `with` block."""
        source, self.source = self.source, None
        try:
            yield
        finally:
            self.source = source

    def feed(self, number: int) -> bool:
        """Note that it feeds a step; return whether it is the first, so that it gets this number."""
        if self.number >= 0:
            return False
        self.number = number
        return True

    def take_hint(self) -> OrderHint | None:
        """Return what the order was perhaps drawn from; once."""
        hint, self.hint = self.hint, None
        return hint

    def end(self) -> None:
        """Note that it gave its last batch."""
        self.ended = True


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

    of: LoaderPass
    made: MadeOf


def _drawn(drawn: Any, first: int, *, together: bool) -> Drawn:
    """Return a batch as it was drawn; a copy, since a sampler may use its list again."""
    members = drawn if together else [drawn]
    try:
        indices = struct.pack(f"{len(members)}q", *members)
    except (TypeError, struct.error):
        keys = tuple(str(item) for item in members) if isinstance(members, Iterable) else (str(members),)
        return Drawn(first, len(keys), None, keys)
    return Drawn(first, len(members), indices)


def _numbers(indices: bytes) -> list[int]:
    return memoryview(indices).cast("q").tolist()


def _name(source: Source | None, index: int) -> str:
    try:
        name = None if source is None else source(index)
    except Exception:  # noqa: BLE001 - a name that cannot be told must not keep a step from being saved
        return ""
    return "" if name is None else str(name)


def _rows(batch: Any) -> int:
    """Return how many samples a batch holds: the length of the first axis of its first tensor; 1 where it has none."""
    return next((tensor.shape[0] for _, tensor in tensors_in(batch) if tensor.dim()), 1)
