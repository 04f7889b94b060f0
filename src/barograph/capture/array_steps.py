"""The steps of an array integration: their optimizer, their mask, and their gathered records."""

from __future__ import annotations

from barograph.capture.allowance import Allowance
from barograph.capture.array_evaluation import ArrayEvaluation
from barograph.capture.buffer import StepBuffer
from barograph.capture.seen import NO_LOSS_OF_TORCH
from barograph.capture.session import Session
from barograph.model.step import Mode, is_of_later_training


class ArraySteps:
    """One series of steps, and the evaluations between them.

    Args:
        session: Publishes the records.
        label: Name of the optimizer, if a training has several. None: it has one.

    Attributes:
        evaluation: The current evaluation.
        allowance: Decides what to record of a step.
        train: Gathered records of the current step.
        have_begun: Whether any data was passed.
    """

    __slots__ = ("_first_step", "_label", "_session", "_took", "allowance", "evaluation", "have_begun", "train")

    def __init__(self, session: Session, label: str | None) -> None:
        self.evaluation = ArrayEvaluation(session)
        self.allowance = Allowance(session)
        self.train = StepBuffer()
        self.have_begun = False
        self._session = session
        self._label = label
        self._first_step: int | None = None
        self._took = False

    def begin(self) -> None:
        """Determine the optimizer of the steps, when the first data is passed."""
        session = self._session
        session.began()
        if self.have_begun:
            return
        self.have_begun = True
        if not session.counts.by_optimizer and session.seen.no_loss == NO_LOSS_OF_TORCH:
            session.seen.explain_no_loss("the script passed none")
        if self._label is None:
            self._label = session.counts.take_label()
        session.counts.start_at(self._label, self._first_step or 0)
        if is_of_later_training(self._label):
            session.counts.begin_training(self._label)
            session.choice.look_closely(self._label)
        self.allowance.belongs_to(self._label)

    def begin_training(self, first_step: int | None) -> None:
        """Start another series of steps, unless this one has made none.

        Args:
            first_step: Number of its first step. None: the `first_step` of `attach`, or 0.
        """
        if self.have_begun and self._session.counts.made(self.label):
            self.end_evaluation()
            self._label, self.have_begun = None, False
            self.train, self.allowance = StepBuffer(), Allowance(self._session)
        self._first_step = first_step

    @property
    def label(self) -> str:
        """Name of the optimizer; "" if unknown."""
        return self._label or ""

    @property
    def number(self) -> int:
        """Number of the current step."""
        return self._session.counts.made(self.label) if self.have_begun else self._session.counts.first_step

    def mode(self) -> Mode:
        """Return the current mode."""
        return self.evaluation.mode or self._session.script.mode or Mode.TRAIN

    def mask(self) -> int:
        """Return the mask of the current step or evaluation."""
        mode = self.mode()
        if mode is Mode.TRAIN:
            return self.allowance.for_step_of(self.label)
        return self.evaluation.mask(self._session.counts.made(self.label), mode)

    def take_everything(self) -> None:
        """Record every selected tensor of the current step or evaluation, at any cost."""
        if self.mode() is Mode.TRAIN:
            self.allowance.take_everything()
        else:
            self.evaluation.take_everything()

    def buffer(self) -> StepBuffer:
        """Return the buffer of the current step or evaluation."""
        return self.train if self.mode() is Mode.TRAIN else self.evaluation.buffer

    def note_took(self, took: bool) -> None:
        """Note whether anything due was recorded."""
        if self.mode() is Mode.TRAIN:
            self._took |= took
        else:
            self.evaluation.note_took(took)

    def end(self, *, skipped: bool) -> None:
        """Publish the current step."""
        mask = self.allowance.close_step()
        buffer, self.train = self.train, StepBuffer()
        buffer.settle(training=True)
        took, self._took = self._took, False
        self._session.end_step(buffer, optimizer=self.label, mask=mask if took else 0, skipped=skipped)
        self.allowance.prepare(self.label)

    def end_evaluation(self) -> None:
        """Publish the current evaluation, if any."""
        self.evaluation.end(self.mode())

    def flush(self) -> None:
        """Publish pending records when the run closes."""
        self.end_evaluation()
        if self.train.tensors:
            self._session.end_evaluation(self.train, Mode.TRAIN)
