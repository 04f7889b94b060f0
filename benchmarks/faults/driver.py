"""The command line of the fault benchmark: programs, seeds, and output."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.faults.cache import Cache, sources_digest
from benchmarks.faults.programs import PARTS, BadTable, Program, programs_of
from benchmarks.faults.scoring import Score, totals_of
from benchmarks.faults.table import print_part, totals_to_json
from benchmarks.faults.trial import Bare, Trial, TrialFailed, bare, trial_from_json, watched
from benchmarks.tables import heading, progress

SEEDS = 5

TITLES = {
    "first": "the first half of the PyTorch programs", "second": "the second half of the PyTorch programs",
    "keras": "programs of Keras", "jax": "programs of JAX", "trees": "programs of boosted trees",
}  # fmt: skip
JOBS = 2
"""Parallel runs. Each uses one core for its training and part of another for its watcher."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One process to run or to look up: a program under Barograph with a seed, or alone (seed None)."""

    program: Program
    seed: int | None

    @property
    def what(self) -> str:
        return "bare" if self.seed is None else f"seed{self.seed}"


def measure_faults(
    programs: Sequence[Program], *, seeds: int = SEEDS, jobs: int = JOBS, fresh: bool = False,
    cache: Cache | None = None,
) -> list[Score]:  # fmt: skip
    """Return the scores of each program with the seeds 0, 1, …; cached results are not computed again.

    Args:
        programs: The programs.
        seeds: Number of seeds.
        jobs: Number of parallel runs.
        fresh: Run all of them again.
        cache: The cache; None: below the repository, for this version of Barograph.
    """
    cache = cache or Cache(sources_digest())
    tasks = [_Task(program, seed) for program in programs for seed in (None, *range(seeds))]
    trials: dict[Program, list[Trial]] = {program: [] for program in programs}
    failed: dict[Program, dict[int, str]] = {program: {} for program in programs}
    bare_secs: dict[Program, float] = {}
    for task, outcome in _outcomes(tasks, cache, jobs, fresh):
        if isinstance(outcome, Trial):
            trials[task.program].append(outcome)
        elif isinstance(outcome, Bare):
            bare_secs[task.program] = outcome.wall_secs
        elif task.seed is not None:
            failed[task.program][task.seed] = outcome
    return [
        Score(program, tuple(sorted(trials[program], key=lambda trial: trial.seed)), failed[program],
              bare_secs.get(program))
        for program in programs
    ]  # fmt: skip


def _outcomes(
    tasks: Sequence[_Task], cache: Cache, jobs: int, fresh: bool
) -> Iterable[tuple[_Task, Trial | Bare | str]]:
    """Yield the result of each task, cached ones first; a string is the reason of a failure."""
    missing = []
    for task in tasks:
        kept = None if fresh else cache.get(task.program, task.what)
        if kept is None:
            missing.append(task)
        else:
            yield task, Bare(**kept) if task.seed is None else trial_from_json(kept)
    if len(missing) < len(tasks):
        progress(f"faults: {len(tasks) - len(missing)} of {len(tasks)} runs are known from before")
    started = time.monotonic()
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(_run, task, cache): task for task in missing}
        for number, future in enumerate(as_completed(futures), 1):
            task, outcome = futures[future], future.result()
            left_secs = (time.monotonic() - started) / number * (len(missing) - number)
            progress(f"faults {number}/{len(missing)}, about {left_secs / 60:.0f} min left: "
                     f"{task.program.name} {task.what}: {_in_short(outcome)}")  # fmt: skip
            yield task, outcome
    finally:
        # After an interruption, wait only for tasks that are already running.
        pool.shutdown(cancel_futures=True)


def _run(task: _Task, cache: Cache) -> Trial | Bare | str:
    try:
        if task.seed is None:
            alone = bare(task.program.path, task.program.workers, 0)
            cache.put(task.program, task.what, asdict(alone))
            return alone
        trial = watched(task.program, task.seed)
        cache.put(task.program, task.what, trial.to_json())
        return trial
    except TrialFailed as error:
        return str(error)


def _in_short(outcome: Trial | Bare | str) -> str:
    match outcome:
        case Trial():
            codes = ", ".join(dict.fromkeys(item.code for item in outcome.findings)) or "nothing"
            return f"{outcome.wall_secs:.1f} s, {outcome.steps} steps, {codes}"
        case Bare():
            return f"{outcome.wall_secs:.1f} s, {outcome.last_line}"
        case str():
            return outcome


def report_of(scores: Sequence[Score]) -> dict[str, Any]:
    """Return every raw result, and the totals of each part, as plain JSON data."""
    parts = list(dict.fromkeys(score.program.part for score in scores))
    return {
        "programs": [
            {"part": score.program.part, "name": score.program.name, "planted": score.program.planted,
             "bare_secs": score.bare_secs, "failed": dict(score.failed),
             "trials": [trial.to_json() for trial in score.trials]}
            for score in scores
        ],
        "totals": {part: totals_to_json(totals_of(_part(scores, part))) for part in parts},
    }  # fmt: skip


def print_faults(scores: Sequence[Score]) -> None:
    """Print the table and the totals of each part."""
    for part in PARTS:
        if own := _part(scores, part):
            heading(f"Planted faults, {TITLES[part]}")
            print_part(own)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return 0 if every run succeeded."""
    choice = _parser().parse_args(arguments)
    try:
        programs = chosen_programs(choice.part, choice.only)
    except BadTable as error:
        print(error, file=sys.stderr)
        return 2
    scores = measure_faults(programs, seeds=choice.seeds, jobs=choice.jobs, fresh=choice.fresh)
    if choice.json:
        text = json.dumps(report_of(scores), indent=1)
        if choice.json == "-":
            print(text)
        else:
            Path(choice.json).write_text(text, encoding="utf-8")
    if choice.json != "-":
        print_faults(scores)
    return int(any(score.failed for score in scores))


def chosen_programs(part: str, only: Iterable[str] | None) -> list[Program]:
    """Return the programs of a part, or of all; with `only`, those with these names.

    Raises:
        BadTable: A table is invalid, or there is no such part or program.
    """
    if part not in (*PARTS, "all"):
        raise BadTable(f"there is no part {part}; choose from all, {', '.join(PARTS)}")
    programs = [program for name in (PARTS if part == "all" else (part,)) for program in programs_of(name)]
    if only is None:
        return programs
    wanted = list(only)
    if unknown := sorted(set(wanted) - {program.name for program in programs}):
        raise BadTable(f"no program is called {', '.join(unknown)} in {'any' if part == 'all' else f'the {part}'} part")
    return [program for program in programs if program.name in wanted]


def _part(scores: Iterable[Score], part: str) -> list[Score]:
    return [score for score in scores if score.program.part == part]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description="Measure what the rules catch, and how often they cry wolf."
    )
    count: Callable[[str], int] = _count
    parser.add_argument("--part", choices=(*PARTS, "all"), default="all", help="of the programs; default: all")
    parser.add_argument("--seeds", type=count, default=SEEDS, help=f"runs of each program; default {SEEDS}")
    parser.add_argument("--jobs", type=count, default=JOBS, help=f"runs at a time; default {JOBS}")
    parser.add_argument("--fresh", action="store_true", help="run again what is known from before")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs, by the names of their scripts")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE",
                        help="print every raw figure as JSON in place of the table, or write it to a file beside it")
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be 1 or more")
    return number
