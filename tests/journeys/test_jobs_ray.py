"""Jobs on a real Ray cluster: a head without CPUs and nodes with one each, all on this machine."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster
from ray.core.generated import autoscaler_pb2

from barograph.jobs.home import JobsHome
from barograph.jobs.job_report import JobView, view_of
from barograph.jobs.launchers import free_ports
from barograph.jobs.state import JobState
from barograph.machine.marked import kill_marked, marked_processes, program_of
from barograph.tune.study import Study
from journeys.conftest import Desk, Ended

NAME = f"run-{os.getpid()}"
"""Of the jobs: tests of another process may run jobs on this machine, too."""
MARK = f"{NAME}@"

WAITING = """
import sys, time
from pathlib import Path
folder = Path(sys.argv[1])
number = len(list(folder.glob("started-*")))
(folder / f"started-{number}").touch()
while not (folder / "go").exists():
    time.sleep(0.05)
"""

TRAINING = """
import sys, time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
model = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
total = 0
for epoch in range(5):
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.arange(96) % 3), batch_size=4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        total += 1
        if total == 8:
            Path(sys.argv[1], "reached").touch()
        time.sleep(0.05)
"""

TOGETHER = TRAINING.replace("optimizer =", """
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer =""", 1) + "torch.distributed.destroy_process_group()\n"


CLUSTER = """
cluster_name: fake
max_workers: 2
idle_timeout_minutes: 0.1
provider: {type: fake_multinode, use_node_id_as_ip: true, head_node_id: FAKE_HEAD_NODE_ID}
head_node_type: head
available_node_types:
  head: {resources: {CPU: 0}, node_config: {}, max_workers: 0}
  worker: {resources: {CPU: 1, object_store_memory: 80000000}, node_config: {}, min_workers: 0, max_workers: 2}
