"""What cannot be resumed is said, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli.record import resume_page
from barograph.cli.record.resume_page import resume
from barograph.errors import BarographError, NotARun, ResumeFailed, RunFinished, SettingsError
from barograph.model.clock import ManualClock
from barograph.model.settings import Settings
from barograph.runs.state.checkpoints import Checkpoint, write_checkpoint
from barograph.runs.state.claim import attempts_of, claim_run
from barograph.runs.state.places import new_manifest
from barograph.store.urls import store_from_url


@pytest.mark.parametrize(("place", "command", "error", "says"), [
    ("nowhere", ["python"], NotARun, "nowhere"),
    ("run", ["other.py"], SettingsError, "No script at other.py"),
    ("run", [], SettingsError, "No script at train.py"),
    ("run", ["python"], ResumeFailed, "has no checkpoint to resume from"),
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
        resume(place, command, inexact=False, own=False, trusts=False, live=False, as_json=False)

    assert attempts_of(store) == [0]


def test_of_a_run_that_has_ended_nobody_says_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = Checkpoint("checkpoints/0000-00000007-pid1.json", 0, 7, {}, {})
    monkeypatch.setattr(resume_page, "last_good", lambda store: (found, ["A newer one is damaged."]))

    def ended(*_: object, **__: object) -> None:
        raise RunFinished("The run has ended.")

    monkeypatch.setattr(resume_page, "claim_run", ended)
    clock = ManualClock()
    store = store_from_url("run")
    claim_run(store, new_manifest(Settings(to=store.url), command=("train.py",), clock=clock), clock=clock)
    with pytest.raises(RunFinished, match=r"nothing to resume\. Start a longer training as a new run"):
        resume("run", ["python"], inexact=False, own=False, trusts=False, live=False, as_json=False)
    assert capsys.readouterr().err == ""


def test_why_nothing_goes_on_from_the_newest_checkpoint_is_told_where_there_is_no_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_from_url("run")
    clock = ManualClock()
    claim_run(store, new_manifest(Settings(to=store.url), command=("train.py",), clock=clock), clock=clock)
    write_checkpoint(store, attempt=0, steps=20, who="pid1", content={"place": {"why_not": "of the moon"}}, tensors={})

    with pytest.raises(ResumeFailed, match=r"is skipped: of the moon\. All checkpoints: barograph checkpoints run"):
        resume("run", ["python"], inexact=False, own=False, trusts=False, live=False, as_json=True)
