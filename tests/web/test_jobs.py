"""Jobs in the page: the queue, what happened to each, and its output while it runs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_history import MOST_CHARS
from barograph.jobs.job_log import EVENTS, EventLog, log_folder
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome
from diary import Diary
from web_client import Client, recorded


class Queue:
    """Jobs below the served root."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock, self.number = root, ManualClock(unix=1_795_000_000.0), 0

    def add(self, name: str, *events: tuple[str, dict[str, Any]], **spec: Any) -> Any:
        store = store_from_url(str(self.root / name))
        write_submission(store, Submission(name, JobSpec(("train.py",), **{"instances": 2, **spec})))
        log = EventLog(store, EVENTS, clock=self.clock.unix)
        log.append("submitted")
        for kind, data in events:
            self.clock.advance(60)
            log.append(kind, **data)
        self.number += 1
        JobsHome().add(JobRecord(name, store.url, self.number, "local"), {})
        return store


RUNNING = (("starting", {"attempt": 0}), ("started", {"index": 0, "handle": {}}),
           ("started", {"index": 1, "handle": {}}))


@pytest.fixture
def queue(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    return Queue(root)


def test_jobs_have_their_place_in_the_queue_and_the_link_to_their_run(client: Client, queue: Queue) -> None:
    queue.add("digits", *RUNNING)
    queue.add("wide")
    queue.add("deep", ("waiting", {"reason": "2 CPUs are free; it needs 8."}))
    (queue.root.parent / "home" / "jobs" / "odd.json").write_text("{")

    jobs = {job["name"]: job for job in client.get("/api/jobs").json["jobs"]}

    assert {name: (job["queue"], job["run"]) for name, job in jobs.items()} == {
        "odd": (None, None), "digits": (None, "0/digits"), "wide": (1, None), "deep": (2, None)}
    assert "is damaged" in jobs["odd"]["reason"]
    assert jobs["deep"]["reason"] == "2 CPUs are free; it needs 8."


def test_the_cost_of_a_job_is_in_the_words_of_the_terminal(client: Client, queue: Queue) -> None:
    ended = tuple(("ended", {"index": index, "outcome": "finished", "exit_code": 0}) for index in (0, 1))
    queue.add("priced", *RUNNING, *ended, spot=True, price=1.0, spot_price=0.3)
    queue.add("free", *RUNNING, *ended)

    jobs = {job["name"]: job["cost"] for job in client.get("/api/jobs").json["jobs"]}

    assert jobs == {"priced": "0.02 for 4 min 0 s of instances; 0.067 on demand (70% saved)", "free": ""}


def test_a_job_that_ended_has_all_steps_of_its_run(client: Client, queue: Queue) -> None:
    diary = recorded(queue.root / "digits", [3.0, 2.0, 1.0])
    queue.add("digits", *RUNNING, ("over", {"phase": "finished", "reason": "", "exit_code": 0}))
    for beat in list(diary.store.list("heartbeats")):
        diary.store.delete(beat.name)  # workers beat every few seconds, and not once more at their end

    assert [job["step"] for job in client.get("/api/jobs").json["jobs"]] == [3]


def test_the_jobs_of_a_study_are_one_row_that_opens_to_them(client: Client, queue: Queue) -> None:
    study = Study.create(queue.root / "studies" / "digits", {"lr": (0.0, 1.0)}, minimize="loss", trials=2)
    StudyHome(JobsHome()).add("digits", f"file://{queue.root}/studies/digits")
    for number, loss in enumerate((0.5, 0.25)):
        queue.add(f"digits-{number:03d}")
        study.tell(study.ask(), loss)
    for other in ("digits", "wide-001", "digits-001-refit"):
        queue.add(other)

    found = client.get("/api/jobs").json
    (row,) = found["studies"]
    trials = client.get(f"/api/jobs?study={row['key']}").json

    assert [job["name"] for job in found["jobs"]] == ["wide-001", "digits"]
    assert (row["key"], row["trials"], row["finished"], row["best"]) == ("0/studies/digits", 2, 2, 0.25)
    assert [job["name"] for job in trials["jobs"]] == ["digits-001-refit", "digits-001", "digits-000"]
    assert {job["name"]: job["queue"] for job in (*found["jobs"], *trials["jobs"])} == {
        "digits-000": 1, "digits-001": 2, "digits": 3, "wide-001": 4, "digits-001-refit": 5}


def test_a_job_of_the_address_is_shown_however_old_it_is(
    client: Client, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.web.jobs._MOST_JOBS", 1)
    for name in ("oldest", "old", "new"):
        queue.add(name)

    found = client.get("/api/jobs?name=oldest").json

    assert ([job["name"] for job in found["jobs"]], found["left_out"]) == (["new", "oldest"], 1)
    assert [job["queue"] for job in found["jobs"]] == [3, 1]


def test_a_job_whose_files_are_gone_has_no_place_in_the_queue(client: Client, queue: Queue) -> None:
    for name in ("gone", "next"):
        queue.add(name)
    shutil.rmtree(queue.root / "gone")

    jobs = client.get("/api/jobs").json["jobs"]

    assert [(job["name"], job["queue"]) for job in jobs] == [("next", 1), ("gone", None)]


def test_a_loss_that_is_nan_is_no_missing_loss(client: Client, queue: Queue) -> None:
    diary = Diary("broken", store_from_url(str(queue.root / "broken")))
    diary.beat = replace(diary.beat, loss=nan, coverage=replace(diary.beat.coverage, loss_seen=True))
    diary.step(0, {"loss:total": nan})
    diary.ended()
    for name in ("broken", "new"):
        queue.add(name, *RUNNING)

    assert {job["name"]: job["loss"] for job in client.get("/api/jobs").json["jobs"]} == {"broken": "NaN", "new": None}


def test_what_happened_to_a_job_is_told_in_order(client: Client, queue: Queue) -> None:
    queue.add("digits", *RUNNING, ("notice", {"reason": "spot capacity"}),
              ("ended", {"index": 1, "outcome": "interrupted", "reason": "Taken away.", "exit_code": None}),
              ("requeued", {"cause": "interrupted", "reason": "An instance was taken away."}),
              ("starting", {"attempt": 1}), ("resumed", {"index": 0, "steps": 40, "repeated": 3}),
              ("over", {"phase": "failed", "reason": "The script failed.", "exit_code": 1}))

    job = client.get("/api/job?name=digits").json

    assert [(moment["text"], moment["attempt"]) for moment in job["history"]] == [
        ("Submitted.", -1), ("Attempt 1 starts.", 0), ("algo-1 started.", 0), ("algo-2 started.", 0),
        ("Notice of interruption: spot capacity", 0), ("algo-2 interrupted. Taken away.", 0),
        ("Queued again: An instance was taken away.", 0), ("Attempt 2 starts.", 1),
        ("algo-1 resumed after 40 steps; repeats 3.", 1), ("Failed. The script failed.", 1)]
    assert (job["interruptions"], job["is_over"]) == (1, True)


def test_a_stopped_job_is_called_so_once(client: Client, queue: Queue) -> None:
    queue.add("digits", ("over", {"phase": "stopped", "reason": "Stopped: not needed.", "exit_code": None}))

    assert client.get("/api/job?name=digits").json["history"][-1]["text"] == "Stopped: not needed."


def test_output_grows_while_the_job_runs_and_keeps_its_end(client: Client, queue: Queue) -> None:
    store = queue.add("digits", *RUNNING)
    store.put(f"{log_folder(0, 0)}/00000000.log", b"epoch 1\n")
    first = client.get("/api/job-output?name=digits").json
    store.put(f"{log_folder(0, 0)}/00000001.log", b"epoch 2\n")

    assert first["instances"][0] == {"instance": "algo-1", "text": "epoch 1\n", "left_out": False}
    assert first["instances"][1]["text"] == ""
    assert client.get("/api/job-output?name=digits").json["instances"][0]["text"] == "epoch 1\nepoch 2\n"
    store.put(f"{log_folder(0, 0)}/00000002.log", b"x" * MOST_CHARS + b"end")
    last = client.get("/api/job-output?name=digits&attempt=0").json["instances"][0]
    assert (len(last["text"]), last["text"][-3:], last["left_out"]) == (MOST_CHARS, "end", True)


@pytest.mark.parametrize("name", ["other", "../digits", "/etc", "s3://bucket/job", ""])
def test_no_name_opens_what_is_no_job_of_this_user(client: Client, queue: Queue, name: str) -> None:
    queue.add("digits")
    for question in ("job", "job-output"):
        answer = client.get(f"/api/{question}?name={name}")
        assert (answer.status, answer.json["type"]) == (404, "UnknownJob")
