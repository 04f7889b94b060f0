"""What jobs survive: kills in every phase, fifty submissions at once; leftovers, and repeated work."""

from __future__ import annotations

import bisect
import contextlib
import importlib.util
import itertools
import json
import math
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import psutil

from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.job_report import JobReport
from barograph.jobs.outputs import fetched_model
from barograph.jobs.simulation.simulate import simulate
from barograph.jobs.simulation.trace import random_traces
from barograph.jobs.simulation.virtual import Training
from barograph.jobs.spec import JobSpec
from barograph.store.urls import store_from_url
from benchmarks.environments import ROOT
from benchmarks.job_kills import PATIENCE_SECS, Case, Phase, killed_case
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note, progress

_SCRIPTS = ROOT / "benchmarks" / "scripts"
_MOST_BYTES = 150_000_000
_VICTIMS = ("everything", "controller", "agent", "script")
_MTBF_SECS = 20.0
_MOMENTS = 10_000


@dataclass(frozen=True, slots=True)
class Effort:
    """Number of kills and submissions.

    Attributes:
        trainings: Jobs that are killed once and whose weights are compared.
        cleanups: Jobs that are killed and whose leftovers are counted.
        on_ray: Number of these on a Ray cluster.
        queued: Jobs that are submitted at once.
        traces: Number of simulations.
        trained_secs: Length of the training whose checkpoints are observed.
    """

    trainings: int = 20
    cleanups: int = 50
    on_ray: int = 8
    queued: int = 50
    traces: int = 1000
    trained_secs: float = 120.0


QUICK = Effort(trainings=4, cleanups=8, on_ray=2, queued=8, traces=200, trained_secs=60.0)

NAMES = ("trainings", "cleanups", "queue", "repeated")


def measure_job_survival(effort: Effort, *, seed: int = 0, only: Sequence[str] = NAMES) -> dict[str, Any]:
    """Return the results of the jobs.

    Args:
        effort: Size of the measurement.
        seed: Chooses victims and times.
        only: The measurements to make.
    """
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bs-", ignore_cleanup_errors=True) as scratch:
        place = Path(scratch)
        if "trainings" in only:
            report["trainings"] = _trainings(place / "a", effort, seed)
        if "cleanups" in only:
            report["cleanups"] = _cleanups(place / "b", effort, seed)
        if "queue" in only:
            report["queue"] = _queue(place / "c", effort)
        if "repeated" in only:
            report["repeated"] = {"simulated": _simulated(effort), "trained": _observed(place / "d", effort, seed)}
    return report


def print_job_survival(report: Mapping[str, Any]) -> None:
    """Print the tables."""
    table = Table("what", "measured", "target")
    if found := report.get("trainings"):
        same = sum(job["is_same"] for job in found)
        table.add("weights after kill -9, compared with an uninterrupted job: identical", f"{same} of {len(found)}",
                  "all")
    if found := report.get("cleanups"):
        clean = sum(not job["left"] for job in found)
        table.add("nothing left after kill -9 and the next `barograph jobs`", f"{clean} of {len(found)}", "all")
    if queue := report.get("queue"):
        table.add(f"{queue['jobs']} jobs submitted at once: finished", str(queue["finished"]), "all")
        table.add("  started in the order of the queue", "yes" if queue["in_order"] else "no", "yes")
        table.add("  most jobs at once; CPUs", f"{queue['most_at_once']}; {queue['cpus']}", "one for each CPU")
        table.add("  memory of controllers, at most", f"{queue['controller_bytes'] / 1e6:.0f} MB",
                  f"≤ {_MOST_BYTES / 1e6:.0f} MB")
    if repeated := report.get("repeated"):
        for name, one in repeated.items():
            table.add(f"repeated steps of an interruption without notice, {name}, as a ratio to Young/Daly",
                      f"{one['ratio']:.2f}  ({one['steps']:.0f} and {one['predicted']:.0f} steps)", "0.80 to 1.20")
    table.print()
    for part in ("trainings", "cleanups"):
        if found := report.get(part):
            _print_kills(part, found)


def _print_kills(part: str, found: Sequence[Mapping[str, Any]]) -> None:
    table = Table(f"{part}: killed while", *_VICTIMS)
    for phase in dict.fromkeys(job["phase"] for job in found):
        jobs = [job for job in found if job["phase"] == phase]
        table.add(phase, *(str(sum(job["victim"] == victim for job in jobs) or "-") for victim in _VICTIMS))
    table.print()
    missed = sum(not job["was_hit"] for job in found)
    note(f"kills that came after the phase: {missed} of {len(found)}")
    for job in found:
        if job["left"] or not job.get("is_same", True) or job["state"] == "failed":
            note(f"{job['name']} ({job['phase']}, {job['victim']}): {job['state']}; "
                 f"{'weights differ; ' if not job.get('is_same', True) else ''}left: {', '.join(job['left']) or '-'}")


