"""A wrong place is named, with the one that was meant; the same for every command that takes a run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.home import JobRecord, JobsHome
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome

Call = Callable[..., Any]

COMMANDS = ("watch", "show", "keys", "doctor")


def refused(said: Any) -> str:
    """Return the one line that says why."""
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("barograph: ")
    assert said.err.count("\n") == 1
    return str(said.err.removeprefix("barograph: ").rstrip())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(call: Call, copy: Path, command: str) -> None:
    wrong = copy.parent / "coyp"

    assert refused(call(command, wrong)) == f"No run at {wrong}: no such directory. Did you mean {copy}?"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_study_is_called_a_study(
    call: Call, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    place = tmp_path / "studies" / "digits"
    Study.create(place, {"x": [1, 2]}, strategy="grid")
    StudyHome(JobsHome()).add("digits", str(place))
    for typed in ("digits", place):
        assert refused(call(command, typed)) == (
            f"{typed} is a study, not a run. To show it:  barograph tune show {typed}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_above_runs_names_them(call: Call, copy: Path, command: str) -> None:
    assert refused(call(command, copy.parent)) == (
        f"{copy.parent} is not a run, but a run is below it: {copy.parent}/copy."
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_a_run_leads_to_the_run(call: Call, copy: Path, command: str) -> None:
    assert refused(call(command, copy / "run.json")) == f"{copy}/run.json is a file; it is part of the run {copy}."
    assert refused(call(command, copy / "records")) == f"{copy}/records is not a run but part of the run {copy}."


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_somebody_else_is_called_a_file(call: Call, tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    assert refused(call(command, tmp_path / "notes.txt")) == f"{tmp_path}/notes.txt is a file; a run is a directory."


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_directory_is_called_empty(call: Call, tmp_path: Path, command: str) -> None:
    assert refused(call(command, tmp_path)) == f"No run at {tmp_path}: the directory is empty."


def test_a_directory_of_other_things_is_no_run(call: Call, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    assert refused(call("show", tmp_path)) == f"Not a run: there is no run.json ({tmp_path})."


def test_other_runs_there_are_listed_where_no_name_is_near(call: Call, copy: Path, tmp_path: Path) -> None:
    assert refused(call("show", tmp_path / "xyz")).endswith(f"Runs in {tmp_path}: copy.")


def test_the_newest_run_of_the_default_place_is_named_where_there_is_one(
    call: Call, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "barograph-runs").mkdir()
    copy.rename(tmp_path / "barograph-runs" / "20260101-train")
    monkeypatch.chdir(tmp_path)

    assert refused(call("show", "xyz")).endswith("The newest run is barograph-runs/20260101-train.")
    assert refused(call("show", "20260101-trian")).endswith("Did you mean barograph-runs/20260101-train?")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("ftp://host/run", '"ftp://" is not supported. Write a directory, or s3://, gs://, az:// or memory://.'),
        ("s3://", '"s3://" has no bucket. Write s3://BUCKET/PREFIX.'),
        ("", "The location of the run is empty. Write a directory or a URL like s3://bucket/prefix."),
    ],
)
def test_what_is_no_place_is_refused(call: Call, place: str, message: str) -> None:
    assert refused(call("keys", place)) == message


def test_a_name_that_no_disk_can_hold_is_refused(call: Call, tmp_path: Path) -> None:
    assert "too long" in refused(call("show", tmp_path / ("x" * 300)))


@pytest.mark.parametrize("command", ["watch", "runs", "show", "keys", "doctor"])
def test_a_run_in_the_memory_of_another_process_is_refused(bin_folder: Path, command: str) -> None:
    done = subprocess.run(
        [bin_folder / "barograph", command, "memory://mine"], capture_output=True, text=True, timeout=600, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "barograph: memory://mine is in the memory of another process. "
        "To read a run from here, record it to a directory or a bucket.\n"
    )


def test_a_damaged_first_paper_is_named_with_what_to_do(call: Call, copy: Path) -> None:
    (copy / "run.json").write_text("{}")

    assert refused(call("show", copy)) == (
        "The metadata file is damaged: its checksum does not match (run.json). To check the rest: "
        f"barograph doctor {copy}"
    )


def test_a_bucket_that_is_not_there_is_named(call: Call, s3_environment: str) -> None:
    assert "no-such-bucket" in refused(call("show", "s3://no-such-bucket/run"))


def test_a_prefix_above_runs_in_a_bucket_names_them(call: Call, s3_url: str, copy: Path) -> None:
    from barograph.store.urls import store_from_url

    store_from_url(f"{s3_url}/mine").put("run.json", (copy / "run.json").read_bytes())

    assert refused(call("show", s3_url)) == f"{s3_url} is not a run, but a run is below it: {s3_url}/mine."


@pytest.mark.parametrize("command", ["show", "doctor"])
def test_the_run_of_a_job_is_found_by_the_name_of_the_job_from_any_directory(
    call: Call, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str,
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    JobsHome().add(JobRecord("digits", copy.as_uri(), 1, "local"), {})
    monkeypatch.chdir(tmp_path / "home")

    for name in ("digits", "dig", "gits"):
        assert str(copy) in call(command, name).out
