"""Drains of the nodes of a Ray cluster, for a process on a node, whether or not it has joined the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from barograph.processes.ray_cluster import Head, here

RAY_NODE_VARIABLE = "BAROGRAPH_RAY_NODE"
"""Environment variable with the node of a process: `NODE_ID@ADDRESS`."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """A node of a cluster.

    Attributes:
        node_id: ID in hexadecimal digits.
        address: `HOST:PORT` of the cluster's head.
    """

    node_id: str
    address: str

    def to_environment(self) -> dict[str, str]:
        """Return the variable from which `node_from` reads this node."""
        return {RAY_NODE_VARIABLE: f"{self.node_id}@{self.address}"}


@dataclass(frozen=True, slots=True)
class Drain:
    """A request of Ray to stop using a node.

    Attributes:
        deadline_unix: When the node ends; None: not announced.
    """

    deadline_unix: float | None


def node_from(environment: Mapping[str, str]) -> RayNode | None:
    """Return the node that an environment names, None if it names none.

    Example:
        >>> node_from({"BAROGRAPH_RAY_NODE": "c657@10.0.0.5:6379"})
        RayNode(node_id='c657', address='10.0.0.5:6379')
    """
    node_id, _, address = environment.get(RAY_NODE_VARIABLE, "").partition("@")
    return RayNode(node_id, address) if node_id and address else None


def this_node() -> RayNode:
    """Return the node of this process, which runs as a task or actor of Ray.

    Raises:
        MissingExtra: Ray is not installed.
    """
    return RayNode(*here())


def drain_of(node: RayNode) -> Callable[[], Drain | None]:
    """Return a function that queries the head of the cluster for a drain of a node.

    It raises `HostLost` if the head does not respond, and `MissingExtra` if Ray is not installed.
    """
    client: list[Head] = []

    def drain() -> Drain | None:
        if not client:
            client.append(Head(node.address))
        milliseconds = client[0].drains().get(node.node_id)
        if milliseconds is None:
            return None
        return Drain(milliseconds / 1000 if milliseconds else None)

    return drain
