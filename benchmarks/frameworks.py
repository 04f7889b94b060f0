"""The cost of recording a step of Keras, on each backend, and of JAX: the ResNet and the GPT in each framework."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.interleave import interval_of
from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress, span_text
from benchmarks.turns import cost_of, with_interval

FRAMEWORKS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "keras on tensorflow": ("keras_worker", "tensorflow", ("keras", "tensorflow")),
    "keras on torch": ("keras_worker", "torch", ("keras", "torch")),
    "keras on jax": ("keras_worker", "jax", ("keras", "jax")),
    "jax.jit with optax": ("jax_worker", "jit", ("jax", "optax", "flax")),
    "flax nnx": ("jax_worker", "nnx", ("jax", "optax", "flax")),
}
"""By name: the worker, the backend, and required packages."""

VARIANTS = ("everything", "kinds", "moments", "budget")
"""Recording variants. Without budget, in every step: `everything`: every kind of record with exact histograms; `kinds`:
every kind, moments only; `moments`: moments of weights, gradients and layer outputs. `budget`: the default settings."""

_BOTH = ("resnet", "gpt")


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement.

    Attributes:
        processes: Number per framework, model and variant.
        secs: Total time of the blocks of a process.
        block_secs: Time of one block.
        warm_up_secs: Time before the first block.
        settling: Factor for both times with a budget, which repays the cost of the first steps before it spends more.
        threads: Threads of the framework and of reading; more than one: as many as the framework chooses.
        names: The frameworks to measure.
    """

    processes: int = 2
    secs: float = 30.0
    block_secs: float = 1.0
    warm_up_secs: float = 8.0
    settling: float = 3.0
    threads: int = 1
    names: Sequence[str] = tuple(FRAMEWORKS)


QUICK = Effort(processes=1, secs=14.0, warm_up_secs=5.0)


def measure_frameworks(effort: Effort) -> dict[str, Any]:
    """Return alternating blocks of bare and recorded steps, in fresh processes."""
    found, missing = [], {}
    for name in effort.names:
        worker, how, needs = FRAMEWORKS[name]
        absent = [need for need in needs if importlib.util.find_spec(need) is None]
        if absent:
            missing[name] = ", ".join(absent)
            continue
        for workload in _BOTH:
            variants: dict[str, list[dict[str, Any]]] = {}
            for variant in VARIANTS * effort.processes:
                progress(f"{name}, {workload}, {variant}")
                variants.setdefault(variant, []).append(_train(worker, how, workload, variant, effort))
            found.append({"framework": name, "workload": workload, "variants": variants})
    return {"frameworks": found, "missing": missing, "threads": effort.threads}


def print_frameworks(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("training", "bare step", "recorded", "turns", "added per recorded step", "added in total",
                  "added CPU time", "steps with tensors")
    for entry in report["frameworks"]:
        for variant, processes in entry["variants"].items():
            turns = [turn for process in processes for turn in process["turns"]]
            bare = [turn["bare"]["wall"] / turn["bare"]["steps"] for turn in turns]
            wall, low, high = with_interval(turns, "wall")
            table.add(f"{entry['framework']}, {entry['workload']}",
                      span_text(interval_of(bare), "ms", scale=1e3, digits=1), variant, str(len(turns)),
                      f"{wall.more:+.1%} [{low.more:+.1%} to {high.more:+.1%}]",
                      f"{wall.share:+.2%} [{low.share:+.2%} to {high.share:+.2%}]",
                      f"{cost_of(turns, 'process').share:+.2%}",
                      ", ".join(str(process["recorded"]) for process in processes))
    table.print()
    for name, absent in report["missing"].items():
        note(f"{name} was not measured: {absent} is not installed")
    note("wall time, mean over all steps; […]: 95% interval from 2,000 bootstrap samples of the turns; CPU time of the "
         "whole process. Compare the default settings by the total, because their budget is a share of all time, bare "
         "blocks included; compare variants that record every step by the recorded step. Threads: "
         + ("one, if the framework allows it" if report["threads"] == 1 else str(report["threads"])))


def _train(worker: str, how: str, workload: str, variant: str, effort: Effort) -> dict[str, Any]:
    times = effort.settling if variant == "budget" else 1.0
    request = {"how": how, "workload": workload, "variant": variant, "secs": effort.secs * times,
               "block_secs": effort.block_secs, "warm_up_secs": effort.warm_up_secs * times}
    return run_worker(worker, request, timeout_secs=1800.0, variables=_variables(how, effort.threads))


def _variables(how: str, threads: int) -> dict[str, str]:
    told = {"KERAS_BACKEND": how, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": str(threads),
            "TF_NUM_INTEROP_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    # XLA uses one thread, or as many as there are processors.
    alone = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    return {**told, "XLA_FLAGS": alone} if threads == 1 else told
