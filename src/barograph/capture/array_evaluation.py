"""The current evaluation of an array integration: its mode, its mask, and its buffer."""

from __future__ import annotations

from barograph.capture.buffer import StepBuffer
from barograph.capture.probe import ProbePass
from barograph.capture.session import Session
from barograph.model.step import Mode


class ArrayEvaluation:
    """Gathers the records of an evaluation, and publishes them at its end.

    Args:
        session: Publishes the records.

    Attributes:
        mode: Mode that the integration has set; None: no evaluation was started.
        buffer: The gathered records.
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
        """Start an evaluation."""
        self.mode = mode

    def take_everything(self) -> None:
        """Record every selected tensor of this evaluation, at any cost."""
        self._mask, self._is_whole = self._session.plan.everything(), True

    def mask(self, number: int, mode: Mode) -> int:
        """Return the mask of the evaluation.

        Args:
            number: Number of steps before it.
            mode: Its mode.
        """
        if self._mask is None:
            self._mask = self._session.choice.choose(number, mode)
        elif not self._is_whole and not self._session.choice.evaluation_goes_on(self._mask):
            # Sums over a part of an evaluation would be recorded as sums over the whole. The probe has no sums.
            self._mask = 0
            self.buffer.gathered = {
                name: item for name, item in self.buffer.gathered.items() if isinstance(item, ProbePass)}
        return self._mask

    def note_took(self, took: bool) -> None:
        """Note whether anything due was recorded."""
        self._took |= took

    def end(self, mode: Mode) -> None:
        """Publish the gathered records, if any, and reset.

        Args:
            mode: Current mode of the integration; TRAIN if no evaluation was started.
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
