"""What cannot be resumed is said, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli.resume_page import resume
from barograph.errors import BarographError, NotARun, ResumeFailed, SettingsError
from barograph.model.clock import ManualClock
from barograph.model.settings import Settings
from barograph.runs.claim import attempts_of, claim_run
from barograph.runs.places import new_manifest
from barograph.store.urls import store_from_url


@pytest.mark.parametrize(("place", "command", "error", "says"), [
    ("nowhere", ["python"], NotARun, "nowhere"),
    ("run", ["other.py"], SettingsError, "There is no script to run at other.py"),
    ("run", [], SettingsError, "There is no script to run at train.py"),
    ("run", ["python"], ResumeFailed, "holds no checkpoint that a training can go on from"),
])
def test_what_cannot_be_resumed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, command: list[str], error: type[BarographError],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_from_url("run")
    clock = ManualClock()
    claim_run(store, new_manifest(Settings(to=store.url), command=("train.py",), clock=clock), clock=clock)

    with pytest.raises(error, match=says):
        resume(place, command, inexact=False, own=False, live=False, as_json=False)

    assert attempts_of(store) == [0]
