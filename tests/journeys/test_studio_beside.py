"""A training that prints the link to its page: real processes, and a page that answers after the training."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = '''
from barograph.tracking import load_run

load_run().log_metric("loss", 1.0, step=0)
print("trained")
'''
ATTACHED = '''
import barograph

with barograph.attach(to="runs/attached", watch=False, origin=False, studio=True) as run:
    run.log({"loss": 1.0})
'''


@pytest.fixture
def home(desk: Any, tmp_path: Path) -> Iterator[Path]:
    """Directory of notes about studios; those that it names end with the test."""
    home = tmp_path / "home"
    desk.environment |= {"BAROGRAPH_HOME": str(home), "BAROGRAPH_ROOT": str(desk.folder / "runs")}
    yield home
    for note in (home / "studios").glob("*.json"):
        os.kill(int(note.stem), signal.SIGTERM)


def get(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        return bytes(answer.read())


def test_the_link_is_printed_once_and_the_page_answers_after_the_training(desk: Any, home: Path) -> None:
    desk.write("train.py", SCRIPT)
    desk.write("attached.py", ATTACHED)
    # The studio holds neither stream: these end with the training.
    first = desk.run("--studio", "--no-live", "train.py", to="runs/first")
    note = desk.wait_until(lambda: next(iter((home / "studios").glob("*.json")), None), "the studio answers")
    url = json.loads(note.read_bytes())["url"]
    second = desk.run("--studio", "--no-live", "train.py", to="runs/second")
    third = desk.python("attached.py")

    assert (first.code, second.code, third.code) == (0, 0, 0)
    assert (first.text, second.text) == ("trained\n", "trained\n")
    links = [re.findall(r"barograph: studio at (\S+)", ended.err) for ended in (first, second, third)]
    assert links == [[f"{url}#/run/0/{name}"] for name in ("first", "second", "attached")]
    assert len(list((home / "studios").glob("*.json"))) == 1
    for name in ("first", "second", "attached"):
        assert b'"run_id"' in get(f"{url}api/run?run=0/{name}")


def test_without_the_option_no_studio_starts(desk: Any, home: Path) -> None:
    desk.write("train.py", SCRIPT)
    plain = desk.run("train.py", to="runs/plain")
    both = desk.run("--studio", "--json", "train.py", to="runs/both")

    assert (plain.code, "studio" in plain.err, home.exists()) == (0, False, False)
    assert (both.code, "--studio and --json cannot be combined" in both.err) == (2, True)
