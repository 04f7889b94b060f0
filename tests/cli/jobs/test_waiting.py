"""How a job is reported in the terminal: while it runs, and at its end."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
import typer

from barograph.cli.jobs import resubmit, wait
from barograph.cli.jobs.job_line import line_of
from barograph.cli.jobs.waiting import bar, closing_lines, follow, status_of
from barograph.errors import JobError, JobRefused, UnknownJob
from barograph.jobs.cost import Interval, bill
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog, instance_folder
from barograph.jobs.job_report import JobReport, JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Phase
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import SystemClock
from barograph.model.settings import Settings
from barograph.runs.state.claim import create_run
from barograph.runs.state.places import new_manifest
from barograph.store.urls import store_from_url


@pytest.fixture
def view(tmp_path: Path) -> JobView:
    store = store_from_url(str(tmp_path / "runs" / "digits"))
    write_submission(store, Submission("digits", JobSpec(("train.py",))))
    create_run(store, new_manifest(Settings(to=store.url), command=["train.py"], clock=SystemClock(), name="digits"))
    return JobView("digits", store)


def report(phase: Phase, **facts: object) -> JobReport:
    return JobReport("digits", "/runs/digits", phase, engine="local", instances=1, **facts)  # type: ignore[arg-type]


def test_a_running_job_shows_what_it_does_first() -> None:
    shown = status_of(report(Phase.RUNNING, doing="downloading", done_bytes=2**20, total_bytes=2**22, trained_secs=3.0))
    assert shown == [f"downloading {bar(0.25)} of 4.0 MiB", "3.0 s"]
    assert line_of(report(Phase.RUNNING, doing="training", trained_secs=14.0)) == (
        "training for 14.0 s on 1 instance (local)")


def test_the_reason_follows_the_state_without_repeating_it(view: JobView) -> None:
    stopped = report(Phase.STOPPED, reason="Stopped: requested by the user.", waited_secs=18.3)
    assert line_of(stopped) == "stopped on 1 instance (local). Requested by the user."
    assert closing_lines(stopped, view)[1:3] == [
        "barograph: job digits stopped. Requested by the user.", "  time    never started, 18.3 s waiting"]


def test_interruptions_and_costs_are_told_once(view: JobView) -> None:
    lines = closing_lines(report(
        Phase.FINISHED, trained_secs=20.0, waited_secs=2.0, interruptions=1, repeated_steps=3,
        bill=bill([Interval(0, 20, spot=True)], price=3.0, spot_price=1.0, interruptions=1, repeated_steps=3)), view)
    assert lines[1:4] == ["barograph: job digits finished.",
                          "  time    20.0 s on 1 instance, 1 interruption, 3 repeated steps",
                          "  cost    0.0056 for 20.0 s of instances; 0.017 on demand (67% saved)"]


@pytest.fixture
def failed(view: JobView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a user with a job, "digits", whose script failed and left no model."""
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    JobsHome().add(JobRecord("digits", view.store.url, 1, "local", over=True), {})
    log = EventLog(view.store, EVENTS)
    log.append("submitted")
    log.append("over", phase="failed", reason="No data.", exit_code=3, users_fault=True)
    return tmp_path


@pytest.mark.parametrize(("path", "why"), [("file", "it is a file (file)"), ("file/below", "it is a file (")])
def test_a_directory_that_cannot_have_the_model_is_refused_before_the_wait(
    path: str, why: str, failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (failed / "file").touch()
    with pytest.raises(JobError) as raised:
        wait.command("digits", model=path)
    assert str(raised.value).startswith(f"The model cannot be written to {path}: {why}")
    assert capsys.readouterr().err == ""


def test_the_exit_code_of_a_failed_job_says_so_although_it_has_no_model_to_fetch(failed: Path) -> None:
    with pytest.raises(typer.Exit) as ended:
        wait.command("digits", model="model")
    assert ended.value.exit_code == 1


def test_a_job_that_cannot_be_submitted_again_here_says_where_it_was(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (failed / "there").mkdir()
    store = store_from_url(str(failed / "runs" / "other"))
    write_submission(store, Submission("other", JobSpec(("train.py",)), directory=str(failed / "there")))
    monkeypatch.setattr("barograph.jobs.submitting.announce", lambda *_: None)
    with pytest.raises(JobRefused) as raised:
        resubmit.command(store.url)
    assert str(raised.value) == \
        f"No script at train.py.\nThe job was submitted in another directory: {failed / 'there'}"


def test_a_job_that_continues_says_how_to_wait_for_it(view: JobView) -> None:
    assert closing_lines(report(Phase.RUNNING), view)[0] == (
        "barograph: job digits continues. To wait for it:  barograph wait digits")


def test_files_that_cannot_be_listed_do_not_hide_how_the_job_ended(view: JobView) -> None:
    view.store.delete("run.json")
    lines = closing_lines(report(Phase.FINISHED, trained_secs=2.0), view)
    assert lines[1] == "barograph: job digits finished."
    assert lines[3].startswith("  files   cannot be listed: The object does not exist.")


def test_an_unknown_job_names_the_nearest_or_the_newest(tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    for number in range(30):
        home.add(JobRecord(f"job-{number:02}", "file:///x", number + 1, "local"), {})
    with pytest.raises(UnknownJob, match=r'There is no job named "jb-07". Did you mean "job-07"\?'):
        home.named("jb-07")
    with pytest.raises(UnknownJob, match=r"The newest: job-29, job-28, job-27, job-26, job-25. To list all: "):
        home.named("digits")


class Terminal(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


def followed(view: JobView, monkeypatch: pytest.MonkeyPatch, *, live: bool) -> str:
    """Return what a terminal shows of a job that fetches data, trains and ends."""
    log, agent = EventLog(view.store, EVENTS), EventLog(view.store, instance_folder(0, 0))
    log.append("submitted")
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={})
    agent.append("downloading")
    Heartbeat(view.store, 0, 0).beat(done_bytes=2**20, total_bytes=2**22)
    looks = iter([
        lambda: agent.append("training"),
        lambda: log.append("over", phase="finished", reason="", exit_code=0),
    ])
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    monkeypatch.setattr("barograph.cli.jobs.waiting.ensure_controller", lambda home: False)
    assert follow(view, live=live, wait=lambda secs: next(looks)()).phase is Phase.FINISHED
    return terminal.getvalue()


def test_the_live_view_shows_the_data_then_the_training_and_is_removed_at_the_end(
    view: JobView, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = followed(view, monkeypatch, live=True)
    bars, lines = shown.split("\x1b[7m")[1:], shown.splitlines()
    assert [text.partition("\x1b[0m")[0].split(" · ")[0].strip() for text in bars] == [
        "barograph  downloading [###---------] 25% of 4.0 MiB", "barograph  training", "barograph  finished"]
    assert all(len(text.partition("\x1b[0m")[0]) <= 79 for text in bars)
    assert "barograph: job digits finished." in lines


def test_without_a_live_view_only_the_result_is_shown(view: JobView, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = followed(view, monkeypatch, live=False)
    assert "\x1b" not in shown
    assert "barograph: job digits finished." in shown
