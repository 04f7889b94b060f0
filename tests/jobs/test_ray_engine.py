"""What the engine decides about a Ray cluster, with a stand-in for the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from barograph.errors import ClusterUnavailable, JobError, JobRefused, SettingsError
from barograph.jobs import submitting
from barograph.jobs.controller import Controller
from barograph.jobs.engines.engine import ASKED, NotYet, Order
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.engines.ray import RayEngine, passed_environment
from barograph.jobs.engines.ray_capacity import problems_of_capacity
from barograph.jobs.engines.ray_instance import InstanceHost, clean_node, directory, node_environment
from barograph.jobs.engines.ray_own_cluster import OwnCluster, autoscaler_config, cluster_file, node_types
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, STOP, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, state_after
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import plan_of, submit
from barograph.model.clock import ManualClock
from barograph.processes.command import Command
from barograph.processes.ray_link import Member, RayLink, RayNodeInfo, RayNodes
from barograph.runs.format.metadata import sealed
from barograph.store.urls import store_from_url
from barograph.tune.space import Space
from barograph.tune.studies import check_job
from barograph.tune.trial_plan import TrialPlan

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
    is_lost: bool = False
    has: Callable[[str], bool] = lambda path: False
    """What the other nodes have."""

    def nodes(self, wait_secs: float, config: str, paths: Sequence[str]) -> RayNodes | str:
        if isinstance(self.cluster, str):
            return self.cluster
        return replace(self.cluster, nodes=tuple(
            replace(node, missing=() if node.is_here else tuple(path for path in paths if not self.has(path)))
            for node in self.cluster.nodes))

    def reserve(self, group: str, bundles: Sequence[Mapping[str, float]]) -> bool:
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

    def remove(self, group: str, members: Sequence[str] | None, cleans: str, clean: Sequence[Any]) -> bool:
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


def test_an_autoscaler_adds_only_the_nodes_of_its_cluster_file(engine: RayEngine, link: StandIn) -> None:
    link.cluster = RayNodes((node(SMALL),), scales=True, config=yaml.safe_load(FAKE))
    assert engine.problems(spec(cpus=4.0, instances=3), "/runs/digits") == []
    assert engine.problems(spec(cpus=4.0, instances=4)) == [
        "4 instances with 4 CPUs do not fit into the Ray cluster on this machine with its autoscaler: it has room for "
        "3."]
    assert engine.problems(spec(cpus=5.0)) == [
        "An instance needs 5 CPUs; no node of the Ray cluster on this machine with its autoscaler has that. The "
        "largest: 4 CPUs."]
    # A node that somebody added by hand counts, too.
    link.cluster = RayNodes((node(LARGE),), scales=True, config=yaml.safe_load(FAKE))
    assert engine.problems(spec(cpus=5.0)) == []


def test_a_directory_is_no_store_for_nodes_that_an_autoscaler_adds_elsewhere(engine: RayEngine, link: StandIn) -> None:
    link.cluster = RayNodes((node(SMALL),), scales=True, config={**yaml.safe_load(FAKE), "provider": {"type": "aws"}})
    (problem,) = engine.problems(spec(), "/runs/digits")
    assert "which nodes that the autoscaler of the Ray cluster on this machine adds cannot reach" in problem
    assert engine.problems(spec(), "s3://bucket/digits") == []


def test_the_cluster_file_is_found_at_the_process_of_the_autoscaler(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(FAKE + "auth: {ssh_user: somebody}\n")
    for number, address in ((7, "10.0.0.1:6379"), (8, "10.0.0.2:6379")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_text(
            "\0".join(["python", "monitor.py", f"--gcs-address={address}", *([f"--autoscaling-config={file}"]
                       if number == 8 else [])]))
    assert autoscaler_config("10.0.0.1:6379", tmp_path) is None
    found = autoscaler_config("10.0.0.2:6379", tmp_path)
    assert found is not None
    assert node_types(found) == node_types(yaml.safe_load(FAKE))
    assert "somebody" not in str(found)


def test_a_directory_is_a_store_only_if_all_nodes_share_it(
    engine: RayEngine, link: StandIn, tmp_path: Path
) -> None:
    url = store_from_url(tmp_path / "runs" / "a job").url
    link.cluster = RayNodes((node(SMALL), node(SMALL, is_here=False)), scales=False)
    (problem,) = engine.problems(spec(), url)
    assert "which other nodes of the Ray cluster" in problem
    assert "10.0.0.5. Use a bucket" in problem
    assert engine.problems(spec(), "s3://bucket/digits") == []
    asked: list[str] = []

    def shared(path: str) -> bool:
        asked.append(path)
        return Path(path).is_file() and Path(path).parent == tmp_path

    link.has = shared
    assert engine.problems(spec(), url) == []
    assert len(asked) == 1
    assert list(tmp_path.iterdir()) == []
    link.has = lambda path: False
    link.cluster = RayNodes((node(SMALL),), scales=False)
    assert engine.problems(spec(), url) == []


def test_data_in_directories_is_refused_if_other_nodes_do_not_have_it(
    engine: RayEngine, link: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "train").mkdir()
    job = spec(data={"train": f"{tmp_path}/train/*.csv:sharded", "val": "s3://bucket/val"})
    link.cluster = RayNodes((node(SMALL), node(SMALL, is_here=False)), scales=False)
    assert engine.problems(job, "s3://bucket/digits") == [
        "Channel train is in a directory of this machine, which other nodes of the Ray cluster on this machine do not "
        f"have, such as 10.0.0.5. Use a bucket: --data train=s3://… ({tmp_path}/train)"]
    link.has = lambda path: path == f"{tmp_path}/train"
    assert engine.problems(job, "s3://bucket/digits") == []
    file = tmp_path / "cluster.yaml"
    file.write_text(FAKE.replace("fake_multinode", "aws"))
    (problem,) = engine.problems(replace(job, cluster=str(file)), "s3://bucket/digits")
    assert "which the nodes of the cluster do not have" in problem
    file.write_text(FAKE)
    assert engine.problems(replace(job, cluster=str(file)), "s3://bucket/digits") == []


def test_a_cluster_that_is_not_there_is_the_problem(engine: RayEngine, link: StandIn) -> None:
    assert engine.problems(spec(), "/runs/digits") == ["There is no cluster."]
    assert len(engine.problems(spec(no_network=True))) == 2


def test_a_cluster_that_is_not_there_hides_no_other_problem(
    home: JobsHome, link: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code := tmp_path / "code").mkdir()
    (code / "train.py").touch()
    monkeypatch.chdir(code)
    monkeypatch.setattr(submitting, "engines", lambda home: {"ray": lambda: RayEngine(
        home, link=lambda address, environment: link)})
    wrong = spec(data={"train": str(code / "missing")}, no_network=True)
    problems = plan_of(wrong, home).problems
    assert [problem.partition(" ")[0] for problem in problems] == ["--no-network", "There", "Channel"]
    with pytest.raises(JobRefused) as caught:
        submit(wrong, to=str(tmp_path / "run"), home=home)
    assert type(caught.value) is JobRefused
    assert str(caught.value).split("\n") == list(problems)
    with pytest.raises(ClusterUnavailable, match="There is no cluster"):
        submit(spec(), to=str(tmp_path / "run"), home=home)
    with pytest.raises(ClusterUnavailable, match="There is no cluster"):
        check_job(TrialPlan("study", spec(), tmp_path.as_uri()), Space.from_mapping({"x": [1, 2]}), home)


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


def test_an_instance_whose_node_left_meanwhile_cannot_be_started(engine: RayEngine, link: StandIn) -> None:
    link.places[group_of(engine)] = []
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
    for link.failed in ("", "Cannot connect."):
        with pytest.raises(NotYet, match="not released yet"):
            engine.release("digits")
    link.is_lost = True
    engine.release("digits")  # without its head, a cluster ends all nodes


def test_the_cluster_is_that_of_the_submitting_shell(engine: RayEngine, home: JobsHome, link: StandIn) -> None:
    home.add(JobRecord("digits", "/runs/digits", 1, "ray"), {"RAY_ADDRESS": "10.0.0.1:6379", "A": "b"})
    engine.reserve("digits", spec())
    assert link.address == link.environment["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert "A" not in link.environment


@dataclass
class Desk:
    """Jobs on several clusters, and the controller that manages them."""

    home: JobsHome
    clock: ManualClock = field(default_factory=lambda: ManualClock(unix=1_800_000_000.0))
    clusters: dict[str, StandIn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        engine = RayEngine(self.home, link=self.join, clock=self.clock.monotonic)
        self.controller = Controller(self.home, {
            "ray": lambda: engine, "local": lambda: LocalEngine(self.home, cores=1)}, self.clock)

    def join(self, address: str, environment: Mapping[str, str]) -> StandIn:
        return self.clusters.setdefault(address, StandIn(address))

    def submit(self, name: str, address: str = "", **fields: Any) -> None:
        url = f"memory://{self.home.path.parent.name}-{name}"
        write_submission(store_from_url(url), Submission(name, JobSpec(("train.py",), **{"engine": "ray", **fields})))
        EventLog(store_from_url(url), EVENTS, clock=self.clock.unix).append("submitted")
        number = len(self.home.all()) + 1  # 0: at the end of the queue, by the time
        self.home.add(JobRecord(name, url, number, fields.get("engine", "ray")), {"RAY_ADDRESS": address})

    def state(self, name: str) -> JobState:
        (record,) = [record for record in self.home.all() if record.name == name]
        return state_after(EventLog(store_from_url(record.url), EVENTS).new())

    def place(self, address: str, name: str) -> None:
        engine = RayEngine(self.home)
        self.join(address, {}).places[engine._group(name)] = [("c657", "10.0.0.5")]


@pytest.fixture
def desk(home: JobsHome) -> Desk:
    return Desk(home)


def test_each_cluster_and_this_machine_have_a_queue_of_their_own(desk: Desk) -> None:
    for name, address in (("first", "a:1"), ("second", "a:1"), ("other", "b:1")):
        desk.submit(name, address)
    desk.submit("own", "a:1", cluster="/nowhere/cluster.yaml")
    desk.submit("here", engine="local", cpus=2.0)  # more than there is: it waits for ever
    desk.place("a:1", "second")
    desk.place("b:1", "other")
    desk.controller.turn()
    assert desk.state("first").reason.startswith("Waits for 1 instance with 1 CPU of the Ray cluster")
    assert desk.state("second").reason == "Waits for the jobs before it."
    assert desk.state("own").reason.startswith("Waits for the start of the cluster.")
    assert desk.state("here").reason.startswith("Waits for 2 of 1 CPUs")
    assert (desk.state("other").phase, len(desk.state("other").handles)) == ("running", 1)


def test_a_job_waits_for_an_hour_starts_then_and_can_be_stopped(desk: Desk) -> None:
    desk.submit("digits", "a:1")
    desk.submit("stopped", "b:1")
    for address in ("a:1", "b:1"):
        desk.join(address, {}).free_now = {"CPU": 0.5}
    for _ in range(60):
        desk.controller.turn()
        desk.clock.advance(60)
    for name in ("digits", "stopped"):
        assert desk.state(name).reason == "Waits for 1 instance with 1 CPU of the Ray cluster; 0.5 CPUs were free."
    (record,) = [record for record in desk.home.all() if record.name == "stopped"]
    store_from_url(record.url).put(STOP, sealed({"reason": "requested by the user"}))
    desk.place("a:1", "digits")
    desk.controller.turn()
    assert desk.state("digits").phase == "running"
    assert desk.state("stopped").phase == "stopped"
    assert desk.join("b:1", {}).done[-1][0] == "remove"
    assert [record.name for record in desk.home.all() if record.over] == ["stopped"]


def test_a_cluster_that_does_not_release_a_job_holds_up_no_other(desk: Desk) -> None:
    desk.submit("stuck", "a:1")
    desk.submit("digits", "b:1")
    desk.join("a:1", {}).removes = False
    (record,) = [record for record in desk.home.all() if record.name == "stuck"]
    store_from_url(record.url).put(STOP, sealed({"reason": "requested by the user"}))
    desk.place("b:1", "digits")
    assert desk.controller.turn() == 2
    assert desk.state("digits").phase == "running"
    assert desk.controller.turn() == 2
    desk.join("a:1", {}).removes = True
    desk.clock.advance(0.2)
    desk.controller.turn()
    assert [record.name for record in desk.home.all() if record.over] == ["stuck"]


def test_an_instance_whose_resources_never_come_is_started_elsewhere(desk: Desk) -> None:
    desk.submit("digits", "a:1")
    (record,) = desk.home.all()
    log = EventLog(store_from_url(record.url), EVENTS, clock=desk.clock.unix)
    log.new()
    log.append("starting", attempt=0)  # by a controller that was killed then
    desk.controller.turn()
    assert desk.state("digits").phase == "running"
    desk.clock.advance(61)
    desk.controller.turn()
    assert desk.state("digits").ended[0].outcome == "lost"


def test_a_cluster_is_joined_once_for_a_job_that_is_being_submitted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "a:1")
    desk.controller.prepare("ray")
    assert list(desk.clusters) == ["a:1"]
    desk.submit("digits")
    desk.home.set_environment("digits", dict(os.environ))
    desk.place("a:1", "digits")
    joined = desk.clusters.pop("a:1")
    desk.controller.turn()
    assert desk.clusters == {}  # not a second time
    assert joined.done[-1][0] == "start"
    assert desk.state("digits").phase == "running"
    desk.controller.prepare("")  # announced by somebody who knows no engine


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


def test_an_agent_that_is_asked_to_end_is_told_that_it_is_no_notice(tmp_path: Path) -> None:
    host = InstanceHost()
    host.start(Command(("sleep", "600")))
    host._work = tmp_path
    host.terminate()
    assert (tmp_path / ASKED).exists()
    while (ended := host.end_within(1.0)) is None:
        pass
    assert ended == {"exit_code": -15, "said": ""}


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
        nodes = link.nodes(600.0, "")
        assert isinstance(nodes, str)
        assert nodes.startswith("Cannot connect to the Ray cluster at 127.0.0.1:1")
        assert link.gone("digits@1/0-0") == ""
    finally:
        link.close()


@pytest.mark.parametrize(("address", "where"), [
    ("127.0.0.1:1", "at 127.0.0.1:1 (RAY_ADDRESS)"), ("", "on this machine"),
])
def test_a_cluster_that_does_not_respond_is_named(address: str, where: str) -> None:
    link = RayLink(address)
    try:
        assert link.nodes(0.0, "") == \
            f"The Ray cluster {where} does not respond within 0 s. Check that its head node is running."
    finally:
        link.close(at_once=True)


def test_a_cluster_that_demands_a_token_says_so_at_once(tmp_path: Path) -> None:
    with socket.socket() as head:
        head.bind(("127.0.0.1", 0))
        head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        link = RayLink(address, {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"})
        try:
            assert link.nodes(600.0, "") == (
                f"Cannot connect to the Ray cluster at {address} (RAY_ADDRESS): its authentication token is missing or "
                "wrong; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token to the token.")
        finally:
            link.close()


DRIVER = """
import json, os, sys
log, dies_at = sys.argv[1:]
first = not os.path.exists(log)
for line in sys.stdin:
    request = json.loads(line)
    with open(log, "a") as file:
        print(request["do"], file=file)
    if first and request["do"] == dies_at:
        sys.exit(1)
    if request["do"] == "remove":
        print(json.dumps({"removed": request["id"]}), flush=True)
    if request["do"] == "reserve":
        print(json.dumps({"group": request["group"], "nodes": [["c657", "10.0.0.5"]]}), flush=True)
    if request["do"] == "start":
        print(json.dumps({"running": request["member"]}), flush=True)
