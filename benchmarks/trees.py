"""The cost of recording a training of boosted trees: XGBoost, with trees and importance every tenth round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of, paired_ratios
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text

VARIANTS = ("on", "budget")
"""`on`: every tenth round, no budget; `budget`: the default settings."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: rounds of bare, on, bare, budget, bare; rounds of boosting; size of the table."""

    rounds: int = 7
    boosting_rounds: int = 500
    samples: int = 100_000
    features: int = 50


QUICK = Effort(rounds=3, boosting_rounds=200)


def measure_trees(effort: Effort) -> dict[str, Any]:
    """Return the seconds of trainings in fresh processes, alternating."""
    rounds = []
    for number in range(effort.rounds):
        progress(f"trees, round {number + 1} of {effort.rounds}")
        rounds.append([_train(name, effort) for name in ("bare", "on", "bare", "budget", "bare")])
    return {"boosting_rounds": effort.boosting_rounds, "samples": effort.samples, "features": effort.features,
            "rounds": rounds}


def print_trees(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("per training", "bare", "trees and importance every 10 rounds ÷ bare", "default settings ÷ bare")
    for key, name in (("wall_secs", "wall"), ("thread_secs", "thread CPU"), ("cpu_secs", "total CPU")):
        bare = [entry[key] for entries in report["rounds"] for entry in entries if entry["variant"] == "bare"]
        ratios: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
        for entries in report["rounds"]:
            for variant, found in paired_ratios([(entry["variant"], entry[key]) for entry in entries], "bare").items():
                ratios.setdefault(variant, []).extend(found)
        table.add(name, span_text(interval_of(bare), "s", digits=3),
                  *(ratio_text(interval_of(ratios[variant])) for variant in VARIANTS))
    table.print()
    control = [ratio for entries in report["rounds"]
               for ratio in paired_ratios([(entry["variant"], entry["wall_secs"]) for entry in entries],
                                          "bare").get("bare", ())]
    if control:
        note(f"control (bare ÷ neighboring bare trainings): {ratio_text(interval_of(control))}")
    last = report["rounds"][-1]
    told = {entry["variant"]: entry["recorded"] for entry in last}
    own = {name: 100 * entry["capture_secs"] / (entry["wall_secs"] - entry["capture_secs"])
           for entry in last for name in (entry["variant"],)}
    note(f"XGBoost, {report['boosting_rounds']} rounds on {report['samples']:,} × {report['features']}, one thread, "
         f"one data set evaluated each round; trees recorded at {told['on']} and {told['budget']} rounds; reported "
         f"cost of recording: {own['on']:.2f}% and {own['budget']:.2f}% of the training")


def _train(variant: str, effort: Effort) -> dict[str, Any]:
    found = run_worker("trees_worker", {"variant": variant, "boosting_rounds": effort.boosting_rounds,
                                        "samples": effort.samples, "features": effort.features}, timeout_secs=1200.0)
    return {"variant": variant, **found}
