"""Where a run goes when the user does not say, and what its first paper says."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

from barograph.model.clock import Clock
from barograph.model.manifest import Manifest
from barograph.model.settings import Settings
from barograph.version import __version__

DEFAULT_ROOT = "barograph-runs"
"""Folder, below the working directory, of runs whose place nobody chose."""

_MOST_STEM_CHARS = 50


def new_place(program: str, *, root: str = DEFAULT_ROOT) -> str:
    """Return a place no run has: it sorts by time and names the program.

    Args:
        program: Path or name of what runs; only its stem is used.
        root: Folder to put it below.

    Example:
        >>> import re
        >>> bool(re.fullmatch(r"barograph-runs/\\d{8}-\\d{6}-train-[0-9a-f]{4}", new_place("examples/train.py")))
        True
    """
    # The name of a folder has 255 bytes at most, and a letter up to four.
    stem = re.sub(r"[^\w.-]+", "-", Path(program).stem)[:_MOST_STEM_CHARS].strip("-.") or "run"
    return f"{root}/{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{os.urandom(2).hex()}"


def away_from(url: str) -> tuple[str, ...]:
    """Return the folders near a run in which there are runs and no code: its own, and where others go by themselves.

    Args:
        url: Of the run.
    """
    return (*([] if "://" in url else [url]), str(Path.cwd() / DEFAULT_ROOT))


def new_manifest(settings: Settings, *, command: tuple[str, ...], clock: Clock, name: str = "") -> Manifest:
    """Return the manifest of a run that begins now.

    Args:
        settings: With `to`, whose last part names the run.
        command: What runs, as typed.
        clock: Tells when.
        name: For people; "": the last part of its place.
    """
    now = clock.unix()
    name = name or settings.to.rstrip("/").rpartition("/")[2] or settings.to
    return Manifest(
        run_id=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{os.urandom(6).hex()}",
        name=name,
        created_unix=now,
        command=command,
        versions={"barograph": __version__, "python": platform.python_version()},
        settings=settings.to_json(),
    )