"""


@dataclass
class Killed:
    """A link whose first driver ends at a request, before it does it.

    Attributes:
        link: The link.
        log: Requests that its drivers got.
        now: Time of its clock.
    """

    link: RayLink
    log: Path
    now: list[float]

    def until(self, has_come: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 600
        while not has_come():
            assert time.monotonic() < deadline

    def wait_for_the_end(self) -> None:
        self.link._process.wait()
        self.until(lambda: not self.link.gone("none") and self.link._failed_at is not None)

    @property
    def requests(self) -> list[str]:
        return self.log.read_text().split()


@pytest.fixture
def killed_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Killed]]:
    links: list[RayLink] = []

    def make(request: str) -> Killed:
        log, now = tmp_path / "log", [0.0]
        monkeypatch.setattr("barograph.processes.ray_link.own_module", lambda *words, environment: Command(
            (sys.executable, "-c", DRIVER, str(log), request)))
        links.append(RayLink("", {}, clock=lambda: now[0]))
        return Killed(links[0], log, now)

    yield make
    for link in links:
        link.close(at_once=True)


def test_a_new_driver_first_removes_what_the_killed_one_did_not(killed_at: Callable[[str], Killed]) -> None:
    killed = killed_at("remove")
    link, bundles = killed.link, [{"CPU": 1.0}]
    killed.until(lambda: link.reserve("digits", bundles))
    assert not link.remove("digits", None, "", [])
    killed.wait_for_the_end()
    assert not link.reserve("digits", bundles)
    killed.now[0] = 10.0
    killed.until(lambda: link.reserve("digits", bundles))
    assert killed.requests == ["reserve", "remove", "remove", "reserve"]
    assert not link.remove("digits", None, "", [])  # again, although the first removal has ended
    killed.until(lambda: link.remove("digits", None, "", []))


def test_a_new_driver_starts_what_the_killed_one_did_not(killed_at: Callable[[str], Killed]) -> None:
    killed = killed_at("start")
    link = killed.link
    killed.until(lambda: link.reserve("digits", [{"CPU": 1.0}]))
    link.start(Member("digits/0-0", "digits", 0, "", ("run",)))
    killed.wait_for_the_end()
    killed.now[0] = 10.0
    killed.until(lambda: not link.gone("digits/0-0") and not link._starting)
    assert killed.requests == ["reserve", "start", "start"]
    link._process.kill()
    killed.wait_for_the_end()
    killed.now[0] = 20.0
    killed.until(lambda: not link.gone("digits/0-0") and killed.requests[3:] == ["watch"])  # not a second time


def test_a_cluster_file_says_what_there_can_be(tmp_path: Path, engine: RayEngine) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(FAKE)
    assert node_types(cluster_file(str(file))) == [({"CPU": 0}, 1), ({"CPU": 4}, 3)]
    assert engine.problems(spec(cluster=str(file), cpus=4.0, instances=3), "/runs/digits") == []
    assert engine.problems(spec(cluster=str(file), cpus=4.0, instances=4)) == [
        f"4 instances with 4 CPUs do not fit into the cluster file {file}: it has room for 3."]
    file.write_text(FAKE.replace("fake_multinode", "aws").replace("{CPU: 4}", "{}"))
    (problem,) = engine.problems(spec(cluster=str(file), cpus=64.0), "/runs/digits")
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


def test_the_address_of_a_cluster_is_found_without_waiting(
    home: JobsHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = tmp_path / "asked", tmp_path / "go"
    head = (f"import os, time; open({str(asked)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
            "print('10.0.0.9')")
    monkeypatch.setattr("barograph.jobs.engines.ray_own_cluster.ray_command", lambda *words, **options: Command(
        (sys.executable, "-c", head if words[0] == "get-head-ip" else "")))
    file = tmp_path / "cluster.yaml"
    file.write_text(FAKE.replace("fake_multinode", "aws"))
    cluster = OwnCluster(home, "digits", "digits@nobody")
    deadline = time.monotonic() + 600
    while not asked.exists():
        assert cluster.start(str(file)).startswith("Waits for the start of the cluster")
        assert time.monotonic() < deadline
    assert cluster.start(str(file)) == "Waits for the start of the cluster: its head has no address yet."
    with pytest.raises(NotYet):
        cluster.end()
    go.touch()
    while cluster.start(str(file)):
        assert time.monotonic() < deadline
    assert cluster.address == "ray://10.0.0.9:10001"
    while cluster.exists:
        with contextlib.suppress(JobError):
            cluster.end()
        assert time.monotonic() < deadline


def test_what_is_left_of_a_cluster_is_removed_by_another_controller(home: JobsHome) -> None:
    folder = home.path / "clusters" / "digits"
    folder.mkdir(parents=True)
    (folder / "cluster.yaml").write_text(FAKE)
    cluster = OwnCluster(home, "digits", "digits@nobody")
    assert (cluster.exists, cluster.address) == (True, "")
    cluster.end()
    assert not cluster.exists
