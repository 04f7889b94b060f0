"""Whether random Keras networks train to the same bits with and without Barograph."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.processes import run_worker
from benchmarks.tables import Table, note, progress

BACKENDS = ("tensorflow", "torch", "jax")

_PER_PROCESS = 10
"""Networks per process: compiler caches accumulate."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the comparison: this many networks on each backend, with seeds from 0."""

    networks: int = 80


QUICK = Effort(networks=10)


def measure_networks(effort: Effort) -> dict[str, Any]:
    """Return, for each backend, the differences of each network; a backend that is not installed is `missing`."""
    missing = [name for name in BACKENDS if None in map(importlib.util.find_spec, ("keras", name))]
    found: dict[str, list[dict[str, Any]]] = {}
    for backend in BACKENDS:
        if backend in missing:
            continue
        for first in range(0, effort.networks, _PER_PROCESS):
            progress(f"networks, {backend}, from {first}")
            seeds = list(range(first, min(effort.networks, first + _PER_PROCESS)))
            variables = {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
            answer = run_worker("networks_worker", {"seeds": seeds}, timeout_secs=1800.0, variables=variables)
            found.setdefault(backend, []).extend(answer["networks"])
    return {"networks": found, "missing": missing}


def print_networks(report: Mapping[str, Any]) -> None:
    """Print how many networks of each backend differ, and which."""
    table = Table("Keras on", "networks", "not repeatable", "changed by recording")
    for backend, networks in report["networks"].items():
        odd = sum(not network["repeats"] for network in networks)
        table.add(backend, str(len(networks)), str(odd), str(len(_differing(networks))))
    table.print()
    for backend, networks in report["networks"].items():
        for network in _differing(networks):
            note(f"{backend}, seed {network['seed']}, recorded {' and '.join(network['differs'])}: {network['what']}")
    for backend in report["missing"]:
        note(f"Keras on {backend} was not compared: {backend} is not installed")
    note("compares every variable of model and optimizer after eight float32 steps, with everything recorded at every "
         "step: once with moments only, once with exact histograms and units. Networks that are not repeatable without "
         "Barograph do not count")


def _differing(networks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [network for network in networks if network["repeats"] and network["differs"]]