def _is_doing(*what: str) -> Any:
    return lambda case, report: report.doing in what


def _saves(case: Case, report: JobReport) -> bool:
    return report.step >= 2 and any((case.run / "checkpoints").glob("*#*"))


_COPIES = ("--data", "train=../data")
_LIMITS = ("--memory", "2GiB")
_SAVED = ("--checkpoint-every", "every=1", "--retries", "3")
"""If only the script is killed, it has failed: the job retries it only with `--retries`."""
_PHASES = (
    Phase("submitting", lambda case, report: True, 2.0, options=(*_COPIES, *_LIMITS)),
    Phase("starting", lambda case, report: str(report.phase) == "running", 0.5),
    Phase("preparing", _is_doing("preparing"), 1.0, options=("--requirements", "needs.txt"), ends=False),
    Phase("copying data", _is_doing("downloading"), 0.3, options=(*_COPIES, *_LIMITS)),
    Phase("reading lazily", _is_doing("training"), 1.0, options=("--data", "train=../data:lazy", *_LIMITS)),
    Phase("training", _is_doing("training"), 1.0, options=(*_LIMITS, "--no-network")),
    Phase("writing a checkpoint", _saves, 0.05, _SAVED, "killed_training.py"),
    Phase("uploading", _is_doing("uploading"), 0.2, output_bytes=200_000_000),
    Phase("finishing", lambda case, report: report.doing == "uploading" or report.is_over, 0.6,
          output_bytes=10_000_000),
)
_OF_TRAININGS = (
    Phase("starting", lambda case, report: str(report.phase) == "running", 1.0, _SAVED, "killed_training.py"),
    Phase("copying data", _is_doing("downloading"), 0.3, options=(*_COPIES, *_SAVED),
          script="killed_training.py"),
    Phase("training", lambda case, report: report.step > 0, 3.0, options=(*_COPIES, *_SAVED),
          script="killed_training.py"),
    Phase("writing a checkpoint", _saves, 0.05, options=(*_COPIES, *_SAVED), script="killed_training.py"),
    Phase("uploading", _is_doing("uploading"), 0.2, _SAVED, "killed_training.py", output_bytes=100_000_000),
)


def _trainings(place: Path, effort: Effort, seed: int) -> list[dict[str, Any]]:
    """Kill a job in each phase in turn, and compare its weights with those of a job that was not killed."""
    whole: dict[Sequence[str], bytes] = {}
    found = []
    for number in range(effort.trainings):
        draws = random.Random(f"training {seed} {number}")
        phase = _OF_TRAININGS[number % len(_OF_TRAININGS)]
        victim = draws.choice(_VICTIMS)
        progress(f"job-survival, training {number + 1} of {effort.trainings}: {phase.name}, {victim}")
        words = ("60", "0.05")
        if phase.options not in whole:
            with _case(place / f"whole-{number}", f"whole-{number}") as case:
                case.ended("submit", "--to", str(case.run), "--name", case.name, "--wait", *phase.options, phase.script,
                           *words, "0")
                whole[phase.options] = _weights(case)
        with _case(place / str(number), f"killed-{number}") as case:
            job = killed_case(case, phase, victim, draws, words)
            is_same = job["state"] == "finished" and _weights(case) == whole[phase.options]
            found.append({"name": case.name, **job, "is_same": is_same})
    return found


def _weights(case: Case) -> bytes:
    return (fetched_model(store_from_url(str(case.run)), case.folder / "model") / "weights.bin").read_bytes()


