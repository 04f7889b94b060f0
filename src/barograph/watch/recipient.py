"""A recipient of notifications: queues messages until they are delivered, with retries.

The loop only adds messages, which never blocks; the recipient's thread sends them. The thread only calls `turn`, so
tests can call `turn` with their own clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from barograph.model.clock import Clock, SystemClock
from barograph.model.notify import Notify, at_least
from barograph.watch.message import Message, message_from_json
from barograph.watch.message_notifier import MessageNotifier, NotDelivered
from barograph.watch.notices import Event

QUEUE = 1000
"""Maximum number of waiting messages for one recipient; further ones are dropped and reported."""
_REMEMBERED = 10_000
"""Number of IDs of delivered messages kept, so that a watcher that repeats steps does not notify twice."""
_FIRST_PAUSE_SECS = 1.0
_LONGEST_PAUSE_SECS = 300.0
_LOOK_SECS = 60.0
_LAST_TRIES = 3
_LAST_PAUSE_SECS = 0.5
_STAYS = "It stays in the run, and the next watcher that notifies sends it."
_RETRIED = "It is sent with the next notification, or by the next watcher that notifies."


class Recipient:
    """Queues messages for a recipient and sends them when they are due.

    Args:
        notify: Which events to send, and when.
        label: Name of the recipient in messages, without secrets.
        notifier: Delivers the messages.
        codes: Codes of the rules whose findings are sent.
        clock: Time for pauses, digests and quiet hours.
    """

    def __init__(
        self,
        notify: Notify,
        label: str,
        notifier: MessageNotifier,
        codes: frozenset[str],
        *,
        clock: Clock | None = None,
    ) -> None:
        self.label = label
        self._notify = notify
        self._notifier = notifier
        self._codes = codes
        self._clock = clock or SystemClock()
        self._changes = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._given_up: list[Message] = []
        self._refused: set[str] = set()
        self._delivered: dict[str, None] = {}
        self._lost = 0
        self._failures = 0
        self._why = ""
        self._again_at = 0.0
        self._messages: list[str] = []
        self._changed = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start a thread that sends."""
        self._thread = threading.Thread(target=self._run, name=f"barograph-notify-{self.label}", daemon=True)
        self._thread.start()

    def add(self, message: Message) -> None:
        """Queue a message if this recipient wants it and has not received it; never blocks."""
        if not self._wants(message):
            return
        with self._changes:
            if message.id in self._delivered or any(item.message.id == message.id for item in self._waiting):
                return
            if any(item.id == message.id for item in self._given_up):
                return
            if len(self._waiting) >= QUEUE:
                self._lose()
                return
            self._waiting.append(_Waiting(message, self._clock.monotonic()))
            self._changed = True
            self._changes.notify_all()

    def turn(self) -> float | None:
        """Send messages that are due; return the seconds until the next are due, None if nothing waits."""
        while True:
            with self._changes:
                batch, wait_secs = self._due()
            if not batch:
                return wait_secs
            self._send(batch)

    def hurry(self) -> None:
        """Send waiting messages now, except those held by quiet hours, and then finish."""
        with self._changes:
            self._closing = True
            self._failures, self._again_at = 0, 0.0
            for item in self._waiting:
                item.tries = 0
            self._changes.notify_all()

    def close(self, deadline: float) -> None:
        """Wait until all messages are sent, after `hurry`, or until `deadline`; `problems` then lists the undelivered
        ones.

        Args:
            deadline: Time by the clock's `monotonic`.
        """
        if self._thread is None:
            self.turn()
        else:
            self._thread.join(max(0.0, deadline - self._clock.monotonic()))
            if self._thread.is_alive():
                self._notifier.abort()
        self._report_undelivered()

    def problems(self) -> list[str]:
        """Return the problems of this recipient since the last call, one sentence each."""
        with self._changes:
            messages, self._messages = self._messages, []
            return messages

    def take_changed(self) -> bool:
        """Return whether the result of `to_json` has changed since the last call."""
        with self._changes:
            changed, self._changed = self._changed, False
            return changed

    def to_json(self) -> dict[str, Any]:
        """Return delivered and pending messages as plain JSON data."""
        with self._changes:
            owed = [*self._given_up, *(item.message for item in self._waiting)]
            return {"told": list(self._delivered), "owed": [message.to_json() for message in owed]}

    def load(self, data: Mapping[str, Any]) -> None:
        """Load what `to_json` returned; pending messages are sent now."""
        with self._changes:
            self._delivered = dict.fromkeys(str(item) for item in data["told"])
        for entry in data["owed"]:
            self.add(message_from_json(entry))

    # Selection and timing

    def _wants(self, message: Message) -> bool:
        if message.event.value not in self._notify.events:
            return False
        finding = message.finding
        return finding is None or (at_least(finding.severity, self._notify.at_least) and finding.code in self._codes)

    def _due(self) -> tuple[list[_Waiting], float | None]:
        now = self._clock.monotonic()
        free = self._free()
        if not free:
            return [], self._quiet_secs() if self._waiting else None
        if now < self._again_at:
            return [], self._again_at - now
        gathered_secs = 0.0 if self._closing else self._notify.digest_secs
        ready_secs = min(item.since for item in free) + gathered_secs - now
        if ready_secs > 0:
            return [], ready_secs
        together = self._notify.digest_secs > 0 or free[0].was_held
        return (free if together else free[:1]), None

    def _free(self) -> list[_Waiting]:
        """Return the messages that quiet hours do not hold."""
        if not self._quiet_secs():
            return self._waiting
        for item in self._waiting:
            item.was_held = not self._wakes(item.message)
        return [item for item in self._waiting if not item.was_held]

    def _quiet_secs(self) -> float:
        quiet = self._notify.quiet_hours
        if quiet is None:
            return 0.0
        now = time.localtime(self._clock.unix())
        return 60 * quiet.left_minutes(60 * now.tm_hour + now.tm_min + now.tm_sec / 60)

    def _wakes(self, message: Message) -> bool:
        wake_for = self._notify.wake_for
        return message.severity is not None and wake_for is not None and at_least(message.severity, wake_for)

    # Delivery

    def _send(self, batch: list[_Waiting]) -> None:
        try:
            self._notifier.send([item.message for item in batch])
        except NotDelivered as error:
            self._failed(batch, str(error), again=error.again, after_secs=error.after_secs)
        except Exception as error:  # noqa: BLE001 - the thread must continue; the message may contain secrets
            self._failed(batch, type(error).__name__, again=True, after_secs=0.0)
        else:
            self._arrived(batch)

    def _arrived(self, batch: list[_Waiting]) -> None:
        with self._changes:
            if self._failures:
                self._messages.append(f"Notifications reach {self.label} again.")
            self._failures, self._why, self._again_at = 0, "", 0.0
            for item in batch:
                self._delivered[item.message.id] = None
            for name in list(self._delivered)[:-_REMEMBERED]:
                del self._delivered[name]
            self._take_out(batch)
            self._try_again_what_was_given_up()

    def _try_again_what_was_given_up(self) -> None:
        """Queue messages again that were given up during an outage, since the recipient is reachable again.

        One try each, since other messages must not wait for one that always fails.
        """
        again = [message for message in self._given_up if message.id not in self._refused]
        self._given_up = [message for message in self._given_up if message.id in self._refused]
        now = self._clock.monotonic()
        self._waiting += [_Waiting(message, now, self._notify.retries) for message in again]

    def _failed(self, batch: list[_Waiting], why: str, *, again: bool, after_secs: float) -> None:
        with self._changes:
            if why != self._why:
                then = "; retrying" if again and self._notify.retries else ""
                self._messages.append(f"Cannot notify {self.label}: {why}{then}.")
            self._why = why
            self._failures += 1
            for item in batch:
                item.tries += 1
            most = min(_LAST_TRIES, self._notify.retries + 1) if self._closing else self._notify.retries + 1
            if not again or batch[0].tries >= most:
                self._give_up(batch, why, again=again)
            first = _LAST_PAUSE_SECS if self._closing else _FIRST_PAUSE_SECS
            pause = min(first * 2.0 ** (self._failures - 1), _LONGEST_PAUSE_SECS)
            self._again_at = self._clock.monotonic() + max(pause, after_secs)

    def _give_up(self, batch: list[_Waiting], why: str, *, again: bool) -> None:
        tries = min(batch[0].tries, self._notify.retries + 1)
        self._given_up += [item.message for item in batch]
        if not again:
            self._refused |= {item.message.id for item in batch}
        self._take_out(batch)
        if not self._closing:
            times = f" after {tries} tries" if tries > 1 else ""
            stays = _RETRIED if again else _STAYS
            self._messages.append(f"Cannot notify {self.label} of {_named(batch)}{times}: {why}. {stays}")

    def _take_out(self, batch: list[_Waiting]) -> None:
        gone = {id(item) for item in batch}
        self._waiting = [item for item in self._waiting if id(item) not in gone]
        self._changed = True

    def _lose(self) -> None:
        self._lost += 1
        if self._lost == 1:
            self._messages.append(f"Dropped notifications to {self.label}: {QUEUE} are already waiting.")

    def _report_undelivered(self) -> None:
        with self._changes:
            left, held = [*self._given_up], self._quiet_secs()
            waiting = [item.message for item in self._waiting]
            quiet = [item for item in waiting if held and not self._wakes(item)]
            left += [item for item in waiting if item not in quiet]
            if left:
                why = self._why or f"no response within {self._notify.timeout_secs:g} s"
                self._messages.append(f"Cannot notify {self.label} of {_counted(left)}: {why}. {_STAYS}")
            if quiet:
                self._messages.append(f"Did not notify {self.label} of {_counted(quiet)} in quiet hours. {_STAYS}")

    def _run(self) -> None:
        while batch := self._next():
            self._send(batch)

    def _next(self) -> list[_Waiting]:
        """Wait until messages are due and return them; empty when there are no more."""
        with self._changes:
            while True:
                batch, wait_secs = self._due()
                if batch:
                    return batch
                if self._closing and not self._free():
                    return []
                # The system time may change meanwhile, so check regularly.
                self._changes.wait(_LOOK_SECS if wait_secs is None else min(wait_secs, _LOOK_SECS))


class _Waiting:
    """A message that is not delivered yet, the time since it waits, and its number of tries."""

    __slots__ = ("message", "since", "tries", "was_held")

    def __init__(self, message: Message, since: float, tries: int = 0) -> None:
        self.message, self.since = message, since
        self.tries, self.was_held = tries, False


def _named(batch: list[_Waiting]) -> str:
    return _counted([item.message for item in batch])


def _counted(messages: list[Message]) -> str:
    first = messages[0]
    what = f"{first.finding.code} {first.finding.rule}" if first.finding else "a problem"
    word = "" if first.event is Event.OPENED else f" ({first.event.value})"
    return f"{what}{word}" if len(messages) == 1 else f"{what}{word} and {len(messages) - 1} more"
