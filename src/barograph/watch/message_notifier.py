"""Interface of notifiers that send messages to others; one file per transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from barograph.watch.message import Message


class NotDelivered(Exception):
    """A message was not delivered.

    Attributes:
        again: Whether a retry may help.
        after_secs: Delay that the receiver requires before a retry.
    """

    def __init__(self, why: str, *, again: bool = True, after_secs: float = 0.0) -> None:
        super().__init__(why)
        self.again = again
        self.after_secs = after_secs


class MessageNotifier(Protocol):
    """Delivers messages to one destination. Called from one thread, which may block."""

    def send(self, messages: Sequence[Message]) -> None:
        """Deliver all messages at once; return when they have arrived.

        Raises:
            NotDelivered: Delivery failed; the reason contains no secrets.
        """
        ...

    def abort(self) -> None:
        """Abort a running delivery as soon as possible; called from another thread at shutdown."""
        ...
