"""Runs a `barograph` command on another machine, transfers its output, and restarts it if the machine is lost."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from barograph.errors import WatchError
from barograph.processes.command import Command
from barograph.processes.process import Output
from barograph.processes.ray_cluster import Remote
from barograph.processes.ray_process import ProcessHost, RayProcess
from barograph.version import __version__
from barograph.watch.far_line import search_path_here


@dataclass(frozen=True, slots=True)
class Order:
    """Command to start.

    Attributes:
        arguments: Arguments of `barograph`.
        config: Text of the settings file, which the other machine may not have; None: none.
        directory: Working directory, if the other machine has it.
        place: Directory that contains the runs; "" if they are in a bucket.
        witness: Name of an entry of that directory, which distinguishes it from another directory of the same name; "":
            the directory is empty.
        search_path: Additional module search path.
        version: Barograph version of the watcher.
    """

    arguments: tuple[str, ...]
    config: str | None
    directory: str
    place: str
    witness: str
    search_path: tuple[str, ...]
    version: str = __version__


class CommandHost(ProcessHost):
    """Actor that starts and manages a command on its machine."""

    def __init__(self) -> None:
        super().__init__()
        self._config: Path | None = None

    def begin(self, order: Order) -> str:
        """Start the command; return why this machine cannot run it, or ""."""
        if order.version != __version__:
            return f"Barograph {__version__} is installed there, and {order.version} here"
        if order.place and not Path(order.place, order.witness).exists():
            return (f"{order.place} is not the same directory there as it is here. Runs on a disk can be watched from "
                    "machines that share it, below the same path; else keep them in a bucket")
        arguments = list(order.arguments)
        if order.config is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False, encoding="utf-8") as file:
                file.write(order.config)
            self._config = Path(file.name)
            arguments += ["--config", file.name]
        directory = order.directory if Path(order.directory).is_dir() else None
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search_path_here(order.search_path))}
        self.start(Command((sys.executable, "-m", "barograph", *arguments), directory, environment))
        return ""

    def news(self, wait_secs: float = 0.0) -> tuple[Output, int | None]:
        """See `ProcessHost.news`."""
        output, code = super().news(wait_secs)
        if code is not None and self._config is not None:
            self._config.unlink(missing_ok=True)
        return output, code


class FarCommand:
    """A command on a machine of the Ray cluster, and the destination of its output.

    Args:
        order: The command.
        out: Receives standard output as it arrives; None: it is kept for `communicate`.
        err: As `out`, for standard error.

    Raises:
        HostLost: The machine was lost.
        WatchError: The machine cannot run the command.
    """

    def __init__(self, order: Order, out: IO[bytes] | None, err: IO[bytes]) -> None:
        self._out, self._err = out, err
        self._kept: list[bytes] = []
        self._host = Remote(CommandHost)
        if why := self._host.call("begin", order):
            self._host.close()
            raise WatchError(f"On a machine of the Ray cluster the runs cannot be watched: {why}.")
        self._process = RayProcess(self._host)

    def poll(self) -> int | None:
        """Forward new output; return the exit code, or None while the command runs.

        Raises:
            HostLost: The machine was lost.
        """
        code = self._process.poll()
        output = self._process.output()
        if self._out is None:
            self._kept.append(output.out)
        else:
            _write(self._out, output.out)
        _write(self._err, output.err)
        return code

    def said(self) -> bytes:
        """Return the kept output."""
        return b"".join(self._kept)

    def interrupt(self) -> None:
        """Interrupt the command; `poll` then returns its exit code.

        Raises:
            HostLost: The machine was lost.
        """
        self._process.interrupt()

    def terminate(self) -> None:
        """Kill the command."""
        self._host.close()


def _write(sink: IO[bytes], data: bytes) -> None:
    if data:
        sink.write(data)
        sink.flush()
