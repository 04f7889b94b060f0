"""A Ray cluster that is created for one job from a cluster file, and removed after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barograph.errors import JobError, SettingsError
from barograph.jobs.engines.engine import NotYet
from barograph.jobs.engines.ray_capacity import Resources
from barograph.jobs.home import JobsHome
from barograph.jobs.launchers import free_ports
from barograph.machine.marked import kill_marked
from barograph.processes.local_process import DEVNULL, LocalProcess
from barograph.processes.process import ended_reason
from barograph.processes.ray_cli import ray_command
from barograph.processes.run_to_end import NotCompleted, run_to_end

CLUSTER_VARIABLE = "BAROGRAPH_CLUSTER"
"""Environment variable that marks the processes of a cluster on this machine."""

_FAKE = "fake_multinode"
_CONFIG, _ADDRESS = "--autoscaling-config=", "--gcs-address="
_CLIENT_PORT = 10001
_ADDRESS_SECS = 60.0
_NO_ADDRESS = "Waits for the start of the cluster: its head has no address yet."


def cluster_file(path: str) -> dict[str, Any]:
    """Return the content of a cluster file.

    Raises:
        SettingsError: It cannot be read, or lacks a provider or node types.
    """
    import yaml  # loaded here, because most jobs have no cluster file

    try:
        content: dict[str, Any] = yaml.safe_load(Path(path).read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"Cannot read the cluster file {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"The cluster file {path} is not valid YAML: {error}.") from error
    for name in ("provider", "available_node_types"):
        if not isinstance(content, dict) or not isinstance(content.get(name), dict):
            raise SettingsError(f"The cluster file {path} has no table {name}.")
    return content


def is_on_this_machine(content: Mapping[str, Any]) -> bool:
    """Return whether all nodes of a cluster file are processes of this machine, as for tests."""
    return bool(content["provider"].get("type") == _FAKE)


def node_types(content: Mapping[str, Any]) -> list[tuple[Resources, float]] | None:
    """Return the resources of each node type and how many of its nodes there can be; None if some are not given.

    Example:
        >>> node_types({"max_workers": 2, "available_node_types": {"a": {"resources": {"CPU": 4}, "max_workers": 8}}})
        [({'CPU': 4}, 2)]
    """
    found: list[tuple[Resources, float]] = []
    most = content.get("max_workers", 2)
    for name, node in content["available_node_types"].items():
        if not node.get("resources"):
            return None  # the provider knows them
        is_head = name == content.get("head_node_type")
        found.append((node["resources"], 1 if is_head else min(node.get("max_workers", most), most)))
    return found


def autoscaler_config(address: str, processes: Path = Path("/proc")) -> dict[str, Any] | None:
    """Return what matters of the cluster file of an autoscaler on this machine; None if there is none.

    Ray publishes it nowhere: the process of the autoscaler, on the machine of the head, has it as a file.

    Args:
        address: `HOST:PORT` of the cluster's head.
        processes: Directory of the process file system.
    """
    for file in processes.glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue  # the process has ended, or belongs to somebody else
        given = next((word.removeprefix(_CONFIG) for word in words if word.startswith(_CONFIG)), "")
        if given and f"{_ADDRESS}{address}" in words:
            content = cluster_file(given)
            return {"provider": {"type": content["provider"].get("type", "")},
                    **{name: content[name] for name in ("head_node_type", "max_workers") if name in content},
                    "available_node_types": {
                        name: {key: node[key] for key in ("resources", "max_workers") if key in node}
                        for name, node in content["available_node_types"].items()}}
    return None


class OwnCluster:
    """The cluster of a job.

    Args:
        home: Its directory contains that of the cluster.
        job: Name of the job.
        mark: Marks its processes, if they are on this machine.
    """

    def __init__(self, home: JobsHome, job: str, mark: str) -> None:
        self._home, self._job, self._mark = home, job, mark
        self._link = home.path / "clusters" / job
        self._folder = self._link.resolve()
        self._file = self._folder / "cluster.yaml"
        self._starting: LocalProcess | None = None
        self._ending: LocalProcess | None = None
        self._finding: threading.Thread | None = None

    @property
    def exists(self) -> bool:
        """Whether it was created, or its creation was begun."""
        return self._folder.exists()

    @property
    def address(self) -> str:
        """Its address; "": it is not up."""
        with contextlib.suppress(OSError):
            return (self._folder / "address").read_text("utf-8")
        return ""

    def forget_address(self) -> None:
        """Have `start` start it again: its head does not respond."""
        (self._folder / "address").unlink(missing_ok=True)

    def start(self, path: str) -> str:
        """Start it, if it was not; return why it must be waited for, "" once it is up. Does not block.

        Args:
            path: The cluster file.

        Raises:
            SettingsError: The cluster file is wrong.
            OSError: Ray's command line cannot be started.
        """
        if self.address:
            return ""
        if self._finding is not None and self._finding.is_alive():
            return _NO_ADDRESS
        if self._finding is not None:
            self._finding = None
            return _NO_ADDRESS  # it was not found: Ray starts what is missing
        if self._starting is None:
            self._begin(path)
        assert self._starting is not None
        code = self._starting.poll()
        if code is None:
            return "Waits for the start of the cluster."
        self._starting = None
        if code:
            return f"Waits for the start of the cluster: Ray {ended_reason(code)}. {self._last_line()}".rstrip()
        self._finding = threading.Thread(target=self._write_address, daemon=True)  # asks the provider
        self._finding.start()
        return _NO_ADDRESS

    def hand_over(self, job: str) -> None:
        """Let another job have it, if it exists. Its files stay where they are, because its processes read them."""
        if self.exists:
            (self._link.parent / job).symlink_to(self._folder, target_is_directory=True)

    def end(self) -> None:
        """Remove it.

        Raises:
            NotYet, JobError: It is not gone yet. It must be tried again.
        """
        if not self.exists:
            return
        if self._finding is not None and self._finding.is_alive():
            raise NotYet(f'The cluster of job "{self._job}" is being asked for its address.')
        self._finding = None
        if self._starting is not None:
            self._starting.kill()
            self._starting.wait()
            self._starting = None
        if self._is_here():
            kill_marked(CLUSTER_VARIABLE, self._first_mark())
        elif self._file.exists():
            self._end_elsewhere()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._link.is_symlink():
            self._link.unlink()

    def _begin(self, path: str) -> None:
        content = cluster_file(path)
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "mark").write_text(self._mark, "utf-8")
        # Two jobs must not share a cluster: the first one to end would remove that of the other.
        content["cluster_name"] = f"{content.get('cluster_name', 'barograph')}-{self._mark.replace('@', '-')}"
        if is_on_this_machine(content):
            kill_marked(CLUSTER_VARIABLE, self._mark)  # what a killed controller had begun
            port = free_ports(1)
            content["provider"]["gcs_address"] = f"127.0.0.1:{port}"
            words = ["start", "--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard=false",
                     "--node-ip-address", "127.0.0.1", "--autoscaling-config", str(self._file)]
            more = {CLUSTER_VARIABLE: self._mark, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        else:
            words, more = ["up", "--yes", "--no-config-cache", str(self._file)], {}
        import yaml

        self._file.write_text(yaml.safe_dump(content), "utf-8")
        with (self._folder / "log").open("ab") as log:
            # Paths of files to copy are relative to the cluster file.
            self._starting = LocalProcess(ray_command(*words, directory=str(Path(path).absolute().parent),
                                                      environment=self._environment(more)), stdout=log, stderr=log)

    def _write_address(self) -> None:
        if self._is_here():
            address = str(cluster_file(str(self._file))["provider"]["gcs_address"])
        else:
            try:
                done = run_to_end(ray_command("get-head-ip", str(self._file), environment=self._environment({})),
                                  timeout_secs=_ADDRESS_SECS, stdin=b"")
            except NotCompleted:
                return
            ip = (done.out.decode("utf-8", "replace").split() or [""])[-1]
            if done.exit_code or not ip:
                return
            address = f"ray://{ip}:{_CLIENT_PORT}"
        part = self._folder / "address.part"
        part.write_text(address, "utf-8")
        os.replace(part, self._folder / "address")

    def _end_elsewhere(self) -> None:
        if self._ending is None:
            with (self._folder / "log").open("ab") as log:
                self._ending = LocalProcess(ray_command("down", "--yes", str(self._file),
                                                        environment=self._environment({})),
                                            stdin=DEVNULL, stdout=log, stderr=log)
        code = self._ending.poll()
        if code == 0:
            return
        if code is not None:
            self._ending = None
        raise JobError("the cluster is being removed" if code is None else
                       f"the cluster cannot be removed: ray down {ended_reason(code)}. {self._last_line()}")

    def _first_mark(self) -> str:
        """Return the mark of the job that it was created for."""
        with contextlib.suppress(OSError):
            return (self._folder / "mark").read_text("utf-8")
        return self._mark

    def _is_here(self) -> bool:
        return not self._file.exists() or is_on_this_machine(cluster_file(str(self._file)))

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **self._home.environment(self._job), **more}

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self._folder / "log").read_text("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""
