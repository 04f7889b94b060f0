"""Runs each program plain and under `barograph run` with the default settings, alternating, and prints one table."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.coverage.meter import FACTS
from benchmarks.coverage.reading import read_back
from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.rounds import in_rounds
from benchmarks.tables import Table, note, span_text

FOLDER = Path(__file__).parent / "programs"
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")


@dataclass(frozen=True, slots=True)
class Program:
    """A training, and requirements on its recording besides the loss and the learning rate of every step.

    Attributes:
        command: Script and arguments.
        recorded: Additional arguments if it is recorded.
        variables: Environment variables.
        tensors: Kind of record in steps with tensors.
        long: It runs for minutes: steps with tensors must be spread over it, and half as many rounds suffice.
        fits: Number of trainings in the process; with several, processor time must not increase.
    """

    command: Sequence[str]
    recorded: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    tensors: str = "gradient"
    long: bool = False
    fits: int = 1


PROGRAMS: Mapping[str, Program] = {
    "text_gpt": Program(["text_gpt.py", "150"]),
    "vae": Program(["vae.py", "1400"]),
    "digits_mlp": Program(["digits_mlp.py", "1400"]),
    "keras_tensorflow": Program(["keras_fit.py", "50"], variables={"KERAS_BACKEND": "tensorflow"}),
    "keras_torch": Program(["keras_fit.py", "50"], variables={"KERAS_BACKEND": "torch"}),
    "jax": Program(["jax_loop.py", "1400"], recorded=["observe"]),
    "xgboost": Program(["xgboost_rounds.py", "300"], tensors="tree"),
    "long_50ms": Program(["text_gpt.py", "1400", "9"], long=True),
    "long_5ms": Program(["digits_mlp.py", "16000", "768", "128"], long=True),
    "grid_search": Program(["grid_search.py", "200"], fits=200),
}
"""The programs by name."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to measure each program, plain and recorded."""

    rounds: int = 5
    programs: Sequence[str] = tuple(PROGRAMS)


QUICK = Effort(rounds=2)


@dataclass(frozen=True, slots=True)
class Target:
    """A column of the table: a value of a round, its format, and its target.

    Attributes:
        heading: Heading of the column.
        figure: Computes it from the plain and the recorded measurement of a round.
        unit, scale, digits: Its format.
        at_least, at_most: Inclusive bounds.
        applies: Whether the bounds apply to a program.
        shown: Whether to print it for a program.
    """

    heading: str
    figure: Callable[[Mapping[str, float], Mapping[str, float]], float]
    unit: str = ""
    scale: float = 1.0
    digits: int = 0
    at_least: float = -math.inf
    at_most: float = math.inf
    applies: Callable[[Program], bool] = lambda _: True
    shown: Callable[[Program], bool] = lambda _: True

    def missed(self, median: float) -> bool:
        """Return whether a median is outside the bounds."""
        return not self.at_least <= median <= self.at_most


TARGETS: Sequence[Target] = (
    Target("losses read back", lambda _, it: it["losses"], "%", 100, 1, at_least=1.0),
    Target("learning rates", lambda _, it: it["rates"], "%", 100, 1, at_least=1.0),
    Target("fits with every loss", lambda _, it: it["fits"], "", at_least=200, applies=lambda its: its.fits == 200,
           shown=lambda its: its.fits > 1),
    Target("steps with tensors", lambda _, it: it["tensor_steps"], "", at_least=30, applies=lambda its: its.long),
    Target("longest gap", lambda _, it: it["longest_gap"], "%", 100, 1, at_most=0.1, applies=lambda its: its.long,
           shown=lambda its: its.fits == 1),
    Target("training CPU", lambda bare, it: it["training_secs"] / bare["training_secs"], "×", 1, 2, at_most=1.1,
           applies=lambda its: its.fits > 1),
    Target("total CPU", lambda bare, it: it["all_secs"] / bare["all_secs"], "×", 1, 2, applies=lambda _: False),
    Target("added before step 1", lambda bare, it: it["first_script_secs"] - bare["first_script_secs"], "s", 1, 2,
           at_most=0.3),
    Target("other processes by then", lambda bare, it: it["first_beside_secs"] - bare["first_beside_secs"], "s", 1, 2,
           applies=lambda _: False),
)
"""The columns."""


