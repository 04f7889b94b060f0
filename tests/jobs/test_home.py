"""The directory of a user's jobs stays fast with thousands of them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from barograph.errors import DamagedChunk, UnknownJob
from barograph.jobs import home as module
from barograph.jobs.home import JobRecord, JobsHome

OVER = JobRecord("over", "memory://over", 1, "local", over=True)
OPEN = JobRecord("open", "memory://open", 2, "local")


@pytest.fixture
def home(tmp_path: Path) -> JobsHome:
    made = JobsHome(tmp_path)
    for record in (OVER, OPEN):
        made.add(record, {})
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read."""
    names: list[str] = []
    real = module._record

    def noted(path: Path) -> object:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(module, "_record", noted)
    return names


def test_a_job_is_found_by_its_name_without_reading_the_others(home: JobsHome, read: list[str]) -> None:
    assert home.named("open") == OPEN
    assert read == ["open.json"]


def test_a_part_of_a_name_is_searched_in_all(home: JobsHome) -> None:
    assert home.named("ov") == OVER


@pytest.mark.parametrize("name", ["../jobs/open", "", ".", "x" * 5000, "a\0b"])
def test_what_is_no_name_of_a_job_is_unknown(home: JobsHome, name: str) -> None:
    with pytest.raises(UnknownJob):
        home.named(name)


def test_a_damaged_job_is_named_as_damaged(home: JobsHome) -> None:
    (home.path / "jobs" / "open.json").write_text("{")
    with pytest.raises(DamagedChunk, match="it is not JSON"):
        home.named("open")


def test_jobs_that_have_ended_are_read_once(home: JobsHome, read: list[str]) -> None:
    home.all()
    path = home.path / "jobs" / "over.json"
    os.utime(path, ns=(0, 0))  # seen by who looks at the file
    assert home.all() == [OVER, OPEN]
    assert sorted(read) == ["open.json", "over.json"]


def test_a_job_that_ends_and_one_of_the_same_name_after_it_are_seen(home: JobsHome) -> None:
    home.all()
    home.close(OPEN)
    assert [record.over for record in home.all()] == [True, True]
    (home.path / "jobs" / "over.json").unlink()
    home.add(replace(OVER, number=3, over=False), {})
    assert [record.name for record in home.all()] == ["open", "over"]
    assert not json.loads((home.path / "jobs" / "over.json").read_bytes())["over"]
    assert asdict(home.all()[1])["number"] == 3
