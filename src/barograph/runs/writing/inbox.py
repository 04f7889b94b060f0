"""A queue of bounded memory for the records of the training thread, which never waits."""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.runs.format.pending import POINT, Pending, Points, Recorded, Series

_PACK = struct.Struct("<iqqdd").pack
_POINT_BYTES = POINT.itemsize


class Inbox:
    """Steps and logged numbers on their way to the writer's thread.

    Any thread may put and log; one thread takes. If the queue is full, whole steps are dropped and
    counted.

    Args:
        limit_bytes: Memory for waiting records, here and in the thread that has taken them but not yet
            called `release`.

    Attributes:
        urgent: Set if what waits is to be published now. Wakes the taking thread, which clears it.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.urgent = threading.Event()
        self._lock = threading.Lock()
        self._steps: deque[tuple[Pending, int]] = deque()
        self._held_bytes = 0
        self._next_tick = 0
        self._series: list[Series] = []
        self._codes: dict[Mode, dict[str, int]] = {mode: {} for mode in Mode}
        self._step_codes: dict[tuple[Key, Mode, str], int] = {}
        self._beside_codes: dict[Key, int] = {}
        self._delivered_codes: list[int] = []
        # One flat buffer of packed records: extending it is one atomic call.
        self._points = bytearray()
        self._point_limit_bytes = limit_bytes
        self._is_shut = False
        self._batches: list[BatchFed] = []
        self._batch_bytes = 0
        self.dropped_batches = 0
        self.dropped_steps = 0
        self.dropped_points = 0

    def put(self, records: StepRecords | Pending) -> bool:
        """Add a step. Returns False if the queue is full; the whole step is then dropped and counted."""
        pending = Recorded(records) if isinstance(records, StepRecords) else records
        size_bytes = pending.size_bytes
        with self._lock:
            self._next_tick = pending.step.tick + 1
            if self._is_shut or self._held_bytes + len(self._points) + size_bytes > self._limit_bytes:
                self.dropped_steps += 1
                return False
            self._hold(size_bytes)
            self._steps.append((pending, size_bytes))
        return True

    def log(self, name: str, value: float, step: int, mode: Mode, time_unix: float) -> None:
        """Add one number of the series `name`. If the queue is full it is dropped and counted."""
        try:
            series = self._codes[mode][name]
        except KeyError:
            series = self._new_series(name, mode)
        points = self._points
        if len(points) < self._point_limit_bytes:
            points += _PACK(series, self._next_tick, step, value, time_unix)
        else:
            self.dropped_points += 1

    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Add a step with only a few numbers; much cheaper than `put`.

        Returns:
            False if the queue is full; the whole step is then dropped and counted.
        """
        self._next_tick = step.tick + 1
        packed = b"".join([
            _PACK(self._step_series(key, step), step.tick, step.number, value, step.time_unix)
            for key, value in numbers.items()
        ])
        if len(self._points) + len(packed) > self._point_limit_bytes:
            self.dropped_steps += 1
            return False
        # One call, so that a thread that takes meanwhile gets all of the step or nothing.
        self._points += packed
        return True

    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        """Return a function that adds the same few numbers of each training step; cheaper than `put_numbers`.

        Args:
            keys: Keys of the numbers, in order.
            optimizer: Optimizer of the steps.

        Returns:
            A function of tick, number and time of a step, and its numbers. It returns False if the queue is full; the
            whole step is then dropped and counted.
        """
        step = Step(0, 0, optimizer)
        codes = [self._step_series(key, step) for key in keys]
        pack, size_bytes = struct.Struct("<" + "iqqdd" * len(codes)).pack, len(codes) * _POINT_BYTES

        def put(tick: int, number: int, time_unix: float, values: Sequence[float]) -> bool:
            self._next_tick = tick + 1
            if len(self._points) + size_bytes > self._point_limit_bytes:
                self.dropped_steps += 1
                return False
            fields: list[float] = []
            for code, value in zip(codes, values, strict=True):
                fields += (code, tick, number, value, time_unix)
            # One call, so that a thread that takes meanwhile gets all of the step or nothing.
            self._points += pack(*fields)
            return True

        return put

    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        """Add the batches of a step. If the queue is full they are dropped and counted."""
        size_bytes = sum([batch.size_bytes for batch in batches])
        with self._lock:
            if self._is_shut or self._held_bytes + size_bytes > self._limit_bytes:
                self.dropped_batches += len(batches)
                return
            self._hold(size_bytes)
            self._batch_bytes += size_bytes
            self._batches += batches

    def take_batches(self) -> list[BatchFed]:
        """Return the batches since the last call, and release their memory."""
        with self._lock:
            batches, self._batches = self._batches, []
            self._hold(-self._batch_bytes)
            self._batch_bytes = 0
        return batches

    def add_points(self, points: NDArray[np.void], new_series: Sequence[Series] = ()) -> None:
        """Add numbers logged in another process. Always from the same one, or their series would mix.

        Args:
            points: An array of `POINT`, with series numbers in order of delivery.
            new_series: New series; their numbers follow the previous ones.
        """
        with self._lock:
            self._delivered_codes.extend(range(len(self._series), len(self._series) + len(new_series)))
            self._series.extend(new_series)
            if len(self._points) >= self._point_limit_bytes:
                self.dropped_points += len(points)
            elif len(points):
                points = points.copy()
                points["series"] = np.array(self._delivered_codes, np.int32)[points["series"]]
                self._points += points.tobytes()
                last = points[-1]
                is_step = not self._series[last["series"]].logged
                self._next_tick = max(self._next_tick, int(last["tick"]) + is_step)

    def note(self, numbers: Mapping[Key, float], *, step: int, time_unix: float) -> bool:
        """Add numbers that belong to no step, such as machine metrics, with the current step.

        Args:
            numbers: The numbers.
            step: Current step as the user counts.
            time_unix: Time.

        Returns:
            False if the queue is full. Such drops are not counted, since the next numbers come soon.
        """
        with self._lock:
            packed = b"".join([
                _PACK(self._beside_series(key), self._next_tick, step, value, time_unix)
                for key, value in numbers.items()
            ])
            if len(self._points) + len(packed) > self._point_limit_bytes:
                return False
            self._points += packed
        return True

    def add_dropped(self, steps: int, points: int, batches: int = 0) -> None:
        """Count drops of the sending process."""
        with self._lock:
            self.dropped_steps += steps
            self.dropped_points += points
            self.dropped_batches += batches

    def take(self) -> tuple[list[tuple[Pending, int]], Points]:
        """Return the waiting steps, each with its size, and the numbers logged so far.

        Numbers logged before a step was put come with that step or earlier.
        """
        count = len(self._steps)
        taken = len(self._points)
        # The slice is a copy; a view would make concurrent calls of `log` fail.
        data = self._points[:taken]
        del self._points[:taken]
        steps = [self._steps.popleft() for _ in range(count)]
        self.hold(taken)
        return steps, Points(tuple(self._series), np.frombuffer(data, POINT))

    def take_urgent(self) -> bool:
        """Return whether what waits is to be published now, once."""
        is_urgent = self.urgent.is_set()
        self.urgent.clear()
        return is_urgent

    def hold(self, change_bytes: int) -> None:
        """Change the number of bytes held by the taking thread."""
        with self._lock:
            self._hold(change_bytes)

    def shut(self) -> None:
        """Close the queue: further records are dropped and counted."""
        with self._lock:
            self._is_shut = True
            self._point_limit_bytes = 0

    @property
    def waiting_steps(self) -> int:
        """Steps not yet taken."""
        return len(self._steps)

    @property
    def waiting_points(self) -> int:
        """Numbers not yet taken."""
        return len(self._points) // _POINT_BYTES

    def _hold(self, change_bytes: int) -> None:
        self._held_bytes += change_bytes
        room = 0 if self._is_shut else self._limit_bytes - self._held_bytes
        self._point_limit_bytes = max(0, room)

    def _new_series(self, name: str, mode: Mode) -> int:
        with self._lock:
            codes = self._codes[mode]
            if name not in codes:
                self._series.append(Series(Key(Kind.SCALAR, name), mode))
                codes[name] = len(self._series) - 1
            return codes[name]

    def _beside_series(self, key: Key) -> int:
        code = self._beside_codes.get(key)
        if code is None:
            self._series.append(Series(key, Mode.TRAIN))
            code = self._beside_codes[key] = len(self._series) - 1
        return code

    def _step_series(self, key: Key, step: Step) -> int:
        identity = (key, step.mode, step.optimizer)
        code = self._step_codes.get(identity)
        if code is None:
            with self._lock:
                self._series.append(Series(*identity, logged=False))
                code = self._step_codes[identity] = len(self._series) - 1
        return code
