"""All who are told beside the terminal and the file: the loop hands each notice over once and waits for nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.model.clock import Clock, SystemClock
from barograph.watch.message import message_of
from barograph.watch.notices import Notice
from barograph.watch.recipient import Recipient


class NotifierQueue:
    """Takes notices of one run to its recipients.

    Args:
        run: Place of the run.
        recipients: Each by a key that tells it from the others and stays the same over restarts.
        patience_secs: Longest time that `close` waits.
        clock: Time.
        background: Send from a thread for each recipient. False: nothing is sent but in `turn` and `close`.
    """

    def __init__(
        self, run: str, recipients: Mapping[str, Recipient], *, patience_secs: float = 10.0, clock: Clock | None = None,
        background: bool = True,
    ) -> None:
        self._run = run
        self._recipients = dict(recipients)
        self._patience_secs = patience_secs
        self._clock = clock or SystemClock()
        self._others: dict[str, Any] = {}
        self._closed = False
        if background:
            for recipient in self._recipients.values():
                recipient.start()

    @property
    def labels(self) -> Sequence[str]:
        """Names of the recipients."""
        return tuple(recipient.label for recipient in self._recipients.values())

    def take(self, notice: Notice) -> None:
        """Take in a notice for all whom it concerns; never waits."""
        message = message_of(notice, self._run, self._clock.unix())
        for recipient in self._recipients.values():
            recipient.add(message)

    def turn(self) -> None:
        """Send what it is time for; for tests, with `background=False`."""
        for recipient in self._recipients.values():
            recipient.turn()

    def problems(self) -> list[str]:
        """Return what went wrong since this was asked last, one sentence each, without secrets."""
        return [text for recipient in self._recipients.values() for text in recipient.problems()]

    def changed(self) -> bool:
        """Return whether what `to_json` gives has changed since this was asked last."""
        # Each must be asked, not only up to the first that says yes.
        return sum(recipient.take_changed() for recipient in self._recipients.values()) > 0

    def close(self) -> None:
        """Have what waits sent, for a bounded time; `problems` says what was not. Later calls do nothing."""
        if self._closed:
            return
        self._closed = True
        deadline = self._clock.monotonic() + self._patience_secs
        for recipient in self._recipients.values():
            recipient.hurry()
        for recipient in self._recipients.values():
            recipient.close(deadline)

    def to_json(self) -> dict[str, Any]:
        """Return what was told to whom, and what is owed, as plain JSON data; who they are is not in it."""
        return {**self._others, **{key: item.to_json() for key, item in self._recipients.items()}}

    def load(self, data: Mapping[str, Any]) -> None:
        """Take up what `to_json` wrote; what it says of others is kept for a watcher that tells them."""
        self._others = {key: saved for key, saved in data.items() if key not in self._recipients}
        for key, recipient in self._recipients.items():
            if key in data:
                recipient.load(data[key])
