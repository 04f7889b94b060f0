"""The recording mask of the current step, chosen at the end of the previous one from schedule and budget."""

from __future__ import annotations

from barograph.capture.session import Session

_FREE_ALARMS = 3
"""Alarmed steps that are taken whole whatever they cost: where a NaN arose is known by then. A training that goes
on without a finite loss must not be charged for everything at each step."""


class Allowance:
    """Decides what is recorded of the current step.

    Whose step comes next is a guess until an optimizer steps; where it was wrong, what is due with the
    other optimizer is taken as well.

    Attributes:
        mask: What is taken; None: not chosen yet.
        alarmed: The loss is not finite, or far from all before it, or it is the last step, and everything there is is
            taken.
        light: Nothing but the numbers of the step is taken: its loss and its learning rates.
        label: The optimizer whose step this is held to be.
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
        """Have everything taken of the step under way, whose loss is out of range, as long as that can be afforded."""
        if not self.alarmed:
            self._alarms += 1
            self.alarmed = self._alarms <= _FREE_ALARMS or self._session.choice.has_room()

    def take_everything(self) -> None:
        """Have everything taken of the step under way, whatever it costs: for a step that is known to be the last."""
        self.alarmed = True

    def give_up(self) -> None:
        """Take nothing of the step under way: it never ends."""
        self.mask = 0

    def belongs_to(self, label: str) -> None:
        """Note whose step is under way."""
        self.label = label

    def for_forward(self) -> int:
        """Return what is taken of a forward pass of this step."""
        if self.mask is None:
            self.mask = self._choose()
        return self.mask

    def for_step_of(self, label: str) -> int:
        """Return what is taken of weights and gradients, now that it is known whose step it is."""
        if self.mask is None or label != self.label:
            self.label = label
            self.mask = (self.mask or 0) | self._choose()
        return self.whole_mask()

    def whole_mask(self) -> int:
        """Return what is taken of weights and gradients: all there is, once the loss is not finite."""
        mask = self.mask or 0
        return mask | self._session.plan.everything() if self.alarmed else mask

    def close_step(self) -> int:
        """Return what was taken of the step that ends; nothing is chosen for the next one yet."""
        mask = self.whole_mask()
        self.mask, self.alarmed = None, False
        return mask

    def prepare(self, label: str) -> None:
        """Choose for the step that comes next, which is held to be that of the optimizer `label`."""
        self.label, self.alarmed = label, False
        self.mask = self._choose()
        self.light = self.mask == 0

    def wake(self) -> None:
        """Have the step under way looked at in full: there is something to record beside its numbers."""
        self.light = False

    def _choose(self) -> int:
        return self._session.choice.choose(self._session.counts.made(self.label), optimizer=self.label)
