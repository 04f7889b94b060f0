"""Mean ranks of searches over problems and seeds, with paired Wilcoxon tests.

    python -m benchmarks.tune.ranks --problems development --seeds 10
    python -m benchmarks.tune.ranks --problems 2718 --seeds 3 --searchers auto,random   ten others, drawn by a seed

The losses of each search are appended to a file, so an interrupted benchmark continues where it stopped. A search of
Barograph runs again once its code has changed, another one once its library has another version.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from benchmarks.environments import EnvironmentUnavailable, prepare
from benchmarks.tables import note
from benchmarks.tune.problems import DEVELOPMENT, others, problem
from benchmarks.tune.searchers import search, version_of

SIX = ("auto", "optuna-gp", "optuna-tpe", "nevergrad-NGOpt", "optuna-cma", "random")
MARKS = (25, 50)
KEPT = Path(".cache/tune-ranks.jsonl")
Losses = dict[str, dict[str, list[float]]]
"""Search to "problem seed" to the loss of each trial."""


def available(searchers: Sequence[str]) -> list[str]:
    """Return the searches whose libraries are installed, here or in an environment of the benchmark."""
    missing = [one for one in searchers if not _has_library(one)]
    if missing:
        try:
            python = prepare("search")
        except EnvironmentUnavailable as error:
            note(f"{', '.join(missing)} was not measured: {error}")
        else:
            # Behind our own: only what is missing here comes from there.
            sys.path += map(str, python.parent.parent.glob("lib/python*/site-packages"))
    return [one for one in searchers if _has_library(one)]


def _has_library(searcher: str) -> bool:
    library, _, which = searcher.partition("-")
    needs = {"nevergrad": ["nevergrad"], "optuna": ["optuna", *(["cmaes"] if which == "cma" else [])]}
    return all(importlib.util.find_spec(name) for name in needs.get(library, []))


def kept_losses(kept: Path, searchers: Sequence[str]) -> Losses:
    """Return the losses in a file that are of these searches as they are now."""
    found: Losses = {searcher: {} for searcher in searchers}
    versions = {searcher: version_of(searcher) for searcher in searchers}
    for line in kept.read_text().splitlines() if kept.exists() else ():
        row = json.loads(line)
        if versions.get(row["search"]) == row["version"]:
            found[row["search"]][row["key"]] = row["losses"]
    return found


def measured(
    names: Sequence[str], searchers: Sequence[str], seeds: Sequence[int], kept: Path, *, processes: int = 1,
    secs: float | None = None,
) -> Losses:
    """Return the losses of every search on every problem; those in a file are not run again.

    Args:
        names: The problems.
        searchers: The searches.
        seeds: The seeds.
        kept: The file.
        processes: How many run at once.
        secs: No search starts after so many seconds; None: all do.
    """
    kept.parent.mkdir(parents=True, exist_ok=True)
    done, end = kept_losses(kept, searchers), None if secs is None else time.monotonic() + secs
    due = [(searcher, name, seed, end) for seed in seeds for name in names for searcher in searchers
           if f"{name} {seed}" not in done[searcher]]
    for row in _rows(due, processes):
        with kept.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return kept_losses(kept, searchers)


def _rows(due: Sequence[tuple[str, str, int, float | None]], processes: int) -> Iterator[dict[str, Any]]:
    if processes == 1:
        yield from filter(None, map(_row, due))
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from filter(None, pool.map(_row, due))


def _row(due: tuple[str, str, int, float | None]) -> dict[str, Any] | None:
    searcher, name, seed, end = due
    if end is not None and time.monotonic() > end:
        return None
    losses = search(searcher, problem(name, seed), max(MARKS), seed).losses
    return {"search": searcher, "version": version_of(searcher), "key": f"{name} {seed}", "losses": losses}


def ranks(losses: Losses, searchers: Sequence[str], keys: Sequence[str], trials: int) -> dict[str, list[float]]:
    """Return the rank of each search for each problem and seed by its best loss; equals share the mean rank."""
    found: dict[str, list[float]] = {searcher: [] for searcher in searchers}
    for key in keys:
        best = {searcher: min(losses[searcher][key][:trials]) for searcher in searchers}
        for searcher in searchers:
            below = sum(value < best[searcher] for value in best.values())
            same = sum(value == best[searcher] for value in best.values())
            found[searcher].append(below + (same + 1) / 2)
    return found


def wilcoxon(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value of the paired Wilcoxon test; 1 if all pairs are equal."""
    from scipy import stats

    if list(one) == list(other):
        return 1.0
    return float(stats.wilcoxon(one, other).pvalue)


def print_ranks(losses: Losses, searchers: Sequence[str], keys: Sequence[str]) -> None:
    """Print mean ranks, of all, of tables, of functions, and the test against the first search."""
    groups: Mapping[str, list[str]] = {
        "all": list(keys), "tables": [key for key in keys if not key.startswith("bbob")],
        "functions": [key for key in keys if key.startswith("bbob")]}
    print(f"mean rank of {len(keys)} pairs of a problem and a seed; median and quartiles of the ranks of all; p of a "
          f"paired Wilcoxon test against {searchers[0]}")
    print(f"{'search':18}" + "".join(f"{group + f' @{mark}':>15}" for group in groups for mark in MARKS)
          + "".join(f"{f'median @{mark}':>18}" for mark in MARKS) + "".join(f"{f'p @{mark}':>9}" for mark in MARKS))
    whole = {mark: ranks(losses, searchers, keys, mark) for mark in MARKS}
    for searcher in searchers:
        cells = [f"{fmean(found):15.2f}" if (found := ranks(losses, searchers, group, mark)[searcher]) else f"{'':15}"
                 for group in groups.values() for mark in MARKS]
        cells += [f"{_spread(whole[mark][searcher]):>18}" for mark in MARKS]
        cells += [f"{wilcoxon(whole[mark][searchers[0]], whole[mark][searcher]):9.2g}" for mark in MARKS
                  if searcher != searchers[0]]
        print(f"{searcher:18}" + "".join(cells))


def _spread(found: Sequence[float]) -> str:
    low, _, high = quantiles(found, n=4) if len(found) > 1 else list(found) * 3
    return f"{median(found):.1f} ({low:.1f}–{high:.1f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default="development", help="development, or a seed that draws ten others")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--searchers", default=",".join(SIX))
    parser.add_argument("--kept", type=Path, default=KEPT, help="file with losses; what is there is not run again")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--only", help="problems whose name begins so")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--secs", type=float, help="start no search after so many seconds")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    names = DEVELOPMENT if options.problems == "development" else others(int(options.problems))
    if options.only:
        names = tuple(name for name in names if name.startswith(options.only))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    searchers = available(options.searchers.split(","))
    losses = measured(names, searchers, seeds, options.kept, processes=options.processes, secs=options.secs)
    keys = [f"{name} {seed}" for seed in seeds for name in names]
    ready = [key for key in keys if all(key in losses[searcher] for searcher in searchers)]
    if len(ready) < len(keys):
        print(f"{len(keys) - len(ready)} of {len(keys)} pairs are not measured yet")
    if ready:
        print_ranks(losses, searchers, ready)
    if options.json:
        options.json.write_text(json.dumps({
            "pairs": ready, **{str(mark): ranks(losses, searchers, ready, mark) for mark in MARKS}}))


if __name__ == "__main__":
    main()
