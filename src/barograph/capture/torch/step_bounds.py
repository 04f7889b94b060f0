"""Starts and ends the steps of a training, with any optimizer or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barograph.capture.session import Session
from barograph.capture.torch.feeding import Feeding
from barograph.capture.torch.forward import ForwardRecorder
from barograph.capture.torch.optimizer_entry import Entry
from barograph.capture.torch.optimizers import OptimizerBook, steps_loaded
from barograph.capture.torch.phase import Phase
from barograph.capture.torch.recorders import Recorders
from barograph.model.step import Mode, is_of_later_training

if TYPE_CHECKING:
    from barograph.capture.torch.recorder import TorchRecorder


class StepBounds:
    """Counts a step at its start, and publishes it at its end.

    Args:
        session: Publishes.
        optimizers: Optimizers of the script.
        phase: The current step and evaluation.
        recorders: Read tensors.
        forwards: Observes the next forward pass if needed.
        feeding: Knows whether checkpoints are saved.
        recorder: Keeps inputs of steps; None: off.
    """

    def __init__(
        self, session: Session, optimizers: OptimizerBook, phase: Phase, recorders: Recorders,
        forwards: ForwardRecorder, feeding: Feeding, recorder: TorchRecorder | None,
    ) -> None:
        self._session = session
        self._optimizers = optimizers
        self._phase = phase
        self._allowance = phase.allowance
        self._recorders = recorders
        self._forwards = forwards
        self._feeding = feeding
        self._recorder = recorder
        self._refused = False

    def begin(self, entry: Entry, optimizer: Any = None) -> None:
        """Start a step.

        Args:
            entry: Entry of its optimizer.
            optimizer: The optimizer, which may have steps from a checkpoint; None: it has none.
        """
        counts = self._session.counts
        if entry.label not in counts.by_optimizer:
            counts.start_at(entry.label, 0 if optimizer is None else steps_loaded(optimizer))
        # Only now: an evaluation before the first step belongs to the checkpoint's steps.
        self._phase.end_evaluation()
        self._meet(entry)

    def _meet(self, entry: Entry) -> None:
        """Note the first step of an optimizer: a later first step may start another training."""
        if not entry.meet():
            return
        counts = self._session.counts
        if counts.of_busiest > 0:
            if not entry.shares:
                self._recorders.restart()
                counts.begin_training(entry.label if is_of_later_training(entry.label) else "")
            self._session.choice.look_closely(entry.label)

    def end(self, entry: Entry, *, skipped: bool, took: bool = True) -> None:
        """Publish a step of an optimizer.

        Args:
            entry: Entry of the optimizer.
            skipped: Its update was withheld.
            took: Due tensors were read; otherwise they are due at the next step.
        """
        self.publish(entry.label, self._optimizers.note_step(entry), skipped=skipped, took=took)

    def publish(self, label: str, next_label: str, *, skipped: bool, took: bool = True) -> None:
        """Publish a step under a label, and choose what to record of the next one, which may have another label."""
        mask = self._allowance.close_step()
        self._recorders.data.end_step(mask if took else 0, self._phase.train)
        buffer, self._refused = self._phase.take_step(), False
        self._recorders.forget_step()
        self._session.end_step(buffer, optimizer=label, mask=mask if took else 0, skipped=skipped)
        self._allowance.prepare(next_label)
        self._forwards.prepare(self._allowance.mask or 0)

    def let_others_follow(self, optimizer: Any) -> None:
        """Notify the flight recorder and the checkpoint writer that a step has ended."""
        if self._recorder is not None:
            self._recorder.step_ended(optimizer)
        if self._feeding.checkpointer is not None:
            self._feeding.checkpointer.step_ended()

    def note_refused(self, refused: bool) -> None:
        """Note whether a loss function rejected its arguments: the step may never end, and this may be the cause."""
        self._refused |= refused

    def flush(self) -> None:
        """Publish the remaining records when the run closes."""
        self._phase.end_evaluation()
        if self._phase.train.tensors or self._refused:
            self._session.end_evaluation(self._phase.train, Mode.TRAIN)
