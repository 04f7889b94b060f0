"""What the engine decides about a Ray cluster, with a stand-in for the cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import JobError, SettingsError
from barograph.jobs.engines.engine import Order
from barograph.jobs.engines.ray import RayEngine, passed_environment
from barograph.jobs.engines.ray_capacity import problems_of_capacity
from barograph.jobs.engines.ray_instance import InstanceHost, clean_node, directory, node_environment
from barograph.jobs.engines.ray_own_cluster import OwnCluster, cluster_file, node_types
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.spec import JobSpec
from barograph.processes.command import Command
from barograph.processes.ray_link import Member, RayLink, RayNodeInfo, RayNodes

SMALL = {"CPU": 2.0, "memory": 4.0 * 2**30}
LARGE = {"CPU": 8.0, "memory": 16.0 * 2**30, "GPU": 2.0}
FAKE = """
cluster_name: fake
max_workers: 3
provider: {type: fake_multinode}
head_node_type: head
available_node_types:
  head: {resources: {CPU: 0}}
  worker: {resources: {CPU: 4}, max_workers: 8}
"""


@dataclass
class StandIn:
    """A cluster as `RayLink` shows it."""

    address: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cluster: RayNodes | str = "There is no cluster."
    free_now: Mapping[str, float] | None = None
    failed: str = ""
    places: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    done: list[tuple[Any, ...]] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)
    removes: bool = True

    def nodes(self, wait_secs: float) -> RayNodes | str:
        return self.cluster

    def reserve(self, group: str, bundles: Sequence[Mapping[str, float]], wait_secs: float = 0.0) -> bool:
        self.done.append(("reserve", group, bundles))
        return group in self.places

    def placed(self, group: str) -> list[tuple[str, str]]:
        return self.places[group]

    def free(self, group: str) -> Mapping[str, float] | None:
        return self.free_now

    def start(self, member: Member) -> None:
        self.done.append(("start", member))

    def watch(self, member: str) -> None:
        self.done.append(("watch", member))

    def gone(self, member: str) -> str:
        return self.ends.get(member, "")

    def call(self, member: str, method: str) -> None:
        self.done.append(("call", member, method))

    def remove(self, group: str, members: Sequence[str] | None, cleans: str, clean: Sequence[Any],
               wait_secs: float = 0.0) -> bool:
        self.done.append(("remove", group, members, clean))
        return self.removes

    def close(self, *, at_once: bool = False) -> None:
        self.done.append(("close",))


@pytest.fixture
def home(tmp_path: Path) -> JobsHome:
    return JobsHome(tmp_path / "home")


@pytest.fixture
def link() -> StandIn:
    return StandIn()


@pytest.fixture
def engine(home: JobsHome, link: StandIn) -> RayEngine:
    def join(address: str, environment: Mapping[str, str]) -> StandIn:
        link.address, link.environment = address, environment
        return link

    return RayEngine(home, link=join, clock=lambda: 0.0)


def group_of(engine: RayEngine) -> str:
    return engine._group("digits")


def node(resources: Mapping[str, float], *, is_here: bool = True) -> RayNodeInfo:
    return RayNodeInfo("c657", "10.0.0.5", resources, is_here)


def spec(**fields: Any) -> JobSpec:
    return JobSpec(("train.py",), engine="ray", **fields)


@pytest.mark.parametrize(("fields", "problem"), [
    ({}, []),
    ({"instances": 10}, []),
    ({"instances": 11}, ["11 instances with 1 CPU do not fit into the cluster: it has room for 10."]),
    ({"gpus": 1, "cpus": 4.0, "instances": 2}, []),
    ({"gpus": 1, "cpus": 5.0, "instances": 2},
     ["2 instances with 5 CPUs, 1 GPU do not fit into the cluster: it has room for 1."]),
    ({"gpus": 3}, ["An instance needs 1 CPU, 3 GPUs; no node of the cluster has that. The largest: 8 CPUs, 2 GPUs, "
                   "16.0 GiB."]),
    ({"memory_bytes": 2**35}, ["An instance needs 1 CPU, 32.0 GiB; no node of the cluster has that. The largest: "
                               "8 CPUs, 2 GPUs, 16.0 GiB."]),
    ({"cpus": 0.1, "instances": 100}, []),
])
def test_capacity_counts_what_a_node_has_at_once(fields: dict[str, Any], problem: list[str]) -> None:
    assert problems_of_capacity(spec(**fields), [(SMALL, 1), (LARGE, 1)], "the cluster") == problem


def test_a_cluster_that_scales_may_get_larger_nodes(engine: RayEngine, link: StandIn) -> None:
    link.cluster = RayNodes((node(SMALL),), scales=False)
    assert len(engine.problems(spec(cpus=3.0))) == 1
    link.cluster = RayNodes((node(SMALL),), scales=True)
    assert engine.problems(spec(cpus=3.0)) == []


def test_a_directory_is_a_store_only_if_all_nodes_are_here(engine: RayEngine, link: StandIn) -> None:
    link.cluster = RayNodes((node(SMALL), node(SMALL, is_here=False)), scales=False)
    (problem,) = engine.problems(spec(), "file:///runs/digits")
    assert "which other nodes of the Ray cluster" in problem
    assert "10.0.0.5. Use a bucket" in problem
    assert engine.problems(spec(), "s3://bucket/digits") == []
    link.cluster = RayNodes((node(SMALL),), scales=False)
    assert engine.problems(spec(), "file:///runs/digits") == []


def test_a_cluster_that_is_not_there_is_the_problem(engine: RayEngine, link: StandIn) -> None:
    assert engine.problems(spec(), "file:///runs/digits") == ["There is no cluster."]


def test_no_network_is_refused_because_nodes_do_not_enforce_it(engine: RayEngine, link: StandIn) -> None:
    link.cluster = RayNodes((node(SMALL),), scales=False)
    assert engine.problems(spec(no_network=True)) == [
        "--no-network needs --engine local: on a Ray cluster nobody enforces it."]


def test_without_ray_the_extra_is_named(engine: RayEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert engine.problems(spec()) == ["Ray is not installed. Install it: pip install 'barograph[ray]'"]


def test_a_job_waits_with_a_reason(engine: RayEngine, link: StandIn) -> None:
    job = spec(instances=2, cpus=4.0)
    assert engine.reserve("digits", job) == "Waits for 2 instances with 4 CPUs of the Ray cluster."
    link.free_now = {"CPU": 3.0}
    assert engine.reserve("digits", job) == (
        "Waits for 2 instances with 4 CPUs of the Ray cluster; 3 CPUs were free.")
    link.free_now = {"memory": 1e9}
    assert engine.reserve("digits", job).endswith("; 0 CPUs were free.")
    link.failed = "Cannot connect."
    assert engine.reserve("digits", job) == "Waits for the Ray cluster. Cannot connect."
    link.places[group_of(engine)] = [("c657", "10.0.0.5")] * 2
    assert engine.reserve("digits", job) == ""
    assert link.done[-1] == ("reserve", group_of(engine), [{"CPU": 4.0}] * 2)


def test_an_instance_is_started_in_its_bundle_and_its_handle_finds_it_again(
    engine: RayEngine, home: JobsHome, link: StandIn
) -> None:
    group = group_of(engine)
    link.places[group] = [("c657", "10.0.0.5"), ("d768", "10.0.0.6")]
    order = Order("digits", "s3://bucket/digits", spec(instances=2, environment=("TOKEN",)), 3, 1,
                  {"TOKEN": "secret", "HOME": "/root"})
    handle = json.loads(json.dumps(engine.start(order)))
    assert "secret" not in str(handle)
    ((_, member),) = [item for item in link.done if item[0] == "start"]
    assert (member.name, member.group, member.bundle) == (f"{group}/3-1", group, 1)
    assert member.call == ("run", group, 3, 1, "s3://bucket/digits", "digits", "10.0.0.6", {"TOKEN": "secret"})

    later = StandIn(ends={f"{group}/3-1": "Its node left the Ray cluster."})
    another = RayEngine(home, link=lambda address, environment: later)
    another.adopt("digits", spec(instances=2), {1: handle})
    assert ("watch", f"{group}/3-1") in later.done
    assert another.is_gone(handle) == "Its node left the Ray cluster."
    another.ask_to_end(handle)
    another.kill(handle)
    assert later.done[-2:] == [("call", f"{group}/3-1", "terminate"),
                               ("remove", group, [f"{group}/3-1"], [group, "3-1"])]


def test_an_instance_whose_node_left_meanwhile_cannot_be_started(engine: RayEngine) -> None:
    order = Order("digits", "s3://bucket/digits", spec(), 0, 0, {})
    with pytest.raises(JobError, match="its node left the Ray cluster"):
        engine.start(order)


def test_an_instance_is_killed_once_in_a_while(engine: RayEngine, link: StandIn) -> None:
    handle = {"job": "digits", "group": "g", "instance": "0-0", "actor": "g/0-0"}
    engine.kill(handle)
    engine.kill(handle)
    assert [item[0] for item in link.done] == ["remove"]


def test_what_is_not_released_is_tried_again(engine: RayEngine, link: StandIn) -> None:
    link.removes = False
    with pytest.raises(JobError, match="not released yet"):
        engine.release("digits")
    link.failed = "Cannot connect."
    engine.release("digits")  # without its head, a cluster ends all nodes


def test_the_cluster_is_that_of_the_submitting_shell(engine: RayEngine, home: JobsHome, link: StandIn) -> None:
    home.add(JobRecord("digits", "file:///runs/digits", 1, "ray"), {"RAY_ADDRESS": "10.0.0.1:6379", "A": "b"})
    engine.reserve("digits", spec())
    assert link.address == link.environment["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert "A" not in link.environment


def test_only_what_a_job_needs_elsewhere_is_passed() -> None:
    given = {"AWS_REGION": "x", "GOOGLE_CLOUD_PROJECT": "y", "AZURE_TENANT_ID": "z", "BAROGRAPH_TRUST": "t",
             "BAROGRAPH_HOME": "/root", "BAROGRAPH_ADDRESS": "a", "PATH": "/bin", "TOKEN": "secret"}
    assert passed_environment(given, ()) == {
        "AWS_REGION": "x", "GOOGLE_CLOUD_PROJECT": "y", "AZURE_TENANT_ID": "z", "BAROGRAPH_TRUST": "t"}
    assert passed_environment(given, ("TOKEN",))["TOKEN"] == "secret"


def test_a_node_keeps_its_environment_but_for_what_ray_sets() -> None:
    assert node_environment({"PATH": "/bin", "RAY_RAYLET_PID": "1", "RAY_AUTH_TOKEN": "t", "OMP_NUM_THREADS": "1",
                             "CUDA_VISIBLE_DEVICES": "1"}) == {
        "PATH": "/bin", "RAY_AUTH_TOKEN": "t", "CUDA_VISIBLE_DEVICES": "1"}


def test_a_node_is_cleaned_of_one_instance_or_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path))
    for instance in ("0-0", "0-1"):
        (directory("digits@1") / instance).mkdir(parents=True)
    clean_node("digits@1", "0-1")
    assert os.listdir(directory("digits@1")) == ["0-0"]
    clean_node("digits@1", "")
    assert not directory("digits@1").exists()


def host_of_an_ended_agent(monkeypatch: pytest.MonkeyPatch, home: Path, left: list[str], secs: float) -> InstanceHost:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home))
    (directory("digits@1") / "0-0").mkdir(parents=True)
    host = InstanceHost(unattended_secs=secs, leave=left.append)
    host.start(Command((sys.executable, "-c", "pass")))
    return host


def test_an_instance_that_no_controller_releases_releases_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    host = host_of_an_ended_agent(monkeypatch, tmp_path, left, 0.0)
    host._release_unattended("digits@1", "0-0")
    assert left == ["digits@1/"]
    assert not directory("digits@1").exists()


def test_an_instance_that_a_controller_releases_does_nothing_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    host = host_of_an_ended_agent(monkeypatch, tmp_path, left, 600.0)
    host._cleaned.set()
    host._release_unattended("digits@1", "0-0")
    assert left == []


def test_a_cluster_that_nobody_runs_is_not_waited_for() -> None:
    link = RayLink("127.0.0.1:1")
    try:
        nodes = link.nodes(600.0)
        assert isinstance(nodes, str)
        assert nodes.startswith("Cannot connect to the Ray cluster at 127.0.0.1:1")
        assert link.gone("digits@1/0-0") == ""
    finally:
        link.close()


def test_a_cluster_file_says_what_there_can_be(tmp_path: Path, engine: RayEngine) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(FAKE)
    assert node_types(cluster_file(str(file))) == [({"CPU": 0}, 1), ({"CPU": 4}, 3)]
    assert engine.problems(spec(cluster=str(file), cpus=4.0, instances=3), "file:///runs/digits") == []
    assert engine.problems(spec(cluster=str(file), cpus=4.0, instances=4)) == [
        f"4 instances with 4 CPUs do not fit into the cluster file {file}: it has room for 3."]
    file.write_text(FAKE.replace("fake_multinode", "aws").replace("{CPU: 4}", "{}"))
    (problem,) = engine.problems(spec(cluster=str(file), cpus=64.0), "file:///runs/digits")
    assert "Use a bucket" in problem


@pytest.mark.parametrize(("text", "problem"), [
    (None, "Cannot read the cluster file"), ("{", "is not valid YAML"), ("- 1", "has no table provider"),
    ("provider: {type: aws}", "has no table available_node_types"),
])
def test_a_wrong_cluster_file_is_refused(tmp_path: Path, engine: RayEngine, text: str | None, problem: str) -> None:
    file = tmp_path / "cluster.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError, match=problem):
        cluster_file(str(file))
    assert problem in engine.problems(spec(cluster=str(file)))[0]
    assert problem in engine.reserve("digits", spec(cluster=str(file)))  # it was changed after the submission


def test_what_is_left_of_a_cluster_is_removed_by_another_controller(home: JobsHome) -> None:
    folder = home.path / "clusters" / "digits"
    folder.mkdir(parents=True)
    (folder / "cluster.yaml").write_text(FAKE)
    cluster = OwnCluster(home, "digits", "digits@nobody")
    assert (cluster.exists, cluster.address) == (True, "")
    cluster.end()
    assert not cluster.exists