upscaling_speed: 1.0
docker: {}
auth: {}
file_mounts: {}
cluster_synced_files: []
file_mounts_sync_continuously: false
rsync_exclude: []
rsync_filter: []
initialization_commands: []
setup_commands: []
head_setup_commands: []
worker_setup_commands: []
head_start_ray_commands: []
worker_start_ray_commands: []
"""


@dataclass
class Place:
    """A cluster, and the desk that submits to it."""

    cluster: Cluster
    desk: Desk
    nodes_home: Path

    def submit(self, *words: str | Path) -> Ended:
        return self.desk.end(self.desk.start("barograph", "submit", "--engine", "ray", "--to", NAME, *words))

    def view(self) -> JobView:
        return view_of(NAME, self._home)

    def state(self) -> JobState:
        return self.view().refresh()

    def wait_until(self, condition: Callable[[JobState], Any], what: str) -> JobState:
        view = self.view()
        self.desk.wait_until(lambda: condition(view.refresh()), what)
        return view.refresh()

    def finish(self) -> JobState:
        """Let the script end; see `end`."""
        (self.desk.folder / "go").touch()
        return self.end("finished")

    def end(self, phase: str) -> JobState:
        """Return the job after it has ended, once nothing is left of it."""
        state = self.wait_until(lambda state: state.phase.is_over, "the job ended")
        assert state.phase == phase, state.reason
        self.desk.wait_until(lambda: all(record.over for record in self._home.all()), "the job was closed")
        self.desk.wait_until(lambda: not self.left(), "nothing of the job is left")
        return state

    def left(self) -> list[Any]:
        """Return what the cluster still has of the job."""
        groups = [group for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]
        return [*ray.util.list_named_actors(all_namespaces=True), *groups, *(self.nodes_home / "ray").glob("*"),
                *marked_processes("BAROGRAPH_INSTANCE", MARK)]

    def controllers(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter(["cmdline"])
                if "barograph.jobs.controller" in (words := process.info["cmdline"] or ())
                and str(self._home.path) in words]

    def kill_drivers(self) -> int:
        """Kill the drivers of the controllers; return how many there were."""
        killed = 0
        for controller in self.controllers():
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                for child in controller.children():
                    if "barograph.processes.ray_driver" in child.cmdline():
                        child.kill()
                        killed += 1
        return killed

    def node(self, node_id: str) -> Any:
        return next(node for node in self.cluster.worker_nodes if node.node_id == node_id)

    @property
    def _home(self) -> JobsHome:
        return JobsHome(self.desk.environment["BAROGRAPH_HOME"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("BAROGRAPH_HOME", str(tmp_path_factory.mktemp("nodes")))
        sizes = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **sizes})
        try:
            for gpus in (1, 0):
                cluster.add_node(num_cpus=1, num_gpus=gpus, object_store_memory=80 * 2**20)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture
def place(cluster: Cluster, desk: Desk) -> Iterator[Place]:
    desk.environment |= {"RAY_ADDRESS": cluster.address, "RAY_AUTH_MODE": "disabled",
                         "BAROGRAPH_HOME": str(desk.folder / "home")}
    place = Place(cluster, desk, Path(os.environ["BAROGRAPH_HOME"]))
    yield place
    for process in place.controllers():
        process.kill()


def test_a_job_gets_what_it_names_of_the_environment_and_leaves_nothing(place: Place) -> None:
    place.desk.environment |= {"PASSED": "first-secret-8341", "KEPT": "second-secret-8341", "AWS_REGION": "here"}
    place.desk.write("show.py", "import os\nprint([os.environ.get(name) for name in "
                                "('KEPT', 'AWS_REGION', 'CUDA_VISIBLE_DEVICES')], "
                                "len(os.environ['PASSED']), os.environ.get('OMP_NUM_THREADS'))\n"
                                "open(os.path.join(os.environ['SM_MODEL_DIR'], 'weights'), 'w').write('1')\n")
    done = place.submit("--wait", "--gpus", "1", "--env", "PASSED", "show.py")
    assert done.code == 0, done.err
    assert "[None, 'here', '0'] 17 1" in done.text
    assert place.finish().exit_code == 0
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    for file in (*logs.rglob("*"), *(place.desk.folder / NAME).rglob("*")):
        assert not file.is_file() or b"secret-8341" not in file.read_bytes(), file


@pytest.mark.parametrize(("options", "reason"), [
    (("--cpus", "2"), "An instance needs 2 CPUs; no node of the Ray cluster at"),
    (("--gpus", "2"), "An instance needs 1 CPU, 2 GPUs; no node of the Ray cluster at"),
    (("--instances", "3"), "3 instances with 1 CPU do not fit into the Ray cluster at"),
])
def test_a_job_that_never_fits_is_refused_with_what_there_is(
    place: Place, options: tuple[str, ...], reason: str
) -> None:
    place.desk.write("empty.py", "")
    done = place.submit(*options, "empty.py")
    assert done.code != 0
    assert reason in done.err
    assert not (place.desk.folder / NAME).exists()


def test_a_job_without_its_cluster_is_refused(place: Place) -> None:
    place.desk.environment["RAY_ADDRESS"] = "127.0.0.1:1"
    place.desk.write("empty.py", "")
    done = place.submit("empty.py")
    assert "Cannot connect to the Ray cluster at 127.0.0.1:1" in done.err


def test_two_instances_train_together_and_resume_after_one_agent_was_killed(place: Place) -> None:
    place.desk.write("train.py", TOGETHER)
    options = ("--instances", "2", "--checkpoint-every", "every=3")
    assert place.submit(*options, "train.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "reached").exists, "both trained")
    agent = next(pid for pid in marked_processes("BAROGRAPH_INSTANCE", MARK)
                 if (program := program_of(pid)) and {"barograph.jobs.agent", "1"} <= set(program.arguments))
    os.kill(agent, signal.SIGKILL)
    state = place.finish()
    assert (state.attempt, state.interruptions) == (1, 1)
    assert state.resumed_steps >= 6


def test_a_study_trains_its_trials_on_the_nodes(place: Place) -> None:
    place.desk.write("tuned.py", "import sys\nx = float(sys.argv[sys.argv.index('--x') + 1])\n"
                                 "print(f'score: {1 - (x - 0.5) ** 2}', flush=True)\n")
    ended = place.desk.end(place.desk.start(
        "barograph", "tune", "tuned.py", "--engine", "ray", "--spot", "--vary", "x=0.1,0.4,0.8", "--strategy", "grid",
        "--maximize", "score", "--metric", "score=score: ([0-9.]+)", "--parallel", "2", "--name", "onray", "--to",
        place.desk.folder / "runs"))
    assert ended.code == 0, ended.err
    assert "score 0.99 with x=0.4" in ended.text
    assert [str(trial.state) for trial in Study.open(place.desk.folder / "runs/studies/onray").trials] == [
        "finished"] * 3
    home = JobsHome(place.desk.environment["BAROGRAPH_HOME"])
    place.desk.wait_until(lambda: all(record.over for record in home.all()), "the jobs were closed")
    assert {record.engine for record in home.all()} == {"ray"}
    assert len(home.all()) == 3


def test_a_killed_controller_is_replaced_and_the_instances_go_on(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    assert place.submit("wait.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "started-0").exists, "the script ran")
    for process in place.controllers():
        process.kill()
        process.wait(600)
    assert NAME in place.desk.end(place.desk.start("barograph", "jobs")).text
    state = place.finish()
    assert (state.attempt, state.interruptions) == (0, 0)
    assert not (place.desk.folder / "started-1").exists()


def test_drivers_that_are_killed_in_every_phase_are_replaced_and_the_instances_go_on(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    assert place.submit("wait.py", place.desk.folder).code == 0
    place.desk.wait_until(place.kill_drivers, "a driver joined the cluster")
    place.wait_until(lambda state: state.handles, "its instance was started")
    assert place.kill_drivers() == 1
    place.desk.wait_until((place.desk.folder / "started-0").exists, "the script ran")
    place.desk.wait_until(place.kill_drivers, "a driver watched the instance")
    (place.desk.folder / "go").touch()
    place.wait_until(lambda state: state.phase.is_over, "the job ended")
    place.kill_drivers()  # while the instance is released
    assert place.finish().interruptions == 0
    assert not (place.desk.folder / "started-1").exists()


def test_the_same_job_file_gives_the_same_losses_on_this_machine_and_on_a_cluster(place: Place) -> None:
    place.desk.write("train.py", TRAINING.replace("time.sleep", "float"))
    place.desk.write("job.toml", f'command = ["train.py", "{place.desk.folder}"]\ncpus = 1\n')
    for engine in ("ray", "local"):
        done = place.desk.end(place.desk.start("barograph", "submit", "--engine", engine, "--to", engine, "--wait",
                                               "job.toml"))
        assert done.code == 0, done.err
    losses = [place.desk.open(engine).series("loss:cross_entropy").values.tolist() for engine in ("ray", "local")]
    assert len(losses[0]) == 120
    assert losses[0] == losses[1]


def test_a_job_that_waits_for_capacity_says_so_and_is_stopped(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    words = ("submit", "--engine", "ray", "--to", "all", "--instances", "2", "wait.py", place.desk.folder)
    assert place.desk.end(place.desk.start("barograph", *words)).code == 0
    place.desk.wait_until((place.desk.folder / "started-0").exists, "it had all nodes")
    assert place.submit("wait.py", place.desk.folder).code == 0
    place.wait_until(lambda state: state.reason == "Waits for 1 instance with 1 CPU of the Ray cluster; 0 CPUs were "
                                                   "free.", "it waits with a reason")
    assert place.desk.end(place.desk.start("barograph", "stop", NAME)).code == 0
    assert place.wait_until(lambda state: state.phase.is_over, "the job ended").phase == "stopped"
    (place.desk.folder / "go").touch()
    place.end("stopped")


LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix>digits/</Prefix>
<KeyCount>1</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated><Contents><Key>digits/a</Key>
<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"1"</ETag><Size>3</Size>
<StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>"""


