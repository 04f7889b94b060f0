"""Output of `barograph submit`."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from barograph.cli.jobs.submit_page import submit_typed, tell_submitted
from barograph.cli.main import application
from barograph.errors import SettingsError
from barograph.jobs import code
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import Submitted
from barograph.store.urls import store_from_url


def typed(*words: str) -> dict[str, object]:
    command = typer.main.get_command(application())
    with command.make_context("barograph", ["submit", *words]) as root:
        found = command.get_command(root, "submit")
        return dict(found.make_context("submit", list(words)).params)


def test_what_is_left_out_of_the_code_is_told_once_the_job_is_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_from_url(str(tmp_path / "job"))
    write_submission(store, Submission("digits", JobSpec(("train.py",))))
    notes = tuple(f'"{name}.csv": 101 bytes, more than 100.' for name in "abcde")
    tell_submitted(Submitted("digits", store, notes), wait=False, as_json=False)
    printed = capsys.readouterr()
    assert printed.out == "digits\n"
    assert printed.err.splitlines() == [*(f"barograph: note: {note}" for note in notes[:3]),
                                        "barograph: 2 more notes: barograph submit --dry-run"]


def test_a_dry_run_tells_what_would_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(code, "LOOSE_FILE_BYTES", 100)
    Path("train.py").write_text("print(1)\n")
    Path("big.csv").write_text("x" * 101)
    submit_typed(typed("--dry-run", "train.py"))
    assert 'note: "big.csv": 101 bytes, more than 100. Pass data with --data.\n' in capsys.readouterr().out


def test_a_dry_run_with_a_secret_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    with pytest.raises(typer.Exit):
        submit_typed(typed("--dry-run", "train.py", "--token", "abc123"))
    printed = capsys.readouterr()
    assert "abc123" not in printed.out + printed.err
    assert "problem: --token has a secret" in printed.out.replace("\n", " ")


def test_an_option_behind_the_job_file_is_told_its_place(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text('command = ["train.py"]\n')
    with pytest.raises(SettingsError, match="must be NAME=VALUE, and options come before the job file and its changes"):
        submit_typed(typed(str(tmp_path / "job.toml"), "--dry-run"))
