"""The store of a run is full, read-only, unreachable or in use, or the clock jumps."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.errors import RunError, StoreError
from barograph.runs.reading.doctor import examine
from forking import TORCH
from s3_server import s3_server

FORKED = TORCH

# Trains until it is told to end, and says how long its longest step took.
OBEDIENT = '''
import sys, threading, time
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
steps, longest = 0, 0.0
begin = time.perf_counter()
while not told.wait(0.01):
    train_step()
    steps += 1
    now = time.perf_counter()
    longest, begin = (max(longest, now - begin) if steps > 5 else 0.0), now
print("trained", steps, "longest", longest, flush=True)
'''
LONGEST_STEP_SECS = 20.0
"""A step takes some milliseconds, a request to a store that hangs a minute; in between lies the noise of a busy
machine."""
SHORT = "close_timeout_secs = 1.0\n"


def steps_of(place: str | Path) -> list[int]:
    try:
        steps: list[int] = barograph.open(place).steps().tolist()
    except (RunError, StoreError):
        return []
    return steps


def start(desk: Any, place: str | Path, settings: str = SHORT) -> Any:
    desk.script(OBEDIENT)
    desk.write("barograph.toml", settings)
    return desk.start("barograph", "run", "--to", place, "--budget", "off", "train.py", stdin=subprocess.PIPE)


def trained(ended: Any) -> int:
    assert ended.code == 0, ended.err
    found = re.fullmatch(r"trained (\d+) longest ([\d.e-]+)\n", ended.text)
    assert found is not None
    assert float(found.group(2)) < LONGEST_STEP_SECS
    return int(found.group(1))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=768k", "tmpfs", str(place)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root on Linux only")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_ends_no_training_and_dropped_steps_are_reported(desk: Any, disk: Path) -> None:
    process = start(desk, disk / "run")
    desk.wait_until(lambda: len(steps_of(disk / "run")) > 20, "20 steps are published")
    with open(disk / "ballast", "wb", buffering=0) as ballast:
        _fill(ballast)
    before = steps_of(disk / "run")
    desk.wait_until(lambda: process.poll() is None and _grew_cold(disk), "nothing more can be published")
    ended = desk.end(process, b"")
    assert trained(ended) > len(before)
    assert "The store is full" in ended.err
    assert re.search(r"\d+ recorded steps were not published in time", ended.err)
    assert "No problems found in" not in ended.err
    (disk / "ballast").unlink()
    after = steps_of(disk / "run")
    assert after == list(range(len(after)))
    diagnosis = examine(barograph.open(disk / "run").store)
    assert (diagnosis.damaged, diagnosis.intact) == ([], False)


def _fill(file: Any) -> None:
    for size in (4096, 512, 1):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            continue


def _grew_cold(disk: Path) -> bool:
    """Return whether the disk is full for the writer process: its last heartbeat is older than a second."""
    beats = list((disk / "run" / "heartbeats").iterdir())
    from time import time

    return bool(beats) and time() - max(beat.stat().st_mtime for beat in beats) > 1.5


def test_a_disk_that_becomes_read_only_ends_no_training(desk: Any, disk: Path) -> None:
    process = start(desk, disk / "run")
    desk.wait_until(lambda: len(steps_of(disk / "run")) > 20, "20 steps are published")
    remount = ["mount", "-o", "remount,ro", str(disk)]
    desk.wait_until(lambda: subprocess.run(remount, check=False, capture_output=True).returncode == 0, "it is fixed")
    before = steps_of(disk / "run")
    ended = desk.end(process, b"")
    assert trained(ended) > 0
    assert "Reading or writing is not allowed there" in ended.err
    assert steps_of(disk / "run") == before == list(range(len(before)))


def test_a_read_only_place_is_refused_before_the_script_starts(desk: Any, disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    desk.write("train.py", "print('started')")
    watched = desk.run("train.py", to=str(disk / "run"))
    assert (watched.code, watched.out) == (2, b"")
    assert watched.err.startswith("barograph: Cannot record a run there: the disk is read-only.")


def test_only_one_of_two_simultaneous_runs_gets_a_place(desk: Any) -> None:
    desk.write("wait.py", "import sys\nprint('runs', flush=True)\nsys.stdin.read()\n")
    both = [desk.start("barograph", "run", "--to", "run", "wait.py", stdin=subprocess.PIPE) for _ in range(2)]
    desk.wait_until(lambda: any(process.poll() is not None for process in both), "one of them has ended")
    refused, runs = sorted(both, key=lambda process: process.poll() is None)
    told = desk.end(refused)
    assert (told.code, told.out) == (2, b"")
    assert "Another process is writing this run" in told.err
    assert desk.end(runs, b"").text == "runs\n"
    assert runs.returncode == 0


# Adds to the time of day what is in the file, in every Python process.
JUMPING = '''
import os, time
real = time.time
def jumping():
    try:
        with open(os.environ["JUMP"]) as file:
            return real() + float(file.read() or 0)
    except OSError:
        return real()
time.time = jumping
'''


def test_a_clock_that_jumps_changes_only_timestamps(desk: Any) -> None:
    desk.write("site/sitecustomize.py", JUMPING)
    desk.environment |= {
        "JUMP": str(desk.folder / "jump"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(desk.folder / "site"), os.environ.get("PYTHONPATH")])),
    }
    desk.script('''
import time
for step in range(300):
    if step in (100, 200):
        with open("jump", "w") as file:
            print({100: -40 * 86400, 200: 400 * 86400}[step], file=file)
    if step == 250:
        model[0].weight.data[0, 0] = float("nan")
    train_step()
    time.sleep(0.01)
''')
    watched = desk.run("--budget", "off", "train.py")
    assert watched.code == 0
    run = desk.open()
    assert run.steps().tolist() == list(range(300))
    times = run.series("loss:total").times
    assert times[99] - times[150] > 39 * 86400
    assert times[299] - times[150] > 439 * 86400
    assert [str(state.standing) for state in run.workers] == ["finished"]
    assert examine(run.store).intact
    assert {item.since_step for item in run.findings if item.code == "N101"} == {250}
    assert 0 < run.workers[0].ending.last.cost.train_secs < 120


class Bucket:
    """An S3-compatible server that can hang, continue and stop."""

    def __init__(self) -> None:
        self.server, url = s3_server("journeys")
        self.environment = {
            "AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
        }


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    pytest.importorskip("moto", reason="the S3-compatible server (moto[server]) is not installed")
    made = Bucket()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.server.kill()
    made.server.wait()


@pytest.mark.s3
def test_a_temporarily_unreachable_bucket_loses_nothing(desk: Any, bucket: Bucket) -> None:
    place = "s3://journeys/run"
    process = start(desk, place, settings="close_timeout_secs = 60.0\n")
    desk.wait_until(lambda: len(steps_of(place)) > 20, "20 steps are published")
    bucket.server.send_signal(signal.SIGSTOP)
    # As long as it takes for the writer to wait for an answer: it publishes twice a second.
    assert process.stdout is not None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    bucket.server.send_signal(signal.SIGCONT)
    ended = desk.end(process, b"")
    assert steps_of(place) == list(range(trained(ended)))
    assert f"barograph: {trained(ended)} steps" in ended.err
    assert examine(barograph.open(place).store).intact


@pytest.mark.s3
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["hangs", "refuses"])
def test_a_permanently_unreachable_bucket_blocks_no_training(desk: Any, bucket: Bucket, how: int) -> None:
    place = "s3://journeys/run"
    process = start(desk, place)
    desk.wait_until(lambda: len(steps_of(place)) > 20, "20 steps are published")
    bucket.server.send_signal(how)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2.5)
    ended = desk.end(process, b"")
    assert trained(ended) > 20
    said = "The store did not answer within 1 s." if how == signal.SIGSTOP else "The store cannot be reached."
    assert re.search(rf"the end of the run could not be written: \d+ recorded steps .*{re.escape(said)}", ended.err)
    assert "The training is unaffected." in ended.err
    assert "No problems found in" not in ended.err


def test_every_command_uses_the_default_root(desk: Any) -> None:
    desk.write("score.py", "from barograph.tracking import load_run\nload_run().log_metric('acc', 0.5)\n")
    desk.environment["BAROGRAPH_ROOT"] = "kept here"
    assert desk.end(desk.start("barograph", "run", "score.py")).code == 0
    assert [path.name for path in desk.folder.iterdir() if path.is_dir()] == ["kept here"]
    listed, found = (desk.end(desk.start("barograph", *words, "--json")).text for words in (
        ("runs",), ("search", "metrics.acc.last = 0.5")))
    assert (len(json.loads(listed)), len(json.loads(found))) == (1, 1)