class SlowBucket(http.server.BaseHTTPRequestHandler):
    """A bucket with one object, which nobody gets until it is released."""

    asked, released = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        body = LISTING
        if "list-type" not in self.path:
            self.asked.set()
            self.released.wait()
            body = b"abc"
        self.send_response(200)
        for name, value in (("Content-Length", str(len(body))), ("ETag", '"1"'),
                            ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")):
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Print nothing."""


def test_a_job_gets_its_data_elsewhere_when_its_node_is_lost_during_the_copy(place: Place) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowBucket)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place.desk.environment |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ALLOW_HTTP": "true",
                               "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "here"}
    place.desk.write("read.py", "import sys\nassert open(sys.argv[1] + '/a').read() == 'abc'\n")
    try:
        done = place.submit("--data", "train=s3://bucket/digits", "read.py", "{data.train}")
        assert done.code == 0, done.err
        place.desk.wait_until(SlowBucket.asked.is_set, "the data was asked for")
        lost = place.state().handles[0]["node"]
        place.cluster.remove_node(place.node(lost), allow_graceful=False)
        place.desk.wait_until(lambda: place.state().interruptions == 1, "the loss is noticed")
        SlowBucket.released.set()
        state = place.finish()
    finally:
        SlowBucket.released.set()
        server.shutdown()
        server.server_close()
        place.cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    assert (state.attempt, state.interruptions) == (1, 1)
    assert state.handles[0]["node"] != lost


def test_a_cluster_that_demands_a_token_says_so_and_takes_the_right_one(desk: Desk) -> None:
    token, mark, port = "a" * 64, str(desk.folder), free_ports(1)
    desk.environment |= {
        "RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0",
        "BAROGRAPH_HOME": str(desk.folder / "home")}
    desk.write("empty.py", "")
    words = ("submit", "--engine", "ray", "--to", NAME, "--wait", "empty.py")
    try:
        desk.environment |= {"RAY_AUTH_TOKEN": token, "BAROGRAPH_TEST_HEAD": mark}
        head = desk.python("-m", "ray.scripts.scripts", "start", "--head", "--port", str(port), "--num-cpus",
                                    "1", "--node-ip-address", "127.0.0.1", "--include-dashboard=false",
                                    "--object-store-memory", "80000000")
        assert head.code == 0, head.err
        desk.environment |= {"BAROGRAPH_TEST_HEAD": "", "RAY_AUTH_TOKEN": "b" * 64}
        refused = desk.end(desk.start("barograph", *words))
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused.err
        assert "its authentication token is missing or wrong; set RAY_AUTH_MODE=token" in refused.err
        desk.environment["RAY_AUTH_TOKEN"] = token
        done = desk.end(desk.start("barograph", *words))
        assert done.code == 0, done.err
    finally:
        kill_marked("BAROGRAPH_TEST_HEAD", mark)


def test_a_cluster_is_created_for_a_job_and_removed_also_after_a_killed_controller(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    place.desk.write("cluster.yaml", CLUSTER)
    assert "has room for 2" in place.submit("--cluster", "cluster.yaml", "--instances", "3", "wait.py", ".").err
    assert place.submit("--cluster", "cluster.yaml", "wait.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "started-0").exists, "the script ran")
    assert marked_processes("BAROGRAPH_CLUSTER", MARK)
    address = (place.desk.folder / "home" / "clusters" / NAME / "address").read_text()
    place.desk.environment["RAY_ADDRESS"] = address
    assert f"no node of the Ray cluster at {address} with its autoscaler has that. The largest: 1 CPU." in \
        place.submit("--cpus", "2", "wait.py", ".").err
    for process in place.controllers():
        process.kill()
        process.wait(600)
    assert place.desk.end(place.desk.start("barograph", "jobs")).code == 0
    assert place.finish().interruptions == 0
    assert marked_processes("BAROGRAPH_CLUSTER", MARK) == []
    assert list((place.desk.folder / "home" / "clusters").iterdir()) == []


def test_a_job_goes_on_when_its_node_is_lost(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    assert place.submit("wait.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "started-0").exists, "the script ran")
    lost = place.state().handles[0]["node"]
    place.cluster.remove_node(place.node(lost), allow_graceful=False)
    place.desk.wait_until((place.desk.folder / "started-1").exists, "it ran elsewhere")
    state = place.finish()
    assert state.interruptions == 1
    assert state.handles[0]["node"] != lost
    events = b"".join(path.read_bytes() for path in (place.desk.folder / NAME / "job" / "events").iterdir())
    assert b"The instance was lost. Its node left the Ray cluster." in events
    place.cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)


def test_a_job_saves_on_a_node_that_is_drained_and_resumes_on_another_one(place: Place) -> None:
    place.desk.write("train.py", TRAINING)
    assert place.submit("--spot", "train.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "reached").exists, "it trained")
    drained = place.state().handles[0]["node"]
    assert ray._raylet.GcsClient(address=place.cluster.address).drain_node(
        drained, autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"), "spot",
        int(time.time() + 120) * 1000)[0]
    state = place.finish()
    assert state.handles[0]["node"] != drained
    assert (state.attempt, state.interruptions) == (1, 1)
    assert state.resumed_steps >= 8
    assert state.repeated_steps <= 1


def test_a_job_is_stopped(place: Place) -> None:
    place.desk.write("wait.py", WAITING)
    assert place.submit("wait.py", place.desk.folder).code == 0
    place.desk.wait_until((place.desk.folder / "started-0").exists, "the script ran")
    assert place.desk.end(place.desk.start("barograph", "stop", NAME)).code == 0
    assert place.end("stopped").stop == "requested by the user"
