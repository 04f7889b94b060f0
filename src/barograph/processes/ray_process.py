"""A process on a machine of a Ray cluster."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from barograph.processes.command import Command
from barograph.processes.process import HostLost, Output
from barograph.processes.ray_cluster import Remote
from barograph.processes.streamed_process import StreamedProcess

_LOOK_SECS = 0.5


class ProcessHost:
    """Starts a process on its machine, and manages it for a `RayProcess`."""

    def __init__(self) -> None:
        self._process: StreamedProcess | None = None
        self._ending: threading.Thread | None = None

    def start(self, command: Command) -> None:
        """Start the process.

        Raises:
            OSError: It cannot be started.
        """
        # Ray blocks SIGINT in the processes that it starts, and a command would inherit that.
        former = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            self._process = StreamedProcess(command, ends_with_us=True)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)

    def news(self, wait_secs: float = 0.0) -> tuple[Output, int | None]:
        """Return what the process wrote since the last call, and its exit code once it has ended.

        Args:
            wait_secs: Time to wait for output, or for the end.
        """
        # The code first: then everything before the end is in the output.
        code = None if self._ending is not None and self._ending.is_alive() else self._started.poll()
        return self._started.output(wait_secs if code is None else 0.0), code

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        self._started.interrupt()

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        self._started.terminate()

    def kill(self) -> None:
        """See `Process.kill`."""
        self._started.kill()

    def end(self, grace_secs: float) -> None:
        """See `Process.end`. Does not wait: its output until the end can still be read."""
        self._ending = threading.Thread(target=self._started.end, args=(grace_secs,), daemon=True)
        self._ending.start()

    @property
    def _started(self) -> StreamedProcess:
        if self._process is None:
            raise HostLost("No process was started.")
        return self._process


class RayProcess:
    """A `Process` on a machine of the Ray cluster that `ray_cluster.connect` joined.

    Args:
        host: A `ProcessHost` there that has started its process. It ends with the process.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, host: Remote, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._clock = clock
        self._exit_code: int | None = None
        self._waiting: list[Output] = []

    def poll(self) -> int | None:
        """See `Process.poll`.

        Raises:
            HostLost: The machine was lost, as in all methods.
        """
        return self._look(0.0)

    def wait(self, timeout_secs: float | None = None) -> int | None:
        """See `Process.wait`."""
        deadline = None if timeout_secs is None else self._clock() + timeout_secs
        while True:
            left = _LOOK_SECS if deadline is None else deadline - self._clock()
            code = self._look(min(_LOOK_SECS, max(0.0, left)))
            if code is not None or left <= 0:
                return code

    def output(self) -> Output:
        """See `Process.output`."""
        if not self._waiting:
            self._look(0.0)
        waiting, self._waiting = self._waiting, []
        return Output(b"".join(item.out for item in waiting), b"".join(item.err for item in waiting))

    def interrupt(self) -> None:
        """See `Process.interrupt`."""
        if self._exit_code is None:
            self._host.call("interrupt")

    def kill(self) -> None:
        """See `Process.kill`."""
        if self._exit_code is None:
            self._host.call("kill")

    def end(self, grace_secs: float) -> int:
        """See `Process.end`."""
        if self._exit_code is None:
            self._host.call("end", grace_secs)
        code = self.wait()
        assert code is not None
        return code

    def _look(self, wait_secs: float) -> int | None:
        if self._exit_code is None:
            output, self._exit_code = self._host.call("news", wait_secs)
            self._waiting.append(output)
            if self._exit_code is not None:
                self._host.close()
        return self._exit_code
