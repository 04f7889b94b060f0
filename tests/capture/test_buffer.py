"""What one step gathers while it is under way."""

from __future__ import annotations

from barograph.capture.buffer import StepBuffer
from barograph.model.key import Key, Kind

COUNT = Key(Kind.SCALAR, "count")


def counting(buffer: StepBuffer) -> None:
    buffer.scalars[COUNT] = buffer.scalars.get(COUNT, 0) + 1


def test_what_is_on_its_way_from_a_device_does_not_grow_with_an_evaluation() -> None:
    buffer, most = StepBuffer(), 0
    for _ in range(10_000):
        buffer.defer(counting)
        most = max(most, len(buffer.deferred))
    assert most < 2100
    for merge_in in buffer.deferred:
        merge_in(buffer)
    assert buffer.scalars == {COUNT: 10_000}
