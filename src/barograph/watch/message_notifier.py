"""Interface of notifiers that send messages to others; one file per transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barograph.watch.message import Message


class NotDelivered(Exception):
    """A message did not arrive.

    Attributes:
        again: Whether trying again may help.
        after_secs: How long whoever was to be told asks to be left alone first.
    """

    def __init__(self, why: str, *, again: bool = True, after_secs: float = 0.0) -> None:
        super().__init__(why)
        self.again = again
        self.after_secs = after_secs


class MessageNotifier(Protocol):
    """Takes messages to one place. Called from one thread, which may wait for it."""

    def send(self, messages: Sequence[Message]) -> None:
        """Take all of these there at once; return when they have arrived.

        Raises:
            NotDelivered: They did not, and why, without any secret.
        """
        ...

    def abort(self) -> None:
        """End a sending that is under way as soon as that can be; called from another thread, when nobody waits."""
        ...
