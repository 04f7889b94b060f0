"""Notices in a file, to interrupt an instance on purpose."""

from __future__ import annotations

import json
import os
from pathlib import Path

from barograph.jobs.interruptions.notice import Notice

NAME = "notice.json"


class FileSource:
    """Reads `notice.json` in a directory.

    Args:
        directory: Need not exist.
    """

    name = "file"
    interval_secs = 0.2

    def __init__(self, directory: str | Path) -> None:
        self._path = Path(directory) / NAME

    def poll(self) -> Notice | None:
        """Return the notice in the file, None if there is none. Never raises."""
        try:
            return Notice.from_json(json.loads(self._path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            return None  # no file, or one that somebody is writing by hand


def write_notice(directory: str | Path, notice: Notice) -> None:
    """Interrupt the instance that reads a directory.

    Raises:
        OSError: The directory cannot be written to.
    """
    path = Path(directory) / NAME
    unfinished = path.with_name(f".{NAME}.{os.getpid()}")
    unfinished.write_text(json.dumps(notice.to_json()), encoding="utf-8")
    unfinished.replace(path)
