"""Where runs are, for those who do not say it themselves."""

from __future__ import annotations

import os

from barograph.runs.places import DEFAULT_ROOT

ROOT_VARIABLE = "BAROGRAPH_ROOT"
"""Environment variable that says where runs are, for those who do not say it themselves."""


def root_place(root: str | os.PathLike[str] | None = None) -> str:
    """Return the directory or URL of a root of runs; None: what `BAROGRAPH_ROOT` says, else `barograph-runs/`."""
    return os.fspath(root) if root is not None else os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT
