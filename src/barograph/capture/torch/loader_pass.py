"""One pass over a data loader: drawn indices, delivered batches, and the samples of each."""

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
    """Facts about one data set: label, size, and which names were recorded. It does not reference the data set.

    Args:
        label: Displayed label.
        size: Number of samples; -1: unknown.
    """

    def __init__(self, label: str, size: int) -> None:
        self.label = label
        self.size = size
        self._named = bytearray(max(0, size))

    def names_of(self, indices: Iterable[int], source: Source) -> tuple[tuple[int, str], ...]:
        """Return index and name of the samples not named before."""
        named = self._named
        found = []
        for index in indices:
            if 0 <= index < len(named) and not named[index]:
                named[index] = 1
                name = source(index)
                if name is not None:
                    found.append((index, str(name)))
        return tuple(found)


class MadeOf(NamedTuple):
    """The samples of a batch, as stored in a capsule.

    Attributes:
        loader: Class of the data set.
        first, samples, indices, loader_worker, names: See `BatchFed`.
        source: Names the samples; None: nothing does.
    """

    loader: str
    first: int
    samples: int
    indices: bytes | None
    loader_worker: int
    names: tuple[tuple[int, str], ...]
    source: Source | None

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON data, with the known names."""
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
        first: Position of its first sample in the pass.
        samples: Number of samples; 0: known once the batch arrives.
        indices: 64-bit integers; None: a stream has none.
        keys: Non-numeric items from a sampler.
        worker: Loader worker that reads it; -1: none or unknown.
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
        serial: Number among all passes of this process.
        number: Number among those that fed steps; -1: none yet.
        drawer: Iterator of indices: one loader iterator may make several passes, each with its own.
        data: The data set.
        source: Names its samples; None: nothing does.
        hint: Predicted random state of the order; None once reported.
        alive: Weak reference to the iterator.
        tasks: Number of the draw to what was drawn, for batches that have not arrived.
        draws, samples: Numbers drawn so far.
        read: For streams: loader worker to the number of samples from it.
        ended: It delivered its last batch.
        dealt: Indices that the loader drew itself; None: nothing.
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
        """Note what a sampler returned: the indices of one batch."""
        # A loader with workers numbers its tasks.
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
        """Return the drawn indices of the batch that just arrived; None if unknown."""
        tasks = self.tasks
        under_way = getattr(iterator, "_task_info", None)
        if under_way is None:
            # The ones before it could not be read.
            task = next(reversed(tasks), None)
            drawn = None if task is None else tasks[task]
            tasks.clear()
            return drawn
        if getattr(iterator, "_in_order", True):
            # The ones before it were dropped: their worker had nothing more to read.
            task = iterator._rcvd_idx - 1  # type: ignore[attr-defined]
            for gone in [item for item in tasks if item < task]:
                del tasks[gone]
        else:
            task = next((item for item in tasks if item not in under_way), None)
        return None if task is None else tasks.pop(task, None)

    def note_workers(self, iterator: _BaseDataLoaderIter) -> None:
        """Note which worker reads each draw: unknown once the batch has arrived."""
        under_way = getattr(iterator, "_task_info", None) or {}
        for task, drawn in self.tasks.items():
            if drawn.worker < 0 and task in under_way:
                drawn.worker = int(under_way[task][0])

    def was_dealt(self, drawn: Drawn, batch: Any) -> bool:
        """Return whether a batch matches what another library drew, if it did; if not, neither does the rest."""
        if self.dealt is not None and not (self.dealt.indices and drawn.samples == _rows(batch)):
            # Samples were skipped while reading: from here on the order differs.
            self.dealt = self.dealt._replace(indices=())
            return False
        return True

    def made_of(self, drawn: Drawn, batch: Any, *, together: bool) -> MadeOf:
        """Return the samples of a batch.

        Args:
            drawn: What was drawn.
            batch: The batch.
            together: It holds several samples.

        Raises:
            Exception: The function that names samples failed.
        """
        first, samples = drawn.first, drawn.samples
        names: tuple[tuple[int, str], ...] = ()
        if drawn.indices is not None:
            if self.source is not None:
                names = self.data.names_of(_numbers(drawn.indices), self.source)
        elif drawn.keys:
            names = tuple(enumerate(drawn.keys, first))
        else:
            named = names_in(batch)
            samples = len(named) or (_rows(batch) if together else 1)
            first = self.read.get(drawn.worker, 0)
            self.read[drawn.worker] = first + samples
            names = tuple(enumerate(named, first))
        return MadeOf(self.data.label, first, samples, drawn.indices, drawn.worker, names, self.source)

    def name_no_more(self) -> None:
        """Stop naming samples."""
        self.source = None

    @contextlib.contextmanager
    def without_names(self) -> Iterator[None]:
        """Do not name samples in a `with` block."""
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
        """Return the predicted random state of the order; once."""
        hint, self.hint = self.hint, None
        return hint

    def end(self) -> None:
        """Note that it delivered its last batch."""
        self.ended = True


class Dealt(NamedTuple):
    """The order of a pass that another library's loader drew itself.

    Attributes:
        data: The data set.
        indices: Indices of its samples, in order; emptied if others arrive from then on.
        together: Batch size; the last batch may be smaller.
        source: Names its samples; None: named as for any data set.
    """

    data: Any
    indices: Sequence[int]
    together: int
    source: Source | None = None


class Traced(NamedTuple):
    """A batch that arrived, with its pass.

    Attributes:
        of: The pass.
        made: The samples of the batch.
    """

    of: LoaderPass
    made: MadeOf


def _drawn(drawn: Any, first: int, *, together: bool) -> Drawn:
    """Return the draw of a batch; a copy, since a sampler may reuse its list."""
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
    except Exception:  # noqa: BLE001 - a step is saved even if its sample names are not available
        return ""
    return "" if name is None else str(name)


def _rows(batch: Any) -> int:
    """Return the number of samples of a batch: the first axis of its first tensor; 1 without one."""
    return next((tensor.shape[0] for _, tensor in tensors_in(batch) if tensor.dim()), 1)
