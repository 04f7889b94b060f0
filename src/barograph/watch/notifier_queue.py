"""Delivers notices to all external recipients; the loop passes each notice once and never blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.model.clock import Clock, SystemClock
from barograph.watch.message import message_of
from barograph.watch.notices import Notice
from barograph.watch.recipient import Recipient


class NotifierQueue:
    """Delivers notices of one run to its recipients.

    Args:
        run: URL of the run.
        recipients: Recipients by a unique key that is stable across restarts.
        patience_secs: Time limit of `close`.
        clock: Time.
        background: Send from a thread for each recipient. False: send only in `turn` and `close`.
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
        """Queue a notice for all recipients that want it; never blocks."""
        message = message_of(notice, self._run, self._clock.unix())
        for recipient in self._recipients.values():
            recipient.add(message)

    def turn(self) -> None:
        """Send messages that are due; for tests, with `background=False`."""
        for recipient in self._recipients.values():
            recipient.turn()

    def problems(self) -> list[str]:
        """Return the problems since the last call, one sentence each, without secrets."""
        return [text for recipient in self._recipients.values() for text in recipient.problems()]

    def changed(self) -> bool:
        """Return whether the result of `to_json` has changed since the last call."""
        # No short circuit: `take_changed` resets the flag of each recipient.
        return sum(recipient.take_changed() for recipient in self._recipients.values()) > 0

    def close(self) -> None:
        """Send pending messages, for a bounded time; `problems` then lists the undelivered ones. Later calls do
        nothing."""
        if self._closed:
            return
        self._closed = True
        deadline = self._clock.monotonic() + self._patience_secs
        for recipient in self._recipients.values():
            recipient.hurry()
        for recipient in self._recipients.values():
            recipient.close(deadline)

    def to_json(self) -> dict[str, Any]:
        """Return delivered and pending messages by recipient key as plain JSON data, without addresses."""
        return {**self._others, **{key: item.to_json() for key, item in self._recipients.items()}}

    def load(self, data: Mapping[str, Any]) -> None:
        """Load what `to_json` returned; entries of unknown recipients are kept for a later watcher."""
        self._others = {key: saved for key, saved in data.items() if key not in self._recipients}
        for key, recipient in self._recipients.items():
            if key in data:
                recipient.load(data[key])
