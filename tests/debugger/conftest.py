"""Trials of what smdebug has saved, of what our hook has, and of what Barograph recorded by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barograph.smdebug import Trial, create_trial
from smdebug_data import SAVED


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A copy of what `tests/data/make_smdebug.py` made: two workers, three steps, two modes."""
    return Path(shutil.copytree(SAVED, tmp_path / "saved"))


@pytest.fixture
def trial(saved: Path, tmp_path: Path) -> Trial:
    """It, opened."""
    return create_trial(saved, cache=tmp_path / "cache")
