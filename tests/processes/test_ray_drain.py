"""A node of a real Ray cluster that is drained is a notice, for a process that has not joined the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.core.generated import autoscaler_pb2

from barograph.jobs.interruptions.notice import Notice
from barograph.jobs.interruptions.ray_drain import RayDrainSource
from barograph.processes.process import HostLost
from barograph.processes.ray_cluster import Remote
from barograph.processes.ray_drain import RayNode, drain_of, node_from, this_node


@pytest.fixture(scope="module", autouse=True)
def cluster(joined_cluster: Any) -> Iterator[None]:
    """A small cluster on this machine, which this process has joined."""
    with joined_cluster(cpus=1):
        yield


class Resident:
    """Lives on a node, so that it is not idle."""

    def node(self) -> RayNode:
        return this_node()


def test_a_drained_node_is_a_notice() -> None:
    resident = Remote(Resident)
    node: RayNode = resident.call("node")
    assert node_from(node.to_environment()) == node
    source = RayDrainSource(drain_of(node))
    assert source.poll() is None
    deadline_ms = int(time.time() + 600) * 1000
    accepted, why = ray._raylet.GcsClient(address=node.address).drain_node(
        node.node_id, autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"), "spot", deadline_ms)
    assert (accepted, why) == (True, "")
    assert source.poll() == Notice("ray", "Ray drains this node", deadline_ms / 1000)
    assert RayDrainSource(drain_of(RayNode("0" * 56, node.address))).poll() is None


def test_a_head_that_does_not_respond_is_not_a_notice() -> None:
    node = RayNode("0" * 56, "127.0.0.1:1")
    with pytest.raises(HostLost):
        drain_of(node)()
    assert RayDrainSource(drain_of(node)).poll() is None
