"""Signals that announce the end of an instance: SIGTERM of Kubernetes, and what Slurm sends with `--signal`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.interruptions.notice import Notice
from barograph.model.clock import Clock, SystemClock
from barograph.model.units import seconds_from

SIGNALS_VARIABLE = "BAROGRAPH_NOTICE_SIGNALS"
GRACE_VARIABLE = "BAROGRAPH_GRACE"
_GRACE_SECS = 30.0
"""What Kubernetes and Slurm allow by default between SIGTERM and SIGKILL."""
_ALLOWED = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGHUP", "SIGINT", "SIGXCPU", "SIGALRM", "SIGCONT")


class SignalSource:
    """Turns the first of some signals into a notice.

    `install` replaces their handlers; earlier handlers that are Python functions still run.

    Args:
        signals: Which ones.
        grace_secs: Seconds from SIGTERM to the end. For any signal, Slurm's end of the job counts if it is known.
        end_unix: When the job ends at the latest (`SLURM_JOB_END_TIME`); None: unknown.
        clock: For the deadline.
    """

    name = "signals"
    interval_secs = 0.1

    def __init__(self, signals: Iterable[signal.Signals] = (signal.SIGTERM,), *, grace_secs: float = _GRACE_SECS,
                 end_unix: float | None = None, clock: Clock | None = None) -> None:
        self._signals = tuple(signals)
        self._grace_secs = grace_secs
        self._end_unix = end_unix
        self._clock = clock or SystemClock()
        self._former: dict[int, object] = {}
        self._notice: Notice | None = None

    def install(self) -> None:
        """Start to handle the signals. Call it from the main thread.

        Raises:
            ValueError: This is another thread.
        """
        for number in self._signals:
            self._former[number] = signal.signal(number, self._receive)

    def close(self) -> None:
        """Restore the former handlers, also from the main thread."""
        for number, former in self._former.items():
            signal.signal(number, former if former is not None else signal.SIG_DFL)  # type: ignore[arg-type]
        self._former = {}

    def poll(self) -> Notice | None:
        """Return the notice, None before the first signal. Never raises."""
        return self._notice

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._notice is None:
            now = self._clock.unix()
            self._notice = Notice(self.name, f"received {signal.Signals(number).name}", self._deadline(number, now))
        former = self._former.get(number)
        if callable(former):
            called: Callable[[int, FrameType | None], object] = former
            called(number, frame)

    def _deadline(self, number: int, now: float) -> float:
        # A signal of `--signal` comes long before the end; SIGTERM, also of a preemption, comes a grace before it.
        if number != signal.SIGTERM and self._end_unix is not None and self._end_unix > now:
            return self._end_unix
        return now + self._grace_secs


def signal_source_from(environment: Mapping[str, str], *, signals: str = "", grace_secs: float | None = None,
                       clock: Clock | None = None) -> SignalSource:
    """Return the source as arguments and environment variables configure it, not installed yet.

    Args:
        environment: `BAROGRAPH_NOTICE_SIGNALS` and `BAROGRAPH_GRACE` count where the arguments are not given. Slurm's
            `SLURM_JOB_END_TIME` is the deadline after signals other than SIGTERM.
        signals: Comma-separated names, such as "SIGTERM,USR1"; "": SIGTERM, in a Slurm job also SIGUSR1 and SIGUSR2.
        grace_secs: See `SignalSource`; None: 30 s.
        clock: See `SignalSource`.

    Raises:
        UnknownName: A signal does not exist, or cannot be a notice.
        SettingsError: The grace is not a time.
    """
    text = signals or environment.get(SIGNALS_VARIABLE, "")
    slurm = "SLURM_JOB_ID" in environment
    numbers = [_signal(part) for part in (text or ("TERM,USR1,USR2" if slurm else "TERM")).split(",")]
    if grace_secs is None:
        written = environment.get(GRACE_VARIABLE, "")
        grace_secs = seconds_from(GRACE_VARIABLE, _with_unit(written)) if written else _GRACE_SECS
    end = environment.get("SLURM_JOB_END_TIME", "")
    return SignalSource(numbers, grace_secs=grace_secs, end_unix=float(end) if end.isdigit() else None, clock=clock)


def _signal(part: str) -> signal.Signals:
    name = part.strip().upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in _ALLOWED:
        raise UnknownName(f'"{part.strip()}" is not a signal for notices. {nearest(name, _ALLOWED)}')
    try:
        return signal.Signals[name]
    except KeyError:
        raise SettingsError(f"{name} does not exist on this system.") from None


def _with_unit(text: str) -> str:
    return f"{text}s" if text.strip().replace(".", "", 1).isdigit() else text
