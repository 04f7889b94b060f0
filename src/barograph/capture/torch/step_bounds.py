"""Begins and ends the steps of a training, whoever makes them."""

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
    """Counts a step at its beginning, and publishes it at its end.

    Args:
        session: Publishes.
        optimizers: Of the script.
        phase: The step and the evaluation under way.
        recorders: Read tensors.
        forwards: Listens to the next forward pass where that is needed.
        feeding: Knows who saves checkpoints.
        recorder: Keeps what a step is made of; None: nobody does.
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
        """Begin a step.

        Args:
            entry: Of its optimizer.
            optimizer: May have steps of a checkpoint behind it; None: it has none.
        """
        counts = self._session.counts
        if entry.label not in counts.by_optimizer:
            counts.start_at(entry.label, 0 if optimizer is None else steps_loaded(optimizer))
        # Only now: an evaluation before the first step belongs to the steps that a checkpoint brought.
        self._phase.end_evaluation()
        self._meet(entry)

    def _meet(self, entry: Entry) -> None:
        """Note the first step of an optimizer: where one comes later, another training may have begun."""
        if not entry.meet():
            return
        counts = self._session.counts
        if counts.of_busiest > 0:
            if not entry.shares:
                self._recorders.begin_anew()
                counts.begin_training(entry.label if is_of_later_training(entry.label) else "")
            self._session.choice.look_closely(entry.label)

    def end(self, entry: Entry, *, skipped: bool, took: bool = True) -> None:
        """Publish a step of an optimizer.

        Args:
            entry: Of it.
            skipped: Its update was withheld.
            took: Tensors were read where any were due; without, what was due is due at the next step.
        """
        self.publish(entry.label, self._optimizers.note_step(entry), skipped=skipped, took=took)

    def publish(self, label: str, next_label: str, *, skipped: bool, took: bool = True) -> None:
        """Publish a step under a label, and choose what is recorded of the next one, which has another perhaps."""
        mask = self._allowance.close_step()
        self._recorders.data.end_step(mask if took else 0, self._phase.train)
        buffer, self._refused = self._phase.take_step(), False
        self._recorders.forget_step()
        self._session.end_step(buffer, optimizer=label, mask=mask if took else 0, skipped=skipped)
        self._allowance.prepare(next_label)
        self._forwards.prepare(self._allowance.mask or 0)

    def let_others_follow(self, optimizer: Any) -> None:
        """Let the flight recorder and what saves checkpoints know that a step has ended."""
        if self._recorder is not None:
            self._recorder.step_ended(optimizer)
        if self._feeding.checkpointer is not None:
            self._feeding.checkpointer.step_ended()

    def note_refused(self, refused: bool) -> None:
        """Note whether a loss function refused what it was handed: the step may never end, and this may be why."""
        self._refused |= refused

    def flush(self) -> None:
        """Publish what is left when the run closes."""
        self._phase.end_evaluation()
        if self._phase.train.tensors or self._refused:
            self._session.end_evaluation(self._phase.train, Mode.TRAIN)
