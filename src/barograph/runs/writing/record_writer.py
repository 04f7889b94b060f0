"""The interface of a writer: what the recording of a process needs, wherever the writer itself runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barograph.model.key import Key
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode, Step
from barograph.model.trace import BatchFed
from barograph.runs.format.pending import Pending


@dataclass(frozen=True, slots=True)
class Closing:
    """What was published and lost when the writer was closed.

    Attributes:
        complete: All accepted records and the ending are in the store.
        lost_steps, lost_points: Accepted steps and logged numbers that were not published in time.
        dropped_steps, dropped_points: Steps and logged numbers that were not accepted, over the life of the writer.
        problems: Problems, the first of each cause.
    """

    complete: bool
    lost_steps: int
    lost_points: int
    dropped_steps: int
    dropped_points: int
    problems: tuple[str, ...]


class RecordWriter(Protocol):
    """Writes what one worker records. Only `close` waits.

    Subclass it: Python then refuses to create a writer that lacks a method.

    Attributes:
        log: Takes the name, value, step, mode and Unix time of a logged number. An attribute, so that the hot path of
            `run.log` costs one call. Drops and counts the number if the queue is full.
    """

    log: Callable[[str, float, int, Mode, float], None]

    @abstractmethod
    def put(self, records: StepRecords | Pending) -> bool:
        """Take the records of one step.

        Args:
            records: The records, or an object that resolves to them in the writer's thread. Do not change them
                afterwards.

        Returns:
            False if the queue is full or the writer is closed; the whole step is then dropped and counted.
        """

    @abstractmethod
    def put_numbers(self, step: Step, numbers: Mapping[Key, float]) -> bool:
        """Take a step of which only a few numbers were recorded. Returns as `put`."""

    @abstractmethod
    def channel(self, keys: Sequence[Key], optimizer: str) -> Callable[[int, int, float, Sequence[float]], bool]:
        """Return a function that takes the same few numbers of one training step after another; see `Inbox.channel`."""

    @abstractmethod
    def put_batches(self, batches: Sequence[BatchFed]) -> None:
        """Take the batches that fed a step. If the queue is full, they are dropped and counted."""

    @abstractmethod
    def flush(self) -> None:
        """Ask that what was taken so far is published now. Does not wait for it."""

    @abstractmethod
    def close(self, state: EndState, reason: str = "") -> Closing:
        """Publish pending records and write the ending. A second call returns the same.

        Args:
            state: How the worker ended.
            reason: Why, for people.
        """

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Release in a forked child what it shares with its parent, which continues to write."""
