"""A directory of smdebug's to be spoilt, and a place for the run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from smdebug_data import SAVED


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A copy of what `tests/data/make_smdebug.py` made: two workers, three steps, two modes."""
    return Path(shutil.copytree(SAVED, tmp_path / "saved"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where the run is to be."""
    return tmp_path / "run"
