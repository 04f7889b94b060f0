"""Studies of jobs under stress: many parallel trials with each kind of store, and kills of the tuner.

Each trial appends the value that it trains with to a file. At the end, the trials of the study, the jobs and that file
must agree: otherwise a trial was lost or repeated.

    python -m benchmarks.tune.survival --parallel 32 --kills 50
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.jobs.home import JobsHome
from barograph.machine.marked import kill_marked
from barograph.store.urls import store_from_url
from barograph.tune.study import Study
from barograph.tune.trial import TrialState
from benchmarks.tables import Table, progress

PLACES = ("sqlite", "postgresql", "bucket")
_BUCKET = "tune"
_START_SECS = 120.0
_SCRIPT = """
import os, sys
x = os.environ["SM_HP_X"]
with open({starts!r}, "a") as file:
    file.write(x + "\\n")
print(f"score: {{1 - (float(x) - 0.5) ** 2}}", flush=True)
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Trials of a study, and what went wrong with them.

    Attributes:
        trials: Number of its trials.
        finished: Number of those that finished.
        lost: Trials without a training, without a job, or missing in the experiment.
        repeated: Trainings beyond one for each trial, and trials with the same job.
        kills: Number of kills that hit a running tuner.
    """

    trials: int
    finished: int
    lost: int
    repeated: int
    kills: int = 0


class Desk:
    """A folder with a script and its studies.

    Args:
        folder: Where everything is.
        root: Directory or URL of the runs.
        variables: Environment variables besides those of this process.
    """

    def __init__(self, folder: Path, root: str, variables: Mapping[str, str]) -> None:
        self.folder, self.root = folder, root
        self.home = JobsHome(folder / "home")
        self._starts = folder / "starts.txt"
        self._code = folder / "code"
        self._code.mkdir(parents=True)
        (self._code / "train.py").write_text(_SCRIPT.format(starts=str(self._starts)))
        self.environment = {**os.environ, "BAROGRAPH_HOME": str(self.home.path), "OMP_NUM_THREADS": "1", **variables}

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of Barograph."""
        return subprocess.Popen([sys.executable, "-m", "barograph", *words], cwd=self._code, env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def tune(self, trials: int, parallel: int) -> subprocess.Popen[str]:
        """Start a study. Its jobs need so few cores that all of them run at once."""
        return self.command("tune", "train.py", "--vary", "x=0..1", "--maximize", "score", "--metric",
                            "score=score: ([0-9.]+)", "--strategy", "random", "--name", "study", "--to", self.root,
                            "--jobs", str(trials), "--parallel", str(parallel), "--cpus", "0.01")

    def outcome(self, study: Study, kills: int = 0) -> Outcome:
        """Compare the trials with the trainings, the jobs and the experiment."""
        trained = Counter(self._starts.read_text().split()) if self._starts.exists() else Counter[str]()
        asked = Counter(str(trial.parameters["x"]) for trial in study.trials)
        jobs = Counter(trial.job for trial in study.trials)
        known = {record.name for record in self.home.all()}
        out = self.command("experiments", "study", "--root", self.root, "--json").communicate()[0]
        missing = [job for job in jobs if job not in known or f'"{job}"' not in out]
        return Outcome(
            len(study.trials), sum(trial.state is TrialState.FINISHED for trial in study.trials),
            (asked - trained).total() + len(missing),
            (trained - asked).total() + sum(times - 1 for times in jobs.values()), kills)

    def close(self) -> None:
        """End everything that remains."""
        kill_marked("BAROGRAPH_HOME", str(self.folder))


def in_parallel(folder: Path, place: str, trials: int) -> Outcome:
    """Return the outcome of a study whose trials all run at the same time.

    Args:
        folder: An empty folder.
        place: One of `PLACES`: where its runs and its catalog are.
        trials: Number of trials.
    """
    with _placed(folder, place) as (root, variables), \
            contextlib.closing(Desk(folder / "desk", root, variables)) as desk:
        out = _ended(desk.tune(trials, trials))
        return desk.outcome(_study(desk, out))


def killed(folder: Path, kills: int, trials: int, seed: int = 0, *, parallel: int = 4) -> Outcome:
    """Return the outcome of a study whose tuner is killed again and again at drawn moments, and resumed.

    Args:
        folder: An empty folder.
        kills: Number of kills with SIGKILL.
        trials: Number of trials to reach at the end; few trials leave nothing to do for the last tuners.
        seed: Draws the moments.
        parallel: Number of trials at the same time.
    """
    draws, hit = random.Random(seed), 0
    with contextlib.closing(Desk(folder / "desk", (folder / "runs").as_uri(), {})) as desk:
        tuner = desk.tune(trials, parallel)
        for number in range(kills):
            _wait_for_work(desk, tuner)
            time.sleep(draws.uniform(0.0, 1.5))
            hit += tuner.poll() is None
            tuner.send_signal(signal.SIGKILL)
            tuner.communicate()
            progress(f"kill {number + 1} of {kills}")
            tuner = desk.command("tune", "resume", "study", "--jobs", str(trials))
        out = _ended(tuner)
        return desk.outcome(_study(desk, out), hit)


def shared(folder: Path, tuners: int, trials: int) -> Outcome:
    """Return the outcome of a study that several tuners follow at the same time.

    Args:
        folder: An empty folder.
        tuners: Number of tuners.
        trials: Number of trials.
    """
    with contextlib.closing(Desk(folder / "desk", (folder / "runs").as_uri(), {})) as desk:
        first = desk.tune(trials, 4)
        _wait_for_work(desk, first)
        others = [desk.command("tune", "resume", "study") for _ in range(tuners - 1)]
        out = [_ended(tuner) for tuner in (first, *others)]
        return desk.outcome(_study(desk, out[-1]))


def _wait_for_work(desk: Desk, tuner: subprocess.Popen[str]) -> None:
    """Wait until a tuner has written an event, so that the kill does not hit its imports."""
    before = _events(desk)
    deadline = time.monotonic() + _START_SECS
    while tuner.poll() is None and _events(desk) <= before and time.monotonic() < deadline:
        time.sleep(0.02)


def _events(desk: Desk) -> int:
    return len(list((desk.folder.parent / "runs/studies/study/study/events").glob("*.json")))


def _study(desk: Desk, out: str) -> Study:
    saved = {name: os.environ.get(name) for name in desk.environment}
    os.environ.update(desk.environment)
    try:
        return Study.open(store_from_url(f"{desk.root}/studies/study"))
    except Exception as error:
        raise RuntimeError(f"the study cannot be opened: {out[-2000:]}") from error
    finally:
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _ended(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {out[-2000:]}")
    return out


@contextlib.contextmanager
def _placed(folder: Path, place: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the root of the runs and the environment variables of a place, while its servers run."""
    root = (folder / "runs").as_uri()
    if place == "sqlite":
        yield root, {}
    elif place == "postgresql":
        pgserver: Any = importlib.import_module("pgserver")

        # Not in a private folder: the server runs as a user of its own, where root starts it.
        with tempfile.TemporaryDirectory(prefix="barograph-postgresql-", ignore_cleanup_errors=True) as data:
            Path(data).chmod(0o755)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                server = pgserver.get_server(Path(data, "data"), cleanup_mode="delete")
            try:
                url = str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")
                yield root, {"BAROGRAPH_CATALOG": url}
            finally:
                server.cleanup()
    else:
        with _s3() as variables:
            yield f"s3://{_BUCKET}/runs", variables


@contextlib.contextmanager
def _s3() -> Iterator[dict[str, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + _START_SECS
            while True:
                try:
                    urllib.request.urlopen(urllib.request.Request(f"{address}/{_BUCKET}", method="PUT"), timeout=5)
                    break
                except urllib.error.URLError:
                    if server.poll() is not None or time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
            yield {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
                   "AWS_REGION": "us-east-1"}
        finally:
            server.terminate()


def main() -> None:
    """Measure and print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", type=int, default=32, help="trials at the same time")
    parser.add_argument("--places", default=",".join(PLACES), help="comma-separated")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--trials", type=int, default=120, help="trials of the study whose tuner is killed")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    table, found = Table("study", "trials", "finished", "lost", "repeated", "kills"), {}
    for place in filter(None, [*options.places.split(","), "two tuners", "kills" if options.kills else ""]):
        progress(place)
        with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as folder:
            result = killed(Path(folder), options.kills, options.trials) if place == "kills" else \
                shared(Path(folder), 2, options.parallel) if place == "two tuners" else \
                in_parallel(Path(folder), place, options.parallel)
        found[place] = {name: getattr(result, name) for name in Outcome.__slots__}
        table.add(place, *(str(value) for value in found[place].values()))
    table.print()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
