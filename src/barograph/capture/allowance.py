"""The recording mask of the current step, chosen at the end of the previous one from schedule and budget."""

from __future__ import annotations

from barograph.capture.session import Session

_FREE_ALARMS = 3
"""Number of alarmed steps recorded completely at any cost: by then the origin of a NaN is known. A training that
continues without a finite loss must not pay for everything at each step."""


class Allowance:
    """Decides what to record of the current step.

    The optimizer of the next step is a guess until an optimizer steps; if the guess was wrong, what is due with the
    actual optimizer is recorded as well.

    Attributes:
        mask: What to record; None: not chosen yet.
        alarmed: The loss is non-finite or far from all earlier ones, or it is the last step, so everything is recorded.
        light: Record only the numbers of the step: its loss and its learning rates.
        label: The expected optimizer of the step.
    """

    __slots__ = ("_alarms", "_session", "alarmed", "label", "light", "mask")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.mask: int | None = None
        self.alarmed = False
        self.light = False
        self.label = ""
        self._alarms = 0

    def alarm(self) -> None:
        """Record everything of the current step, whose loss is out of range, if the budget allows."""
        if not self.alarmed:
            self._alarms += 1
            self.alarmed = self._alarms <= _FREE_ALARMS or self._session.choice.has_room()

    def take_everything(self) -> None:
        """Record everything of the current step at any cost: for a step that is known to be the last."""
        self.alarmed = True

    def give_up(self) -> None:
        """Record nothing of the current step: it never ends."""
        self.mask = 0

    def belongs_to(self, label: str) -> None:
        """Note the optimizer of the current step."""
        self.label = label

    def for_forward(self) -> int:
        """Return the mask for a forward pass of this step."""
        if self.mask is None:
            self.mask = self._choose()
        return self.mask

    def for_step_of(self, label: str) -> int:
        """Return the mask for weights and gradients, now that the optimizer is known."""
        if self.mask is None or label != self.label:
            self.label = label
            self.mask = (self.mask or 0) | self._choose()
        return self.whole_mask()

    def whole_mask(self) -> int:
        """Return the mask for weights and gradients: everything after a non-finite loss."""
        mask = self.mask or 0
        return mask | self._session.plan.everything() if self.alarmed else mask

    def close_step(self) -> int:
        """Return the mask of the ended step, and reset."""
        mask = self.whole_mask()
        self.mask, self.alarmed = None, False
        return mask

    def prepare(self, label: str) -> None:
        """Choose the mask of the next step, expected to be the optimizer `label`'s."""
        self.label, self.alarmed = label, False
        self.mask = self._choose()
        self.light = self.mask == 0

    def wake(self) -> None:
        """Record more than numbers of the current step."""
        self.light = False

    def _choose(self) -> int:
        return self._session.choice.choose(self._session.counts.made(self.label), optimizer=self.label)
