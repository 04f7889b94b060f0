"""A `barograph` command on another machine: begun there, what it says brought here, and begun anew where it is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from barograph.errors import WatchError
from barograph.processes.process import HostLost
from barograph.processes.ray_cluster import Remote
from barograph.version import __version__
from barograph.watch.far_line import search_path_here

_PIECE_BYTES = 2**16
_END_SECS = 5.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be begun.

    Attributes:
        arguments: Of `barograph`.
        config: Text of the settings file, which the other machine need not have; None: none.
        directory: To begin in, where the other machine has it.
        place: Directory that the runs lie below; "" where they are in a bucket.
        witness: Name of something in that directory, by which it is told from another of the same name; "": nothing
            is there yet.
        search_path: Where modules are looked for besides.
        version: Of the watcher's Barograph.
    """

    arguments: tuple[str, ...]
    config: str | None
    directory: str
    place: str
    witness: str
    search_path: tuple[str, ...]
    version: str = __version__


@dataclass(frozen=True, slots=True)
class News:
    """What a command did since it was asked last.

    Attributes:
        out, err: What it wrote.
        code: With which it ended; None while it goes on.
    """

    out: bytes
    err: bytes
    code: int | None


class CommandHost:
    """Lives on the machine that a command runs on, and minds it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._config: Path | None = None
        self._readers: list[_Reader] = []

    def begin(self, order: Order) -> str:
        """Begin the command; return why that makes no sense here, "" where it does."""
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
        # Ray holds interrupts back from what it begins, and a command would inherit that.
        former = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        try:
            self._process = self._begun(arguments, order)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)
        self._readers = [_Reader(pipe) for pipe in (self._process.stdout, self._process.stderr) if pipe]
        return ""

    def _begun(self, arguments: list[str], order: Order) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "barograph", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
            cwd=order.directory if Path(order.directory).is_dir() else None,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path_here(order.search_path))},
        )

    def news(self) -> News:
        """Return what the command did since this was called last; at its end, all that is left."""
        if self._process is None:
            raise HostLost("Nothing was begun.")
        code = self._process.poll()
        if code is not None:
            for reader in self._readers:
                reader.finish()
            if self._config is not None:
                self._config.unlink(missing_ok=True)
        out, err = (reader.taken() for reader in self._readers)
        return News(out, err, code)

    def interrupt(self) -> None:
        """Interrupt the command, as Ctrl-C does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)


class FarCommand:
    """A command on a machine of the Ray cluster, with the few methods of `subprocess.Popen` that a service needs.

    Args:
        order: What is to be begun.
        out: Where what it writes goes, as it comes; None: it is kept, for `communicate`.
        err: Likewise of standard error.

    Raises:
        HostLost: The machine was lost.
        WatchError: The command makes no sense there.
    """

    def __init__(self, order: Order, out: IO[bytes] | None, err: IO[bytes]) -> None:
        self.returncode: int | None = None
        self._out, self._err = out, err
        self._kept: list[bytes] = []
        self._host = Remote(CommandHost)
        if why := self._host.call("begin", order):
            self._host.close()
            raise WatchError(f"On a machine of the Ray cluster the runs cannot be watched: {why}.")

    def poll(self) -> int | None:
        """Pass on what the command wrote; return the code that it ended with, None while it goes on.

        Raises:
            HostLost: The machine was lost.
        """
        if self.returncode is None:
            news: News = self._host.call("news")
            if self._out is None:
                self._kept.append(news.out)
            else:
                _write(self._out, news.out)
            _write(self._err, news.err)
            self.returncode = news.code
            if news.code is not None:
                self._host.close()
        return self.returncode

    def said(self) -> bytes:
        """Return what was kept."""
        return b"".join(self._kept)

    def interrupt(self) -> None:
        """Interrupt the command; its end comes with `poll`.

        Raises:
            HostLost: The machine was lost.
        """
        if self.returncode is None:
            self._host.call("interrupt")

    def terminate(self) -> None:
        """End it at once."""
        self._host.close()


class _Reader:
    """Reads a pipe to its end, so that who writes never waits; gives whole lines, since others write there, too."""

    def __init__(self, pipe: BinaryIO | IO[bytes]) -> None:
        self._pipe = pipe
        self._pieces: list[bytes] = []
        self._rest = b""
        self._finished = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), _PIECE_BYTES):
                self._pieces.append(piece)

    def taken(self) -> bytes:
        """Return the lines that have come since this was called last; after `finish` also one without an end."""
        # By number: more may be added meanwhile.
        count = len(self._pieces)
        data = self._rest + b"".join(self._pieces[:count])
        del self._pieces[:count]
        lines, end, self._rest = (data, b"", b"") if self._finished else data.rpartition(b"\n")
        return lines + end

    def finish(self) -> None:
        """Wait until all has been read; not for ever, since a program that was told of a finding may live on."""
        self._thread.join(_END_SECS)
        self._finished = True


def _write(sink: IO[bytes], data: bytes) -> None:
    if data:
        sink.write(data)
        sink.flush()
