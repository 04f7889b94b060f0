"""Alignment of the streams of one group of workers by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barograph.model.manifest import Worker
from barograph.model.step import Mode
from barograph.runs.format.events import StepEvent
from barograph.runs.reading.stream import WorkerStream
from barograph.runs.reading.view import StepView, group_of, worker_order


def line_up(streams: Sequence[WorkerStream], is_out: Callable[[Worker], bool]) -> Iterator[StepView]:
    """Yield the complete views of one group in order, and take their steps from the streams.

    A step is complete when every worker has recorded it, is past it, or is out. Numbers logged outside of a step
    belong to one worker and wait for no other. The order of steps does not depend on their arrival.

    Args:
        streams: Streams of one attempt and group.
        is_out: Returns whether a worker need not be awaited.
    """
    ordered = sorted(streams, key=lambda stream: worker_order(stream.worker.name))
    while (view := _next(ordered, is_out)) is not None:
        yield view


def _next(streams: Sequence[WorkerStream], is_out: Callable[[Worker], bool]) -> StepView | None:
    heads = [stream for stream in streams if stream.head is not None]
    undecided = False
    for stream in heads:
        event = _head(stream)
        if event.logged:
            return _view(event, [stream])
        having, deciding, comes_later = [stream], [], False
        for other in streams:
            if other is stream:
                continue
            index = _index_of(other, event)
            if index == 0:
                having.append(other)
            elif index is not None:
                comes_later = True
            elif not other.has_passed(event):
                deciding.append(other)
        if comes_later:
            continue  # that worker did something else first
        if all(is_out(other.worker) for other in deciding):
            return _view(event, having)
        undecided = True
    # Two workers disagree about the order of two steps: use the first worker's order.
    return _view(_head(heads[0]), [heads[0]]) if heads and not undecided else None


def _head(stream: WorkerStream) -> StepEvent:
    head = stream.head
    assert head is not None, "only streams with a step are asked"
    return head


def _view(event: StepEvent, streams: Sequence[WorkerStream]) -> StepView:
    first = min(streams, key=lambda stream: worker_order(stream.worker.name))
    rows = {}
    for stream in sorted(streams, key=lambda stream: worker_order(stream.worker.name)):
        rows[stream.worker.name] = stream.take().rows
    return StepView(event.step, rows, group=group_of(first.worker.name), attempt=first.worker.attempt)


def _index_of(stream: WorkerStream, event: StepEvent) -> int | None:
    """Return the index of that step among the waiting steps of a stream; None if missing."""
    for index, other in enumerate(stream.waiting()):
        if not other.logged and _names(other) == _names(event):
            return index
    return None


def _names(event: StepEvent) -> tuple[str, Mode, int]:
    """Return the identity of a step across workers; ticks differ between workers."""
    return event.step.optimizer, event.step.mode, event.step.number
