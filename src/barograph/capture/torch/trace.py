"""The data trace: the samples of each batch, and the batches of each step.

Indices are drawn in the training process, even if workers read the samples: they are noted when drawn, and found again
by the number of the draw when the batch arrives. The loader's order, randomness and batches do not change.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from barograph.capture.torch.loader_pass import DataSet, Dealt, LoaderPass, Traced
from barograph.capture.torch.orders import hint_for
from barograph.capture.torch.sources import Source, source_of
from barograph.model.trace import BatchFed

_MOST_WAITING = 4096
"""Maximum number of batches remembered between steps: a long evaluation delivers many, and feeds no step."""


class LoaderTrace:
    """Follows batches from the sampler to the step.

    Attributes:
        source: The user's function that names samples; None: the data set names them, if it can.
        dealt: Returns the order that another library drew for a stream; None: it did not.
    """

    def __init__(self) -> None:
        self.source: Source | None = None
        self.dealt: Callable[[Any], Dealt | None] = lambda dataset: None
        # By the identity of the iterator, deleted with it: much faster than a weak dictionary.
        self._passes: dict[int, LoaderPass] = {}
        self._data: dict[int, tuple[weakref.ref[Any] | None, DataSet]] = {}
        self._labels: dict[str, int] = {}
        self._came: Traced | None = None
        self._waiting: list[Traced] = []
        self._last = -1
        self._serial = self._feeding = 0

    def name_samples(self, source: Source) -> None:
        """Name samples with a function of the user."""
        self.source = source

    def dealt_by(self, dealt: Callable[[Any], Dealt | None]) -> None:
        """Get the order that another library drew from `dealt`."""
        self.dealt = dealt

    # While the loader draws and delivers

    def begins_pass(self, iterator: _BaseDataLoaderIter) -> bool:
        """Return whether the next draw is the first of a pass."""
        known = self._passes.get(id(iterator))
        return known is None or known.drawer is not iterator._sampler_iter

    def begin_pass(self, iterator: _BaseDataLoaderIter) -> None:
        """Note that a pass starts, before its first draw."""
        is_stream = iterator._dataset_kind == _DatasetKind.Iterable
        hint = None if is_stream else hint_for(iterator._index_sampler)
        dealt = self.dealt(iterator._dataset) if is_stream else None
        data = iterator._dataset if dealt is None else dealt.data
        source = self.source or (dealt.source if dealt is not None else None) or source_of(data)
        passes, identity = self._passes, id(iterator)
        alive = weakref.ref(iterator, lambda _: passes.pop(identity, None))
        passes[identity] = LoaderPass(self._serial, iterator._sampler_iter, self._data_of(data), source, hint, alive,
                                 dealt=dealt)
        self._serial += 1

    def drew(self, iterator: _BaseDataLoaderIter, drawn: Any) -> None:
        """Note what a sampler returned: the indices of one batch."""
        current = self._passes.get(id(iterator))
        if current is not None:
            current.draw(iterator, drawn)

    def gave(self, iterator: _BaseDataLoaderIter, batch: Any) -> None:
        """Note that a batch arrived: `take` returns its samples.

        Raises:
            Exception: The function that names samples failed. It is not called again in this pass; the batch is noted.
        """
        self._came = None
        current = self._passes.get(id(iterator))
        if current is None:
            return
        drawn = current.take(iterator)
        if iterator._num_workers:
            current.note_workers(iterator)
        if drawn is None or not torch.is_grad_enabled() or not current.was_dealt(drawn, batch):
            return
        failure = None
        try:
            made_of = current.made_of(drawn, batch, together=iterator._auto_collation)
        except Exception as error:  # noqa: BLE001 - the user's function may raise anything; raised again below
            failure = error
            current.name_no_more()
            made_of = current.made_of(drawn, batch, together=iterator._auto_collation)
        self._came = Traced(current, made_of)
        if failure is not None:
            raise failure

    def passed_over(self, iterator: _BaseDataLoaderIter, batch: Any) -> None:
        """Note a batch that feeds no step; its samples are named when they are delivered again."""
        current = self._passes.get(id(iterator))
        if current is None:
            return
        try:
            with torch.enable_grad(), current.without_names():
                self.gave(iterator, batch)
        finally:
            self._came = None

    def take(self) -> Traced | None:
        """Return the batch that arrived last, once; None if unknown, or a batch of an evaluation."""
        came, self._came = self._came, None
        return came

    def feeds(self, traced: Traced) -> None:
        """Note that the script gets a batch: it feeds the next step."""
        self._waiting.append(traced)
        self._last = traced.of.serial
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[0]

    def note_workers(self, iterator: _BaseDataLoaderIter) -> None:
        """Note which of the loader's workers read the draws before a pass started."""
        current = self._passes.get(id(iterator))
        if current is not None:
            current.note_workers(iterator)

    def ended(self, iterator: _BaseDataLoaderIter) -> None:
        """Note that a pass delivered its last batch."""
        current = self._passes.get(id(iterator))
        if current is not None:
            current.end()

    # When a step ends

    def end_step(self, tick: int, step: int, optimizer: str) -> list[BatchFed]:
        """Return the batches that fed the step that ends."""
        if not self._waiting:
            return []
        batches = []
        for one, made in self._training():
            self._feeding += one.feed(self._feeding)
            batches.append(BatchFed(
                tick, step, optimizer, one.number, made.loader, one.data.size, made.first, made.samples,
                made.indices or b"", made.loader_worker, made.names, one.take_hint()))
        self._waiting.clear()
        return batches

    def _training(self) -> list[Traced]:
        """Return what arrived since the last step, without the batches of an evaluation.

        A pass that ended or was abandoned without feeding a step was not training, unless it is the latest.
        """
        last = self._last
        return [item for item in self._waiting
                if item.of.serial == last or item.of.number >= 0 or not (item.of.ended or item.of.alive() is None)]

    # Helpers

    def _data_of(self, dataset: Any) -> DataSet:
        reference, known = self._data.get(id(dataset), (None, None))
        if known is not None and (known.size == _length(dataset) if reference is None else reference() is dataset):
            return known
        name = type(dataset).__name__
        self._labels[name] = number = self._labels.get(name, 0) + 1
        found = DataSet(name if number == 1 else f"{name} {number}", _length(dataset))
        try:
            reference = weakref.ref(dataset)
        except TypeError:
            reference = None  # a list, for example
        self._data[id(dataset)] = reference, found
        return found


def _length(dataset: Any) -> int:
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001 - the user's stream may raise anything
        return -1
