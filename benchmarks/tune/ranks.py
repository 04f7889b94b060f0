"""Mean ranks of searches over problems and seeds, with paired Wilcoxon tests.

    python -m benchmarks.tune.ranks --problems development --seeds 10
    python -m benchmarks.tune.ranks --problems 2718 --seeds 3 --searchers auto,random   ten others, drawn by a seed
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.tune.problems import DEVELOPMENT, others, problem
from benchmarks.tune.searchers import search

SIX = ("auto", "optuna-gp", "optuna-tpe", "nevergrad-NGOpt", "optuna-cma", "random")
MARKS = (25, 50)
Losses = dict[str, dict[str, list[float]]]
"""Search to "problem seed" to the loss of each trial."""


def measured(names: Sequence[str], searchers: Sequence[str], seeds: Sequence[int], kept: Path | None) -> Losses:
    """Return the losses of every search on every problem; those in a file are not run again."""
    found: Losses = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for searcher in searchers:
        done = found.setdefault(searcher, {})
        for name in names:
            for seed in seeds:
                if (key := f"{name} {seed}") not in done:
                    done[key] = search(searcher, problem(name, seed), max(MARKS), seed).losses
                    if kept:
                        kept.write_text(json.dumps(found))
    return found


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
    print("search              " + "".join(f"{group + f' @{mark}':>15}" for group in groups for mark in MARKS)
          + "   p of @25, @50 against " + searchers[0])
    whole = {mark: ranks(losses, searchers, keys, mark) for mark in MARKS}
    for searcher in searchers:
        cells = [f"{fmean(found):15.2f}" if (found := ranks(losses, searchers, group, mark)[searcher]) else f"{'':15}"
                 for group in groups.values() for mark in MARKS]
        tests = "" if searcher == searchers[0] else ", ".join(
            f"{wilcoxon(whole[mark][searchers[0]], whole[mark][searcher]):.3g}" for mark in MARKS)
        print(f"{searcher:20}" + "".join(cells) + f"   {tests}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default="development", help="development, or a seed that draws ten others")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--searchers", default=",".join(SIX))
    parser.add_argument("--kept", type=Path, help="JSON file with losses; what is there is not run again")
    parser.add_argument("--only", help="problems whose name begins so")
    options = parser.parse_args()
    names = DEVELOPMENT if options.problems == "development" else others(int(options.problems))
    if options.only:
        names = tuple(name for name in names if name.startswith(options.only))
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    searchers = options.searchers.split(",")
    losses = measured(names, searchers, seeds, options.kept)
    print_ranks(losses, searchers, [f"{name} {seed}" for name in names for seed in seeds])


if __name__ == "__main__":
    main()