def measure_coverage(effort: Effort, *, seed: int = 0) -> dict[str, Any]:
    """Return the results of each round by program, plain and recorded; failures by name, with the reason."""
    measured: dict[str, list[dict[str, Any]]] = defaultdict(list)
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        repository = _repository(Path(scratch, "repository"))

        def measure(name: str, number: int) -> None:
            program = PROGRAMS[name]
            if program.long and number > effort.rounds // 2:
                return
            order = generator.sample([False, True], 2)
            measured[name].append({"recorded" if each else "plain": run_program(program, repository, recorded=each)
                                   for each in order})

        failures = in_rounds("coverage", list(effort.programs), effort.rounds, measure, seed=seed)
    return {"measured": dict(measured), "failures": failures}


def run_program(program: Program, folder: Path, *, recorded: bool) -> dict[str, float]:
    """Run a program in a separate process; return processor seconds and, if it was recorded, what can be read back.

    Raises:
        WorkerFailed: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        facts_path, url = Path(scratch, "facts.json"), f"{scratch}/run"
        before = [sys.executable, "-m", "barograph", "run", "--to", url] if recorded else [sys.executable]
        variables = {**clean_environment(folder.parent), **program.variables, FACTS: str(facts_path)}
        command = [*before, *program.command, *(program.recorded if recorded else ())]
        with Path(scratch, "output").open("w+", encoding="utf-8") as output:
            process = subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=output,
                                       stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            last = output.read().splitlines()[-3:]
        if process.returncode or not facts_path.exists():
            raise WorkerFailed(f"exit code {process.returncode}: {' | '.join(last)}")
        facts = json.loads(facts_path.read_text(encoding="utf-8"))
        first, end = facts["first_step"], facts["end"]
        return {
            "training_secs": end["script"] - first["script"],
            "all_secs": usage.ru_utime + usage.ru_stime,
            "first_script_secs": first["script"],
            "first_beside_secs": first["beside"],
            **(read_back(url, facts, program.tensors) if recorded else {}),
        }


def print_coverage(report: Mapping[str, Any]) -> None:
    """Print the table and the missed targets."""
    table = Table("program", *(target.heading for target in TARGETS))
    table.add("target", *map(_bound_text, TARGETS))
    missed = []
    for name, program in PROGRAMS.items():
        if name not in report["measured"]:
            continue
        rounds, cells = report["measured"][name], [name]
        for target in TARGETS:
            if not target.shown(program):
                cells.append("–")
                continue
            interval = interval_of([target.figure(entry["plain"], entry["recorded"]) for entry in rounds])
            cells.append(span_text(interval, target.unit, scale=target.scale, digits=target.digits))
            if target.applies(program) and target.missed(interval.median):
                missed.append(f"{name}: {target.heading}")
                cells[-1] += " !"
        table.add(*cells)
    table.print()
    note("median (min–max) over processes; ! marks a missed target; targets for tensors apply to the long programs, "
         "the target for CPU to the grid search")
    note("training CPU: of the script's process from its first step on, relative to the plain run of the same round; "
         "total CPU: of all processes from start to end; other processes: barograph run and the processes that it "
         "started, until the end of the first step")
    print(f"\n  {len(missed)} targets missed" + "".join(f"\n    {each}" for each in missed))
    for name, reason in report["failures"].items():
        note(f"{name} failed: {reason}")


def _bound_text(target: Target) -> str:
    least, most = (f"{bound * target.scale:.{target.digits}f} {target.unit}".rstrip()
                   for bound in (target.at_least, target.at_most))
    if target.at_least > -math.inf:
        return f"≥ {least}"
    return f"≤ {most}" if target.at_most < math.inf else ""


def _repository(folder: Path) -> Path:
    """Create a repository with the programs, like a user's, and return it."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "Add the programs"]):
        subprocess.run([*_GIT, *words], cwd=folder, check=True)
    return folder
