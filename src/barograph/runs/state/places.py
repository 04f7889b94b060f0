"""Where a run goes when the user does not say, and what its first metadata file says."""

from __future__ import annotations

import hashlib
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
ROOT_VARIABLE = "BAROGRAPH_ROOT"
"""Environment variable that says where runs are, for those who do not say it themselves."""

_MOST_STEM_CHARS = 50


def root_place(root: str | os.PathLike[str] | None = None) -> str:
    """Return the directory or URL of a root of runs; None: what `BAROGRAPH_ROOT` says, else `barograph-runs/`."""
    return os.fspath(root) if root is not None else os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT


def new_place(program: str, *, root: str | None = None) -> str:
    """Return a place no run has: it sorts by time and names the program.

    Args:
        program: Path or name of what runs; only its stem is used.
        root: Folder or URL to put it below; None: as of `root_place`.

    Example:
        >>> import re
        >>> bool(re.fullmatch(r"runs/\\d{8}-\\d{6}-train-[0-9a-f]{4}", new_place("examples/train.py", root="runs")))
        True
    """
    above, stem = root_place(root).rstrip("/"), _stem(Path(program).stem)
    return f"{above}/{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{os.urandom(2).hex()}"


def named_place(name: str, *, root: str) -> str:
    """Return the place that the name of a run tells: for everybody the same.

    Example:
        >>> named_place("wide net", root="runs")
        'runs/wide-net-07bc7cb3'
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{root.rstrip('/')}/{_stem(name)}-{digest}"


def _stem(name: str) -> str:
    # The name of a folder has 255 bytes at most, and a letter up to four.
    return re.sub(r"[^\w.-]+", "-", name)[:_MOST_STEM_CHARS].strip("-.") or "run"


def away_from(url: str) -> tuple[str, ...]:
    """Return the folders near a run in which there are runs and no code: its own, and where others go by themselves.

    Args:
        url: Of the run.
    """
    usual = root_place()
    places = [url, usual if "://" in usual else str(Path.cwd() / usual), str(Path.cwd() / DEFAULT_ROOT)]
    return tuple(place for place in places if "://" not in place)


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
