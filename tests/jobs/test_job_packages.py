"""Versions of packages that all attempts and a second submission share, and the cache of environments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.jobs.environment_cache import hold, prune
from barograph.jobs.job_packages import copy_pins, known_pins, write_pins
from barograph.jobs.requirements import Requirements, requirements_of
from barograph.store.urls import store_from_url

DAY = 86400.0


def found(folder: Path) -> Requirements:
    known = requirements_of(folder)
    assert known is not None
    return known


def test_the_versions_that_came_first_stay(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("alpha\n")
    store = store_from_url(str(tmp_path / "job"))
    assert known_pins(store, found(tmp_path), tmp_path) is None
    write_pins(store, found(tmp_path), tmp_path, "alpha==1.0")
    write_pins(store, found(tmp_path), tmp_path, "alpha==2.0")
    assert known_pins(store, found(tmp_path), tmp_path) == "alpha==1.0"


def test_another_job_has_them_until_its_requirements_change(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("alpha\n")
    first, second = (store_from_url(str(tmp_path / name)) for name in ("first", "second"))
    copy_pins(first, second)
    write_pins(first, found(tmp_path), tmp_path, "alpha==1.0")
    copy_pins(first, second)
    assert known_pins(second, found(tmp_path), tmp_path) == "alpha==1.0"
    (tmp_path / "requirements.txt").write_text("alpha\nbeta\n")
    assert known_pins(second, found(tmp_path), tmp_path) is None


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Environments of 1, 2 and 3 MB, used on days 1, 2 and 3."""
    for number in (1, 2, 3):
        place = tmp_path / f"env{number}"
        place.mkdir()
        (place / "pyvenv.cfg").write_text("")
        (place / "barograph-size.txt").write_text(f"{number}000000")
        (place / "barograph-used").write_text("")
        os.utime(place / "barograph-used", (number * DAY, number * DAY))
    return tmp_path


def test_the_longest_unused_environments_are_deleted(cache: Path) -> None:
    assert prune(cache, most_bytes=10_000_000, now_unix=3 * DAY) == []
    assert prune(cache, most_bytes=5_000_000, now_unix=3 * DAY) == ["env1"]
    assert sorted(path.name for path in cache.iterdir()) == ["env2", "env3"]


def test_environments_that_no_job_used_for_long_are_deleted(cache: Path) -> None:
    assert prune(cache, most_secs=1.5 * DAY, now_unix=4 * DAY) == ["env2", "env1"]


def test_an_environment_in_use_stays(cache: Path) -> None:
    code = ("import sys; from pathlib import Path; from barograph.jobs.environment_cache import hold; "
            "print(hold(Path(sys.argv[1])), flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code, cache / "env1"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "True\n"
        assert prune(cache, most_bytes=0, now_unix=3 * DAY) == ["env3", "env2"]
    assert prune(cache, most_bytes=0, now_unix=3 * DAY) == ["env1"]


def test_using_an_environment_makes_it_the_last_to_go(cache: Path) -> None:
    place = cache / "env1"
    code = ("import sys; from pathlib import Path; from barograph.jobs.environment_cache import hold; "
            "hold(Path(sys.argv[1]))")
    subprocess.run([sys.executable, "-c", code, place], check=True)
    assert prune(cache, most_bytes=4_000_000, most_secs=1e12) == ["env2"]


def test_an_environment_that_is_gone_is_not_held(cache: Path) -> None:
    assert not hold(cache / "none")


def test_what_a_killed_process_was_deleting_is_deleted(cache: Path) -> None:
    (cache / ".abc.gone").mkdir()
    prune(cache)
    assert not (cache / ".abc.gone").exists()


def test_the_size_of_an_environment_is_measured_once(tmp_path: Path) -> None:
    place = tmp_path / "env"
    place.mkdir()
    (place / "pyvenv.cfg").write_text("")
    (place / "big").write_bytes(b"x" * 1_000_000)
    assert prune(tmp_path, most_bytes=10_000_000) == []
    assert int((place / "barograph-size.txt").read_text()) >= 1_000_000
