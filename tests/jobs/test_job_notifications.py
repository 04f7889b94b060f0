"""Findings of a job reach the receivers and the file that were typed; receivers never reach the store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barograph.jobs import submitting
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import read_submission
from barograph.jobs.submitting import plan_of, submit
from barograph.model.settings import settings_from_mapping
from barograph.watch.watch_command import NOTIFY_VARIABLE, watch_command

RECEIVER = "command:/bin/tell-ops"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobsHome:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(submitting, "ensure_controller", lambda home: False)
    (tmp_path / "train.py").write_text("")
    return JobsHome(tmp_path / "home")


def test_receivers_are_kept_with_the_environment_and_not_with_the_run(home: JobsHome, tmp_path: Path) -> None:
    spec = JobSpec(("train.py",), settings={"notify": [{"to": RECEIVER}], "findings_to": "found.jsonl"})
    done = submit(spec, to=str(tmp_path / "run"), home=home)
    assert json.loads(home.environment(done.name)[NOTIFY_VARIABLE])[0]["to"] == RECEIVER
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and b"tell-ops" in path.read_bytes()]
    assert json.loads(read_submission(done.store).launch)["settings"]["findings_to"] == str(tmp_path / "found.jsonl")


def test_a_watcher_gets_rules_and_files_as_arguments_and_receivers_through_the_environment() -> None:
    settings = settings_from_mapping({"rules": ["A101", "mine.py:Mine"], "findings_to": "/found.jsonl",
                                      "notify": [{"to": RECEIVER}]})
    command = watch_command("file:///run", settings)
    assert command.arguments[-6:] == ("file:///run", "--brief", "--rules", "A101,mine.py:Mine", "--findings-to",
                                      "/found.jsonl")
    assert command.environment is not None
    assert RECEIVER in command.environment[NOTIFY_VARIABLE]


def test_a_dry_run_names_rules_that_do_not_exist_together_with_the_other_problems(home: JobsHome) -> None:
    plan = plan_of(JobSpec(("trian.py",), settings={"rules": ["A999"]}, data={"train": "ftp://host/x"}), home)
    assert len(plan.problems) == 3
    assert plan.problems[0] == "No script at trian.py."
    assert plan.problems[1].startswith('Channel train is at "ftp://"')
    assert "A999" in plan.problems[2]
