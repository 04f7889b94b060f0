"""The evaluation under way in an integration for arrays: its mode, what is taken of it, and its buffer."""

from __future__ import annotations

from barograph.capture.buffer import StepBuffer
from barograph.capture.session import Session
from barograph.model.step import Mode


class ArrayEvaluation:
    """Gathers what is passed in an evaluation, and publishes it at its end.

    Args:
        session: Publishes.

    Attributes:
        mode: Mode that the integration has set; None: no evaluation was begun.
        buffer: What was gathered.
    """

    __slots__ = ("_is_whole", "_mask", "_session", "_took", "buffer", "mode")

    def __init__(self, session: Session) -> None:
        self.mode: Mode | None = None
        self.buffer = StepBuffer()
        self._session = session
        self._mask: int | None = None
        self._is_whole = False
        self._took = False

    def begin(self, mode: Mode) -> None:
        """Begin an evaluation."""
        self.mode = mode

    def take_everything(self) -> None:
        """Take every selected tensor of this evaluation, whatever it costs."""
        self._mask, self._is_whole = self._session.plan.everything(), True

    def mask(self, number: int, mode: Mode) -> int:
        """Return what is taken of the evaluation.

        Args:
            number: Steps made before it.
            mode: Its mode.
        """
        if self._mask is None:
            self._mask = self._session.choice.choose(number, mode)
        elif not self._is_whole and not self._session.choice.evaluation_goes_on(self._mask):
            # Sums over part of an evaluation would be recorded as sums over all of it.
            self._mask = 0
            self.buffer.gathered.clear()
        return self._mask

    def note_took(self, took: bool) -> None:
        """Note whether anything was recorded that is due."""
        self._took |= took

    def end(self, mode: Mode) -> None:
        """Publish what was gathered, if anything, and be ready for the next evaluation.

        Args:
            mode: In which the integration is now; TRAIN if nobody began an evaluation.
        """
        buffer, self.buffer = self.buffer, StepBuffer()
        mask, self._mask, self.mode = self._mask or 0, None, None
        self._is_whole = False
        took, self._took = self._took, False
        if mode is Mode.TRAIN and buffer.empty:
            return
        buffer.settle(training=False)
        if not buffer.empty:
            self._session.end_evaluation(buffer, mode if mode is not Mode.TRAIN else Mode.EVAL, mask if took else 0)
        self._session.progress.evaluation_ended()
