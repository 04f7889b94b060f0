"""Processor time of a trial outside the objective, and ten thousand trials of a function, beside Optuna in memory.

    python -m benchmarks.tune.overhead
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.tune.problems import problem
from benchmarks.tune.searchers import search

OVERHEAD = ("random", "tpe", "bayesian", "auto", "optuna-tpe", "optuna-gp")
MANY = ("random", "auto", "optuna-random")
PROBLEM = "bbob/f8"


def overheads_ms(name: str, trials: int, studies: int) -> list[float]:
    """Return the mean processor time of a trial of each study, in ms, after one study that loads everything."""
    search(name, problem(PROBLEM, 0), 15, 0)
    return [1e3 * fmean(search(name, problem(PROBLEM, seed), trials, seed).secs) for seed in range(1, studies + 1)]


def many(name: str, trials: int) -> dict[str, float]:
    """Return seconds and growth of memory, in MB, of many trials in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.tune.overhead", "--alone", name, "--trials", str(trials)],
                          capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _alone(name: str, trials: int) -> dict[str, float]:
    search(name, problem(PROBLEM, 0), 300, 0)
    before, began = _memory_mb(), time.process_time()
    found = search(name, problem(PROBLEM, 1), trials, 1)
    return {"secs": time.process_time() - began, "grown_mb": _memory_mb() - before, "best": min(found.losses)}


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", help="one search of many trials in this process, as JSON")
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--studies", type=int, default=5, help="studies of 50 trials of each search")
    parser.add_argument("--json", type=Path, help="file for the results")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(_alone(options.alone, options.trials)))
        return
    results: dict[str, Any] = {"ms": {}, "many": {}}
    for name in OVERHEAD:
        found = results["ms"][name] = overheads_ms(name, 50, options.studies)
        print(f"{name:12} {median(found):7.2f} ms ({min(found):.2f}–{max(found):.2f}) of processor time for each of 50 "
              f"trials, {len(found)} studies", flush=True)
    for name in MANY:
        one = results["many"][name] = many(name, options.trials)
        print(f"{name:14} {options.trials} trials: {one['secs']:6.1f} s, {one['grown_mb']:+.1f} MB, best "
              f"{one['best']:.3g}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