def _cleanups(place: Path, effort: Effort, seed: int) -> list[dict[str, Any]]:
    """Kill each victim in each phase in turn."""
    turns = [(_VICTIMS[(number + number // len(_PHASES) + seed) % 3], _PHASES[number % len(_PHASES)])
             for number in range(effort.cleanups)]
    submission_secs = _submission_secs(place)
    has_ray = importlib.util.find_spec("ray") is not None
    on_ray = effort.on_ray if has_ray else 0
    if not has_ray:
        note("Ray is not installed: all jobs run on this machine")
    found = []
    with _silent_index() as index, contextlib.ExitStack() as stack:
        local = [(number, *pair) for number, pair in enumerate(turns)]
        for number, victim, phase in local[:effort.cleanups - on_ray]:
            found.append(_cleanup(place, number, phase, victim, seed, {"UV_INDEX_URL": index},
                                  submission_secs=submission_secs))
        if on_ray:
            from benchmarks.jobs import cluster

            (place / "ray").mkdir(parents=True)
            environment, _ = stack.enter_context(cluster(place / "ray"))
            of_ray = [phase for phase in _PHASES if phase.name in ("submitting", "starting", "training", "finishing")]
            for number in range(on_ray):
                phase, victim = of_ray[number % len(of_ray)], _VICTIMS[:3][number % 3]
                found.append(_cleanup(place, 1000 + number, phase, victim, seed, environment, engine="ray",
                                      submission_secs=submission_secs))
                if groups := _placement_groups(environment):
                    found[-1]["left"] += [f"placement group {name}" for name in groups]
    return found


def _submission_secs(place: Path) -> float:
    """Return the time of a submission that is not killed."""
    with _case(place / "first", "first") as case:
        began = time.monotonic()
        case.ended("submit", "--to", str(case.run), "--name", case.name, *_COPIES, "plain_training.py", "1", "0", "0")
        return time.monotonic() - began


def _cleanup(place: Path, number: int, phase: Phase, victim: str, seed: int, environment: Mapping[str, str], *,
             submission_secs: float, engine: str = "local") -> dict[str, Any]:
    progress(f"job-survival, job {number + 1}: {phase.name}, {victim} ({engine})")
    if engine == "ray":
        phase = Phase(phase.name, phase.has_begun, phase.longest_secs * 2, output_bytes=phase.output_bytes)
    if phase.name == "submitting":
        # Until then it only imports modules, and nothing exists yet.
        phase = replace(phase, shortest_secs=0.5 * submission_secs, longest_secs=submission_secs)
    with _case(place / str(number), f"case-{seed}-{number}", environment, engine=engine) as case:
        draws = random.Random(f"cleanup {seed} {number}")
        try:
            job = killed_case(case, phase, victim, draws, ("60", "0.05"))
        except WorkerFailed as error:
            job = {"phase": phase.name, "victim": victim, "was_hit": False, "killed": 0, "state": "failed",
                   "left": [str(error)]}
        return {"name": case.name, "engine": engine, **job}


@contextlib.contextmanager
def _case(folder: Path, name: str, more: Mapping[str, str] | None = None, *, engine: str = "local") -> Iterator[Case]:
    for part in ("code", "data", "user"):
        (folder / part).mkdir(parents=True)
    for script in ("killed_training.py", "plain_training.py"):
        shutil.copy(_SCRIPTS / script, folder / "code" / script)
    (folder / "code" / "needs.txt").write_text("numpy\n")
    draws = random.Random(0)
    for number in range(2000):
        (folder / "data" / f"{number:04}.bin").write_bytes(draws.randbytes(1000))
    # Temporary files of PyTorch are not ours.
    of_torch = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "user" / "inductor")}
    case = Case(folder, name, {**clean_environment(folder / "user"), **of_torch, **(more or {})}, engine=engine)
    try:
        yield case
    finally:
        case.close()
        shutil.rmtree(folder / "data", ignore_errors=True)


@contextlib.contextmanager
def _silent_index() -> Iterator[str]:
    """Yield the address of a package index that accepts connections and never responds."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        made.listen(128)
        yield f"http://127.0.0.1:{made.getsockname()[1]}/simple"


def _placement_groups(environment: Mapping[str, str]) -> list[str]:
    """Return the placement groups of a cluster that have not been removed."""
    code = ("import json, os, ray; from ray.util import placement_group_table as table; "
            "ray.init(os.environ['RAY_ADDRESS'], logging_level='ERROR', log_to_driver=False); "
            "print(json.dumps([one['name'] for one in table().values() if one['state'] != 'REMOVED']))")
    done = subprocess.run([sys.executable, "-c", code], env=dict(environment), capture_output=True, text=True,
                          check=False, timeout=PATIENCE_SECS)
    if done.returncode:
        raise WorkerFailed(f"the placement groups cannot be listed: {done.stderr[-500:]}")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def _queue(place: Path, effort: Effort) -> dict[str, Any]:
    """Submit many jobs at once, and follow them to their ends."""
    progress(f"job-survival, {effort.queued} jobs at once")
    place.mkdir(parents=True)
    with _case(place / "jobs", "queue") as case:
        names = [f"job-{number:02}" for number in range(effort.queued)]
        (case.folder / "code" / "print.py").write_text("print('done')\n")
        submissions = [case.command("submit", "--to", str(case.folder / "runs" / name), "--name", name, "--cpus", "1",
                                    "print.py") for name in names]
        done = threading.Event()
        most: list[int] = []
        watcher = threading.Thread(target=_watch_memory, args=(case, done, most), daemon=True)
        watcher.start()
        for submission in submissions:
            _, err = submission.communicate(timeout=PATIENCE_SECS)
            if submission.returncode:
                raise WorkerFailed(f"submission: exit code {submission.returncode}: {err[-500:]}")
        reports = [json.loads(case.ended("wait", name, "--json", codes=(0, 1, 75, 79))) for name in names]
        done.set()
        watcher.join()
        starts, spans = [], []
        for record in case.home.all():
            events = EventLog(store_from_url(record.url), EVENTS).new()
            begins = [event.time_unix for event in events if event.kind == "starting"]
            starts.append(begins[0] if begins else math.nan)
            spans += [(begins[0], 1), (events[-1].time_unix, -1)] if begins else []
        at_once = itertools.accumulate(change for _, change in sorted(spans))
        return {"jobs": effort.queued, "finished": sum(report["phase"] == "finished" for report in reports),
                # A job may enter the queue while the previous one starts.
                "in_order": all(later >= earlier for earlier, later in itertools.pairwise(starts)),
                "most_at_once": max(at_once, default=0), "cpus": len(os.sched_getaffinity(0)),
                "controller_bytes": max(most, default=0)}


def _watch_memory(case: Case, done: threading.Event, most: list[int]) -> None:
    while not done.wait(0.2):
        total = 0
        for pid in case.processes("controller"):
            with contextlib.suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                if "barograph.jobs.controller" in process.cmdline():
                    total += process.memory_info().rss
        most.append(total)


def _simulated(effort: Effort) -> dict[str, float]:
    """Return the repeated steps of an interruption in simulations of a job of 8 hours at a MTBF of 2 hours."""
    progress("job-survival, simulations")
    training = Training(8 * 3600.0, start_secs=120.0, checkpoint_secs=5.0)
    settings = {"auto": True, "mtbf_hours": 2.0, "on_sigterm": False, "keep": 1}
    found = simulate(JobSpec(("train.py",), spot=True, settings={"checkpoints": settings}),
                     random_traces(effort.traces, mtbf_secs=7200.0), training)
    interval, cost = math.sqrt(2 * 5.0 * 7200.0), 5.0
    steps = found.repeated_steps.median / found.interruptions
    return _compared(steps, expected_repeated_secs(interval, cost) / training.step_secs)


def expected_repeated_secs(interval_secs: float, cost_secs: float) -> float:
    """Return the work lost by an interruption at a random time, in the model of Young and Daly.

    A cycle is an interval of work and one checkpoint; an interruption loses the work since the last complete
    checkpoint.

    Example:
        >>> expected_repeated_secs(100.0, 0.0)
        50.0
    """
    return interval_secs * (interval_secs / 2 + cost_secs) / (interval_secs + cost_secs)


def _observed(place: Path, effort: Effort, seed: int) -> dict[str, float]:
    """Return the steps that a kill at a random time of a real job would repeat.

    The job notes the time of each step; the time of a checkpoint is that of its metadata file, without which it does
    not count. The first interval is excluded: it is longer, because the cost of a checkpoint is not known yet.
    """
    progress("job-survival, a training at the automatic interval")
    place.mkdir(parents=True)
    with _case(place / "job", "observed") as case:
        times = case.folder / "times"
        settings = f'[settings.checkpoints]\nauto = true\nmtbf_hours = {_MTBF_SECS / 3600}\nkeep = 1000\n'
        command = json.dumps(["killed_training.py", str(int(effort.trained_secs / 0.02)), "0.01", "0"])
        (case.folder / "code" / "job.toml").write_text(f"command = {command}\n{settings}")
        case.environment = {**case.environment, "STEP_TIMES": str(times)}
        case.ended("submit", "--to", str(case.run), "--name", case.name, "--wait", "job.toml")
        stepped = [float(line) for line in times.read_text().split()]
        saved = sorted((path.stat().st_mtime, int(path.name.split("-")[1]))
                       for path in (case.run / "checkpoints").glob("*.json") if not path.name.endswith(".next.json"))
    pauses = [later - earlier for earlier, later in itertools.pairwise(stepped)]
    step_secs = median(pauses)
    saved_at, steps_at = [when for when, _ in saved], [steps for _, steps in saved]
    costs = [max(0.0, pauses[steps - 1] - step_secs) for steps in steps_at if 0 < steps <= len(pauses)]
    draws = random.Random(f"moments {seed}")
    lost = []
    for _ in range(_MOMENTS):
        moment = draws.uniform(saved_at[1], saved_at[-1])
        lost.append(bisect.bisect(stepped, moment) - steps_at[bisect.bisect(saved_at, moment) - 1])
    cost = fmean(costs[1:])
    predicted = expected_repeated_secs(math.sqrt(2 * cost * _MTBF_SECS), cost) / fmean(pauses)
    return {**_compared(fmean(lost), predicted), "cost_secs": cost, "checkpoints": len(saved)}


def _compared(steps: float, predicted: float) -> dict[str, float]:
    return {"steps": steps, "predicted": predicted, "ratio": steps / predicted}
