"""What recording costs a step of Keras, on each backend, and of JAX: the ResNet and the GPT, written in each."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of, paired_ratios
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text

FRAMEWORKS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "keras on tensorflow": ("keras_worker", "tensorflow", ("keras", "tensorflow")),
    "keras on torch": ("keras_worker", "torch", ("keras", "torch")),
    "keras on jax": ("keras_worker", "jax", ("keras", "jax")),
    "jax.jit, optax": ("jax_worker", "jit", ("jax", "optax", "flax")),
    "flax nnx": ("jax_worker", "nnx", ("jax", "optax", "flax")),
}
"""By name: the worker, how it is to train, and what must be installed."""

VARIANTS = ("everything", "moments", "budget")
"""`everything`: every kind of record with exact histograms; `moments`: weights, gradients and layers' outputs; both of
every step, no budget. `budget`: the default settings."""

SETTLING = 4
"""So many times longer the default settings are measured: a budget settles."""

_BOTH = ("resnet", "gpt")


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured: rounds of each variant between bare ones; and the steps of each."""

    rounds: int = 3
    warm_up_steps: int = 12
    steps: Mapping[str, int] | None = None

    def steps_of(self, workload: str) -> int:
        """Return how many steps are timed of a workload."""
        return (self.steps or {"resnet": 30, "gpt": 80})[workload]


QUICK = Effort(rounds=1, steps={"resnet": 12, "gpt": 24})


def measure_frameworks(effort: Effort) -> dict[str, Any]:
    """Return the seconds of steps in fresh processes, in turns."""
    found, missing = [], {}
    for name, (worker, how, needs) in FRAMEWORKS.items():
        absent = [need for need in needs if importlib.util.find_spec(need) is None]
        if absent:
            missing[name] = ", ".join(absent)
            continue
        for workload in _BOTH:
            rounds = []
            for number in range(effort.rounds):
                progress(f"{name}, {workload}, round {number + 1} of {effort.rounds}")
                rounds.append([_train(worker, how, workload, variant, effort)
                               for variant in ("bare", "everything", "moments", "bare", "budget", "bare")])
            found.append({"framework": name, "workload": workload, "rounds": rounds})
    return {"frameworks": found, "missing": missing}


def print_frameworks(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("training", "a bare step", "every step, everything", "its CPU", "every step, moments", "its CPU",
                  "default settings", "its CPU", "control")
    for entry in report["frameworks"]:
        wall, cpu = (_ratios(entry["rounds"], key) for key in ("wall_secs", "cpu_secs"))
        bare = [item["wall_secs"] for items in entry["rounds"] for item in items if item["variant"] == "bare"]
        table.add(f"{entry['framework']}, {entry['workload']}",
                  span_text(interval_of(bare), "ms", scale=1e3, digits=1),
                  *(ratio_text(interval_of(found[variant])) for variant in VARIANTS for found in (wall, cpu)),
                  ratio_text(interval_of(wall["bare"])))
    table.print()
    recorded = {f"{entry['framework']}, {entry['workload']}": {item["variant"]: item["recorded"]
                                                               for item in entry["rounds"][-1]}
                for entry in report["frameworks"]}
    for name, told in recorded.items():
        note(f"{name}: tensors at {told['everything']} and {told['moments']} steps, under the budget at "
             f"{told['budget']}")
    for name, absent in report["missing"].items():
        note(f"{name} is not measured: {absent} is not installed")
    note("wall time of a step and CPU time of the whole process, one thread where the framework allows; the first "
         f"twelve steps, in which programs are compiled, do not count; default settings take {SETTLING} times as many")


def _ratios(rounds: list[list[dict[str, Any]]], key: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"bare": []}
    for items in rounds:
        for variant, ratios in paired_ratios([(item["variant"], item[key]) for item in items], "bare").items():
            found.setdefault(variant, []).extend(ratios)
    return found


def _train(worker: str, how: str, workload: str, variant: str, effort: Effort) -> dict[str, Any]:
    times = SETTLING if variant == "budget" else 1
    request = {"how": how, "workload": workload, "variant": variant, "warm_up_steps": effort.warm_up_steps * times,
               "steps": effort.steps_of(workload) * times}
    variables = {"KERAS_BACKEND": how, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1",
                 "TF_NUM_INTEROP_THREADS": "1",
                 "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    return {"variant": variant, **run_worker(worker, request, timeout_secs=1800.0, variables=variables)}
