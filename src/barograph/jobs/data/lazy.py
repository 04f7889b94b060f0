"""Lazy mode: a read-only directory that fetches what is read. A process of its own serves it, through FUSE."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from barograph.errors import BarographError, JobError, JobRefused, StoreUnavailable
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.mounts import mounts, unmount
from barograph.jobs.data.progress import Tally
from barograph.jobs.data.settings import USUAL, DeliverySettings
from barograph.processes.command import own_module
from barograph.processes.local_process import PIPE, STDOUT, LocalProcess

_END_SECS = 5.0
_DEVICE = "/dev/fuse"


def lazy_problem(folder: Path | None = None) -> str:
    """Return why this machine has no lazy directories, and what to do; "" if it has. Mounts one to find out.

    Args:
        folder: Where to mount it. None: the folder for temporary files.
    """
    problem = _missing_part()
    if problem:
        return problem
    with tempfile.TemporaryDirectory(prefix="barograph-lazy-", dir=folder, ignore_cleanup_errors=True) as scratch:
        place = Path(scratch, "data")
        try:
            with lazy_directory("test", DataListing(scratch, ()), (), place, Path(scratch), USUAL, Tally("test", 0, 0)):
                return ""
        except BarographError as error:
            return str(error)


def _missing_part() -> str:
    if sys.platform == "win32" or not os.path.exists(_DEVICE):
        return "Lazy channels need FUSE, and this machine has no /dev/fuse. Use the mode copy."
    if importlib.util.find_spec("mfusepy") is None:
        return "Lazy channels need mfusepy. Run: pip install 'barograph[lazy]'."
    if not (ctypes.util.find_library("fuse3") or ctypes.util.find_library("fuse")):
        return "Lazy channels need the library libfuse. Install it (Debian, Ubuntu: apt install fuse3)."
    if os.geteuid() != 0 and not (shutil.which("fusermount3") or shutil.which("fusermount")):
        return "Lazy channels need fusermount3. Install it (Debian, Ubuntu: apt install fuse3)."
    return ""


@contextlib.contextmanager
def lazy_directory(
    name: str, listing: DataListing, objects: Sequence[DataObject], directory: Path, cache: Path,
    settings: DeliverySettings, tally: Tally,
) -> Iterator[None]:
    """Serve objects in a directory during the block. The server ends with this process, also if it is killed.

    Args:
        name: Name of the channel.
        listing: The listing that contains the objects.
        objects: The objects.
        directory: The directory.
        cache: Directory of fetched parts.
        settings: Times.
        tally: Gets the counts and errors of the server.

    Raises:
        JobRefused: FUSE is not available here.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if problem := _missing_part():
        raise JobRefused(problem)
    order = {
        "name": name, "listing": DataListing(listing.root, tuple(objects)).to_json(), "directory": str(directory),
        "cache": str(cache), "retry_secs": settings.retry_secs,
    }
    process = LocalProcess(own_module("barograph.jobs.data.lazy_server"), stdin=PIPE, stdout=PIPE, stderr=STDOUT)
    messages = _Messages(process, tally)
    try:
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, and said why
            _write_all(process.stdin.fileno(), json.dumps(order).encode() + b"\n")
        if not messages.is_ready.wait(settings.mount_secs) or not messages.was_mounted:
            raise JobRefused(f"Channel {name} cannot be lazy: {messages.text or 'FUSE does not answer'}. Use the mode "
                             f"copy ({directory}).")
        yield
    finally:
        process.stdin and process.stdin.close()
        if process.wait(_END_SECS) is None:
            process.kill()
            process.wait()
        for place in mounts(directory):
            unmount(place)
        messages.close()


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view):]


class _Messages:
    """Reads the messages of a server in a thread.

    Attributes:
        is_ready: The directory was mounted, or the server has ended.
        was_mounted: The directory was mounted.
        text: Other output, in one line: of libfuse, or a traceback.
    """

    def __init__(self, process: LocalProcess, tally: Tally) -> None:
        self._process, self._tally = process, tally
        self.is_ready = threading.Event()
        self.was_mounted = False
        self.text = ""
        self._thread = threading.Thread(target=self._read, name="barograph-lazy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(_END_SECS)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with open(self._process.stdout.fileno(), encoding="utf-8", errors="replace", closefd=False) as lines:
            for line in lines:
                try:
                    self._take(json.loads(line))
                except (ValueError, TypeError):
                    self.text = f"{self.text} {line.strip()}".strip()[-500:]
        self._process.stdout.close()
        self.is_ready.set()

    def _take(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            self.was_mounted = True
            self.is_ready.set()
        elif "fetched_bytes" in message:
            self._tally.add(fetched_bytes=message["fetched_bytes"])
        elif "failure" in message:
            kind = StoreUnavailable if message.get("is_of_store") else JobError
            self._tally.fail(kind(message["failure"]))
