"""Records arrays in host memory: the integration for frameworks that have no hooks like PyTorch's.

`due` reports whether data is wanted in the current step, before it is computed; so the budget, the schedule and the
collections apply as everywhere. In a step, pass what is due to `take`, `loss` and the other methods in any order, then
call `end_step`. Between `begin_evaluation` and `end_evaluation`, the same calls belong to an evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from barograph.capture.array_labels import gather_labels
from barograph.capture.array_recorder import TOTAL, ArrayRecorder, Number
from barograph.capture.entry_point import entry_point
from barograph.capture.session import Session
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.buffer import StepBuffer
    from barograph.capture.steps import Steps


class ArrayIntegration(ArrayRecorder):
    """Records one series of steps from arrays and numbers.

    Only `end_step` raises, if a finding has stopped the training.

    Attributes:
        explicit_steps: A step ends when `end_step` is called.

    Args:
        session: The session that stores the records.
        label: Name of the optimizer, if a training has several. None: it has one.
    """

    def __init__(self, session: Session, label: str | None = None) -> None:
        super().__init__(session, label)
        self.explicit_steps = True
        session.before_close(self._flush)

    @property
    def has_begun(self) -> bool:
        """Whether any data was passed."""
        return self._steps.have_begun

    @property
    def evaluating(self) -> bool:
        """Whether an evaluation is in progress."""
        return self._steps.evaluation.mode is not None

    @property
    def evaluation_buffer(self) -> StepBuffer:
        """The records of the evaluation in progress."""
        return self._steps.evaluation.buffer

    # Steps and evaluations

    def end_step(self, loss: Number | None = None, *, skipped: bool = False) -> None:
        """End the current step.

        Args:
            loss: The loss, if `loss` was not called in this step.
            skipped: The update was skipped because gradients were not finite.

        Raises:
            TrainingStopped: A finding stopped the training.
        """
        if loss is not None:
            self._take_loss_of_step(loss)
        self._end_step(skipped)
        self.session.steering.raise_if_stopped()

    @entry_point("reading the loss of a step")
    def _take_loss_of_step(self, loss: Any) -> None:
        self._steps.end_evaluation()
        if not self._steps.train.losses.get(TOTAL):
            self.loss(loss if callable(loss) else float(np.mean(np.asarray(loss))))

    @entry_point("ending a step")
    def _end_step(self, skipped: bool) -> None:
        self._steps.begin()
        self._steps.end_evaluation()
        self._steps.end(skipped=skipped)
        self._updates.forget()

    @entry_point("counting steps")
    def pass_steps(self, count: int) -> None:
        """Count unrecorded steps before the current one."""
        for _ in range(count):
            self.session.pass_step(self._steps.label)

    @entry_point("starting an evaluation")
    def begin_evaluation(self, mode: Mode = Mode.EVAL) -> None:
        """Start an evaluation; it lasts until `end_evaluation` or the end of a step."""
        self._steps.begin()
        self._steps.end_evaluation()
        self._steps.evaluation.begin(mode)

    @entry_point("ending an evaluation")
    def end_evaluation(self) -> None:
        """Publish the current evaluation, if any."""
        self._steps.end_evaluation()

    def begin_training(self, first_step: int | None = None) -> None:
        """Start another training with this integration, as a new series of steps.

        Args:
            first_step: Number of its first step. None: the `first_step` of `attach`, or 0.
        """
        with self.guarded("starting a training"):
            self._steps.begin_training(first_step)

    # Data from the script itself

    def ask_for(self, selections: Iterable[Selection]) -> None:
        """Handle an extended recording plan."""
        self._reader.plan_changed()

    def mode_changes(self, mode: Mode | None) -> None:
        """End the current evaluation."""
        self.end_evaluation()

    @entry_point("saving an array")
    def save(self, name: str, tensor: Any) -> None:
        """Record a full array of the script with the current step."""
        self._steps.begin()
        self._reader.keep(Key(Kind.CUSTOM, name), tensor, self._steps.train)

    @entry_point("saving predictions")
    def save_predictions(self, targets: Any, predictions: Any, name: str) -> None:
        """Count targets and predictions of the script in the current step or evaluation."""
        self._steps.begin()
        if self._steps.mode() is Mode.TRAIN:
            self._steps.allowance.wake()
        else:
            self._steps.mask()
        gather_labels(name, targets, predictions, self._steps.buffer())

    def end_explicit_step(self, loss: Any = None, *, skipped: bool = False) -> None:
        """End a step on the script's request; the caller checks whether to stop the training."""
        if loss is not None:
            self._take_loss_of_step(loss)
        self._end_step(skipped)

    def steps_begin(self, steps: Steps) -> Iterator[int]:
        """Return an iterator over the steps of a loop."""
        return iter(range(steps.count))

    def remove(self) -> None:
        """Do nothing: this integration installs no hooks."""

    @entry_point("publishing pending records")
    def _flush(self) -> None:
        self._steps.flush()

