"""Two jobs of one name: the second one is refused and changes nothing of the first."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import JobRefused
from barograph.jobs.home import JobRecord, JobsHome
from barograph.machine.host_lock import HostLock


def record(url: str) -> JobRecord:
    return JobRecord("digits", url, 1, "local")


def test_a_second_job_does_not_replace_the_secrets_of_the_first(tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    home.add(record("memory://first"), {"TOKEN": "first"})
    with pytest.raises(JobRefused, match='There is a job named "digits" already'):
        home.add(record("memory://second"), {"TOKEN": "second"})
    assert home.environment("digits") == {"TOKEN": "first"}
    assert [job.url for job in home.all()] == ["memory://first"]


def test_of_jobs_that_are_entered_at_the_same_moment_one_is(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(16)]
    together, entered = threading.Barrier(len(names)), list[str]()

    def enter(name: str) -> None:
        home = JobsHome(tmp_path)
        together.wait()
        try:
            home.add(record(f"memory://{name}"), {"TOKEN": name})
        except JobRefused:
            return
        entered.append(name)

    threads = [threading.Thread(target=enter, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    home = JobsHome(tmp_path)
    assert len(entered) == 1
    assert (home.environment("digits"), home.all()[0].url) == ({"TOKEN": entered[0]}, f"memory://{entered[0]}")
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["digits.json"]


def test_a_job_that_is_entered_later_has_a_later_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    JobsHome(tmp_path).write_note("note.json", {})  # makes the directory
    waits, written = threading.Event(), list[str]()
    take, write = HostLock.take, JobsHome._write

    def taken(lock: HostLock) -> bool:
        if not (is_taken := take(lock)):
            waits.set()
        return is_taken

    def slowly(home: JobsHome, folder: str, name: str, *rest: Any, **options: Any) -> None:
        if (folder, name) == ("secrets", "slow"):
            quick.start()
            assert waits.wait(10.0), "the other one does not wait"
        write(home, folder, name, *rest, **options)
        if folder == "jobs":
            written.append(name)

    def enter(name: str) -> None:
        JobsHome(tmp_path).add(JobRecord(name, f"memory://{name}", 0, "local"), {})

    monkeypatch.setattr(HostLock, "take", taken)
    monkeypatch.setattr(JobsHome, "_write", slowly)
    quick = threading.Thread(target=enter, args=("quick",))
    enter("slow")
    quick.join()

    assert [job.name for job in JobsHome(tmp_path).all()] == written == ["slow", "quick"]
