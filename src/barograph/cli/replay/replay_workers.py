"""Workers of a distributed replay: each replays its own capsule of the same step, on this machine.

If some capsules are missing, one worker replays alone, with simulated peers.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barograph.errors import BarographError
from barograph.model.capsule import CapsuleHead
from barograph.runs.format.layout import CAPSULES
from barograph.runs.state.capsules import Capsule, capsule_names, read_capsule, read_head
from barograph.store.urls import store_from_url

MOST_WORKERS = 8
"""Most workers started on one machine."""


@dataclass(frozen=True, slots=True)
class Worker:
    """One process of a replay.

    Attributes:
        place: Path of its capsule.
        rank: Its rank.
        variables: Environment variables that a launcher would set.
    """

    place: str
    rank: int
    variables: Mapping[str, str]


def workers_of(held: Capsule) -> tuple[Worker, ...]:
    """Return the workers that replay a step, the requested one first; none for a single process."""
    rank, size = held.content["machine"]["rank"], int(held.content["machine"]["world_size"])
    if rank is None or size <= 1:
        return ()
    beside = _beside(held, size) if size <= MOST_WORKERS else {}
    places = {int(rank): held.where, **beside}
    alone = len(places) < size
    port = _free_port()
    ranks = [int(rank), *(() if alone else (other for other in places if other != rank))]
    # The script sets the ranks of workers that it starts itself.
    starts_itself = is_of_children(held)
    return tuple(Worker(places[other], other, {} if starts_itself else _variables(other, size, port))
                 for other in ranks)


def is_of_children(held: Capsule) -> bool:
    """Return whether the step ran in a process that the script started itself."""
    return held.content["machine"].get("child") is True


def _beside(held: Capsule, size: int) -> dict[int, str]:
    """Return the paths of the other workers' capsules of the same step, by rank."""
    run, found, _ = held.where.rpartition(f"/{CAPSULES}/")
    if not found:
        return {}
    try:
        store = store_from_url(run)
        names = [name for name in capsule_names(store) if _is_same_step(read_head(store, name), held.head)]
        machines = {name: read_capsule(store, name).content["machine"] for name in names}
    except BarographError:
        return {}  # damaged counts as missing
    return {int(machine["rank"]): f"{run}/{CAPSULES}/{name}" for name, machine in machines.items()
            if machine["world_size"] == size and machine["rank"] is not None}


def _is_same_step(one: CapsuleHead, other: CapsuleHead) -> bool:
    return (one.attempt, one.step, one.optimizer) == (other.attempt, other.step, other.optimizer)


def _variables(rank: int, size: int, port: int) -> dict[str, str]:
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "ROLE_RANK": rank, "WORLD_SIZE": size,
               "LOCAL_WORLD_SIZE": size, "MASTER_PORT": port}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def are_alone(workers: Sequence[Worker]) -> bool:
    """Return whether one worker replays without its peers."""
    return len(workers) == 1
