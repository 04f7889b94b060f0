"""The training's end of the line to the process that writes: nothing sent twice, nothing lost unsaid."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from barograph.model.manifest import EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.writing.patience import wait_while_working
from barograph.runs.writing.record_writer import Closing
from barograph.runs.writing.writer_client import WriterClient
from barograph.runs.writing.writer_messages import Delivery, End, Trouble

MakeRecords = Callable[..., StepRecords]
WRITTEN = Closing(True, 0, 0, 0, 0, ())
PATIENCE_SECS = 600.0


class Process:
    pid = 0

    def wait(self, *_: Any) -> int:
        return 0

    def kill(self) -> None:
        """It is."""


class FarEnd:
    """The other end of a line, which answers an `End` with `WRITTEN`.

    Args:
        before: Called with each delivery before it is taken; may raise.
    """

    def __init__(self, before: Callable[[Delivery], None] = lambda delivery: None) -> None:
        self.got: list[Any] = []
        self.tried: list[Any] = []
        self.to_say: list[Any] = []
        self._before = before
        self._changed = threading.Condition()

    def start(self) -> Any:
        return Process(), self

    def send(self, message: Any) -> None:
        with self._changed:
            self.tried.append(message)
            self._changed.notify_all()
        if isinstance(message, Delivery):
            self._before(message)
        if isinstance(message, End):
            self.to_say.append(WRITTEN)
        with self._changed:
            self.got.append(message)
            self._changed.notify_all()

    def poll(self, _: float) -> bool:
        return bool(self.to_say)

    def recv(self) -> Any:
        return self.to_say.pop(0)

    def close(self) -> None:
        """Nothing is open."""

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_SECS)

    @property
    def points(self) -> int:
        return sum(len(item.points) for item in self.got if isinstance(item, Delivery))


def status() -> Heartbeat:
    return Heartbeat(0, 0.0)


@contextmanager
def line_to(far: FarEnd, **more: Any) -> Iterator[WriterClient]:
    told: dict[str, Any] = {
        "status": status, "on_stop": print, "on_loss": print, "on_trouble": print, "start": far.start,
        "settings": Settings(close_timeout_secs=5.0), **more
    }
    line = WriterClient(
        "/run", attempt=0, rank=None, world_size=1, versions={}, **told
    )
    yield line
    line.close(EndState.FINISHED)


def test_a_series_is_told_but_once_however_many_there_are() -> None:
    far = FarEnd()
    with line_to(far) as line:
        for number in range(5000):
            line.log(f"layer {number}/metric", 1.0, 0, Mode.TRAIN, 0.0)
        far.wait_until(lambda: far.points == 5000)
        line.log("layer 7/metric", 2.0, 1, Mode.TRAIN, 0.0)
        far.wait_until(lambda: far.points == 5001)
    deliveries = [item for item in far.got if isinstance(item, Delivery) and len(item.points)]
    assert sum(len(item.new_series) for item in deliveries) == 5000
    assert deliveries[-1].points["series"].tolist() == [7]
    assert len(pickle.dumps(deliveries[-1])) < 2000


def test_a_writing_process_begun_anew_is_told_every_series_again() -> None:
    second = FarEnd()

    def gone(delivery: Delivery) -> None:
        if len(delivery.points) and delivery.points["step"][0] == 1:
            raise BrokenPipeError

    first = FarEnd(gone)
    ends = [first, second]
    with line_to(first, start=lambda: (Process(), ends.pop(0))) as line:
        line.log("a", 1.0, 0, Mode.TRAIN, 0.0)
        first.wait_until(lambda: first.points == 1)
        line.log("a", 1.0, 1, Mode.TRAIN, 0.0)
        second.wait_until(lambda: second.points == 1)
    assert [series.key.path for item in second.got if isinstance(item, Delivery) for series in item.new_series] == ["a"]


def test_a_writer_process_that_needs_longer_to_end_is_left_without_a_warning() -> None:
    class Slow(Process):
        left = 0

        def wait(self, *_: Any) -> Any:
            return None

        def let_go(self) -> None:
            self.left += 1

    far, slow = FarEnd(), Slow()
    with line_to(far, start=lambda: (slow, far)):
        assert slow.left == 0
    assert slow.left == 1


@pytest.mark.parametrize(("works", "is_complete"), [(True, True), (False, False)])
def test_a_writer_process_is_waited_for_while_it_works(
    monkeypatch: pytest.MonkeyPatch, works: bool, is_complete: bool
) -> None:
    class Starved(FarEnd):
        looks = 0

        def send(self, message: Any) -> None:
            super().send(message)
            self.to_say.clear()

        def cpu_secs(self, pid: int) -> float:
            self.looks += 1
            if self.looks == 20:  # a standing one is given up before
                self.to_say.append(WRITTEN)
            return float(self.looks) if works else 1.0

    far = Starved()
    half_seconds = (number / 2 for number in itertools.count())
    monkeypatch.setattr("barograph.machine.cpu_use.process_cpu_secs", far.cpu_secs)
    monkeypatch.setattr("barograph.runs.writing.patience._LOOK_SECS", 0.01)
    monkeypatch.setattr("barograph.runs.writing.writer_client.wait_while_working",
                        partial(wait_while_working, clock=lambda: next(half_seconds)))
    with line_to(far) as line:
        assert line.close(EndState.FINISHED).complete is is_complete


def test_records_are_handed_over_though_it_cannot_be_told_how_training_goes(make_records: MakeRecords) -> None:
    far = FarEnd()

    def broken() -> Heartbeat:
        raise RuntimeError("dictionary changed size during iteration")

    with line_to(far, status=broken) as line:
        line.put(make_records(0))
    steps = [step.step.number for item in far.got if isinstance(item, Delivery) for step in item.steps]
    assert steps == [0]
    assert isinstance(far.got[-1], End)
    assert "changed size" in line.problems[0]


def test_what_can_never_be_handed_over_is_given_up_counted_and_keeps_nothing_back(make_records: MakeRecords) -> None:
    def refuse(delivery: Delivery) -> None:
        if any(step.step.number == 0 for step in delivery.steps):
            raise TypeError("cannot pickle this")

    far = FarEnd(refuse)
    with line_to(far) as line:
        line.put(make_records(0))
        line.log("a", 1.0, 0, Mode.TRAIN, 0.0)
        far.wait_until(lambda: sum(bool(item.steps) for item in far.tried if isinstance(item, Delivery)) == 3)
        line.put(make_records(1))
        assert line.close(EndState.FINISHED) == WRITTEN
    tried = [step.step.number for item in far.tried if isinstance(item, Delivery) for step in item.steps]
    assert tried == [0, 0, 0, 1]
    assert sum(item.dropped_steps for item in far.got if isinstance(item, Delivery)) == 1
    assert sum(item.dropped_points for item in far.got if isinstance(item, Delivery)) == 1


def test_the_last_word_is_said_though_the_last_delivery_fails(make_records: MakeRecords) -> None:
    def refuse(delivery: Delivery) -> None:
        raise TypeError("cannot pickle this")

    far = FarEnd(refuse)
    with line_to(far) as line:
        line.put(make_records(0))
        assert line.close(EndState.FAILED, "why") == WRITTEN
    assert [item for item in far.got if isinstance(item, End)] == [End(EndState.FAILED, "why")]
    assert len(far.tried) < 20


def test_what_was_not_handed_over_is_counted_when_the_writing_process_is_gone(make_records: MakeRecords) -> None:
    def gone(delivery: Delivery) -> None:
        if delivery.steps:
            raise BrokenPipeError

    far = FarEnd(gone)
    told: list[str] = []
    with line_to(far, on_loss=told.append) as line:
        line.put(make_records(0))
        line.put(make_records(1))
        line.log("a", 1.0, 0, Mode.TRAIN, 0.0)
        closing = line.close(EndState.FINISHED)
    assert (closing.complete, closing.lost_steps, closing.lost_points) == (False, 2, 1)
    assert "last records may be lost" in closing.problems[-1]
    assert "too often" in told[-1]


def test_a_flush_is_handed_over_with_all_that_was_taken_before(make_records: MakeRecords) -> None:
    far = FarEnd()
    with line_to(far) as line:
        line.put(make_records(0))
        line.flush()
        far.wait_until(lambda: any(item.urgent for item in far.got if isinstance(item, Delivery)))
        got = [item for item in far.got if isinstance(item, Delivery)]
        urgent = [item.urgent for item in got].index(True)
    assert sum(len(item.steps) for item in got[:urgent + 1]) == 1
    assert not any(item.urgent for item in got[urgent + 1:])


def test_what_the_writing_process_wants_told_is_told() -> None:
    far = FarEnd()
    told: list[str] = []
    heard = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        heard.set()

    with line_to(far, on_trouble=tell):
        far.to_say.append(Trouble("the run cannot be written yet"))
        assert heard.wait(PATIENCE_SECS)
    assert told == ["the run cannot be written yet"]


class LeavingFarEnd(FarEnd):
    """One that is gone as soon as it has answered: the end of its line can be read right after its last word."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def poll(self, _: float) -> bool:
        return self.ended or bool(self.to_say)

    def recv(self) -> Any:
        if not self.to_say:
            raise EOFError
        self.ended = True
        return self.to_say.pop(0)


def test_a_writing_process_that_leaves_with_its_last_word_is_not_lost() -> None:
    far, lost = LeavingFarEnd(), []
    with line_to(far, on_loss=lost.append):
        pass
    assert lost == []
    assert len([item for item in far.got if isinstance(item, End)]) == 1


def test_the_state_of_the_training_is_sent_again_to_a_new_writer_process_and_at_the_end() -> None:
    def gone(delivery: Delivery) -> None:
        if len(delivery.points) and delivery.points["step"][0] == 1:
            raise BrokenPipeError

    first, second = FarEnd(gone), FarEnd()
    ends = [first, second]
    with line_to(first, start=lambda: (Process(), ends.pop(0))) as line:
        line.log("a", 1.0, 1, Mode.TRAIN, 0.0)
        second.wait_until(lambda: second.points == 1)
    deliveries = [item for item in second.got if isinstance(item, Delivery)]
    assert deliveries[0].status is not None
    assert deliveries[-1].status is not None
