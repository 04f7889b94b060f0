"""Default locations of runs, and their manifests."""

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
"""Default folder of runs, in the working directory."""
ROOT_VARIABLE = "BAROGRAPH_ROOT"
"""Environment variable with the default root of runs."""

_MOST_STEM_CHARS = 50


def root_place(root: str | os.PathLike[str] | None = None) -> str:
    """Return the directory or URL of a root of runs; None: `BAROGRAPH_ROOT`, else `barograph-runs/`."""
    return os.fspath(root) if root is not None else os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT


def new_place(program: str, *, root: str | None = None) -> str:
    """Return a new location that sorts by time and contains the name of the program.

    Args:
        program: Path or name of the program; only its stem is used.
        root: Parent folder or URL; None: as in `root_place`.

    Example:
        >>> import re
        >>> bool(re.fullmatch(r"runs/\\d{8}-\\d{6}-train-[0-9a-f]{4}", new_place("examples/train.py", root="runs")))
        True
    """
    above, stem = root_place(root).rstrip("/"), _stem(Path(program).stem)
    return f"{above}/{time.strftime('%Y%m%d-%H%M%S')}-{stem}-{os.urandom(2).hex()}"


def named_place(name: str, *, root: str) -> str:
    """Return the location of a named run, the same in every process.

    Example:
        >>> named_place("wide net", root="runs")
        'runs/wide-net-07bc7cb3'
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{root.rstrip('/')}/{_stem(name)}-{digest}"


def _stem(name: str) -> str:
    # A folder name has at most 255 bytes, and a character up to four.
    return re.sub(r"[^\w.-]+", "-", name)[:_MOST_STEM_CHARS].strip("-.") or "run"


def away_from(url: str) -> tuple[str, ...]:
    """Return the folders of runs near a run, which contain no code: its own, and the default root.

    Args:
        url: URL of the run.
    """
    usual = root_place()
    places = [url, usual if "://" in usual else str(Path.cwd() / usual), str(Path.cwd() / DEFAULT_ROOT)]
    return tuple(place for place in places if "://" not in place)


def new_manifest(settings: Settings, *, command: tuple[str, ...], clock: Clock, name: str = "") -> Manifest:
    """Return the manifest of a run that starts now.

    Args:
        settings: Settings; the last part of `to` is the default name of the run.
        command: Command as typed.
        clock: Clock.
        name: Name for people; "": the last part of its location.
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
