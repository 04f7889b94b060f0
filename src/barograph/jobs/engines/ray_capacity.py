"""Checks whether a Ray cluster can ever provide the resources of a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from barograph.jobs.spec import JobSpec
from barograph.watch.figures import count, size

Resources = Mapping[str, float]
"""Name to amount, as Ray calls them: `CPU`, `GPU`, `memory` in bytes."""


def bundle_of(spec: JobSpec) -> dict[str, float]:
    """Return the resources of an instance.

    Example:
        >>> bundle_of(JobSpec(("train.py",), cpus=2.0, gpus=1))
        {'CPU': 2.0, 'GPU': 1}
    """
    amounts = {"CPU": spec.cpus, "GPU": spec.gpus, "memory": spec.memory_bytes}
    return {name: amount for name, amount in amounts.items() if amount}


def problems_of_capacity(spec: JobSpec, nodes: Sequence[tuple[Resources, float]], where: str) -> list[str]:
    """Return why the nodes of a cluster, all free, cannot run a job; empty if they can.

    Args:
        spec: The job.
        nodes: Resources of each node or node type, and how many of them there can be.
        where: The cluster, for the message.
    """
    bundle = bundle_of(spec)
    fitting = [(_fit(bundle, resources), number) for resources, number in nodes]
    if sum(fit * number for fit, number in fitting) >= spec.instances:
        return []
    if any(fit for fit, _ in fitting):
        there = math.floor(sum(fit * number for fit, number in fitting))
        return [f"{count(spec.instances, 'instance')} with {words_of(bundle)} do not fit into {where}: it has room for "
                f"{there}."]
    if not nodes:
        return [f"There is no node in {where}."]
    return [f"An instance needs {words_of(bundle)}; no node of {where} has that. The largest: "
            f"{words_of(max((resources for resources, _ in nodes), key=_order))}."]


def words_of(resources: Resources, names: Collection[str] = ()) -> str:
    """Return resources in words: those with these names; without names those that are not zero.

    Example:
        >>> words_of({"CPU": 2.0, "memory": 2**31, "GPU": 1.0, "object_store_memory": 1e9})
        '2 CPUs, 1 GPU, 2.0 GiB'
        >>> words_of({"memory": 2**31}, ["CPU"])
        '0 CPUs'
    """
    chosen = names or [name for name, amount in resources.items() if amount]
    amounts = {name: resources.get(name, 0.0) for name in ("CPU", "GPU", "memory") if name in chosen}
    return ", ".join(size(int(amount)) if name == "memory" else count_of(amount, name)
                     for name, amount in amounts.items()) or "nothing"


def count_of(amount: float, what: str) -> str:
    """Return an amount that may be a fraction, with its noun."""
    return f"{amount:g} {what}{'' if amount == 1 else 's'}"


def _fit(bundle: Resources, resources: Resources) -> int:
    """Return how many bundles fit into a node."""
    return min((math.floor(resources.get(name, 0.0) / amount + 1e-9) for name, amount in bundle.items()), default=0)


def _order(resources: Resources) -> tuple[float, ...]:
    return tuple(resources.get(name, 0.0) for name in ("GPU", "CPU", "memory"))
