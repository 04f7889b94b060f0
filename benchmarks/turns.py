"""The cost of recording a training, measured within one process: alternating bare and recorded steps.

Two processes that train the same model differ by 2 or 3%, because of their memory layout. Neighboring blocks of steps
within one process do not, so that tenths of a percent can be measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.processes import KEEP_PAGES, run_worker
from benchmarks.tables import Table, note, progress


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement.

    Attributes:
        processes: Number per workload and setting.
        secs: Total time of the blocks of a process.
        block_secs: Time of one block.
        warm_up_secs: Time before the first block.
        settling: Factor for both times with a budget, which repays the cost of the first steps before it spends more.
        variables: Environment variables.
    """

    processes: int = 3
    secs: float = 30.0
    block_secs: float = 1.0
    warm_up_secs: float = 10.0
    settling: float = 4.0
    variables: Mapping[str, str] = field(default_factory=lambda: KEEP_PAGES)


QUICK = Effort(processes=1, secs=15.0, warm_up_secs=5.0)

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "default settings": {},
    "losses alone": {"preset": "free", "budget": None},
    "with the flight recorder": {"preset": "free", "budget": None, "recorder": True},
}

_RECORDER, _WITHOUT = "with the flight recorder", "losses alone"

_RESAMPLED = 2000


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of recorded steps.

    Attributes:
        more: Time of a recorded step relative to a bare one, minus 1.
        share: Added time as a share of the total training time, including bare blocks.
    """

    more: float
    share: float


def measure_turns(effort: Effort, workloads: Sequence[str]) -> dict[str, Any]:
    """Return the blocks of each workload with each of `SETTINGS`, process by process."""
    found: dict[str, Any] = {}
    for number in range(effort.processes):
        for workload in workloads:
            for name, options in SETTINGS.items():
                progress(f"turns, process {number + 1} of {effort.processes}: {workload}, {name}")
                longer = effort.settling if "budget" not in options else 1.0
                answer = run_worker("turns_worker", {
                    "workload": workload, "options": dict(options), "secs": longer * effort.secs,
                    "block_secs": effort.block_secs, "warm_up_secs": longer * effort.warm_up_secs,
                }, variables=effort.variables)
                found.setdefault(workload, {}).setdefault(name, []).append(answer["turns"])
    return {"workloads": found}


def print_turns(report: Mapping[str, Any]) -> None:
    """Print the cost of recording, per recorded step and in total."""
    table = Table("workload", "settings", "turns", "added per recorded step", "added in total", "added wall time")
    for workload, by_settings in report["workloads"].items():
        for name, processes in by_settings.items():
            turns = [turn for process in processes for turn in process]
            thread, low, high = with_interval(turns, "thread")
            wall = cost_of(turns, "wall")
            table.add(workload, name, str(len(turns)), f"{thread.more:+.2%} [{low.more:+.2%} to {high.more:+.2%}]",
                      f"{thread.share:+.2%} [{low.share:+.2%} to {high.share:+.2%}]", f"{wall.share:+.2%}")
    table.print()
    for workload, by_settings in report["workloads"].items():
        if {_RECORDER, _WITHOUT} <= set(by_settings):
            both = ([turn for process in by_settings[name] for turn in process] for name in (_RECORDER, _WITHOUT))
            more, low, high = difference(*both, "thread")
            note(f"{workload}: the flight recorder alone (its checks and the data it keeps of a step) adds {more:+.2%} "
                 f"[{low:+.2%} to {high:+.2%}] of a step")
    note("processor time of the training thread, mean over all steps; […]: 95% interval from 2,000 bootstrap samples "
         "of the turns. Compare the default settings by the total, because their budget is a share of all time, bare "
         "blocks included; compare variants that record every step by the recorded step. The first steps, of which up "
         "to half a second does not count against the budget, are not measured")


def cost_of(turns: Sequence[Mapping[str, Any]], clock: str) -> Cost:
    """Return the cost of recorded steps compared with the bare ones of the same turns.

    Args:
        turns: Results of `turns_worker`.
        clock: "thread" or "wall".
    """
    return _cost(_numbers(turns, clock))


def with_interval(turns: Sequence[Mapping[str, Any]], clock: str) -> tuple[Cost, Cost, Cost]:
    """Return the cost, and the bounds of the interval that contains 95% of resampled ones."""
    numbers = _numbers(turns, clock)
    more, share = _resampled(numbers, seed=0)
    low, high = (Cost(float(np.quantile(more, at)), float(np.quantile(share, at))) for at in (0.025, 0.975))
    return _cost(numbers), low, high


def difference(
    turns: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], clock: str
) -> tuple[float, float, float]:
    """Return the additional cost compared with other settings, and the bounds of the interval."""
    first, second = _numbers(turns, clock), _numbers(others, clock)
    drawn = _resampled(first, seed=0)[0] - _resampled(second, seed=1)[0]
    low, high = (float(np.quantile(drawn, at)) for at in (0.025, 0.975))
    return _cost(first).more - _cost(second).more, low, high


def _resampled(numbers: NDArray[np.float64], *, seed: int) -> NDArray[np.float64]:
    """Return `more` and `share` of resampled turns; shape (2, resamplings)."""
    generator = np.random.default_rng(seed)
    drawn = [_cost(numbers[generator.integers(0, len(numbers), len(numbers))]) for _ in range(_RESAMPLED)]
    return np.array([[one.more, one.share] for one in drawn]).T


def _numbers(turns: Sequence[Mapping[str, Any]], clock: str) -> NDArray[np.float64]:
    """Return steps and seconds of the bare block of each turn, and of the recorded one; shape (turns, 4)."""
    return np.array([[turn["bare"]["steps"], turn["bare"][clock], turn["recorded"]["steps"], turn["recorded"][clock]]
                     for turn in turns], np.float64)


def _cost(numbers: NDArray[np.float64]) -> Cost:
    # Each turn relative to its own bare steps, so that drift of the machine cancels out.
    bare_secs = numbers[:, 1] / numbers[:, 0] * numbers[:, 2]
    added = float((numbers[:, 3] - bare_secs).sum())
    return Cost(added / float(bare_secs.sum()), added / float((numbers[:, 1] + numbers[:, 3]).sum()))
