"""Instances on the nodes of a Ray cluster: an actor for each, in a bundle of a placement group for all."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from barograph.errors import JobError, SettingsError
from barograph.jobs.engines.engine import INSTANCE_VARIABLE, ClusterOutage, Handle, NotYet, Order
from barograph.jobs.engines.ray_capacity import bundle_of, problems_of_capacity, words_of
from barograph.jobs.engines.ray_own_cluster import OwnCluster, cluster_file, is_on_this_machine, node_types
from barograph.jobs.engines.ray_places import is_directory, local_channels, probe_of
from barograph.jobs.home import HOME_VARIABLE, JobsHome
from barograph.jobs.spec import JobSpec
from barograph.processes.ray_cli import is_ray_installed
from barograph.processes.ray_drain import RAY_NODE_VARIABLE
from barograph.processes.ray_link import Member, RayLink, RayNodes
from barograph.watch.figures import count

_JOIN_SECS = 60.0
_KILL_AGAIN_SECS = 10.0
_INSTANCE = "barograph.jobs.engines.ray_instance:InstanceHost"
_CLEANS = "barograph.jobs.engines.ray_instance:clean_node"
_CONFIG = "barograph.jobs.engines.ray_own_cluster:autoscaler_config"
_PASSED = ("AWS_", "GOOGLE_", "AZURE_", "BAROGRAPH_")
_OF_THIS_MACHINE = (HOME_VARIABLE, INSTANCE_VARIABLE, RAY_NODE_VARIABLE, "BAROGRAPH_ADDRESS")


class Link(Protocol):
    """The part of `RayLink` that the engine uses."""

    def nodes(self, wait_secs: float, config: str, paths: list[str]) -> RayNodes | str: ...
    def reserve(self, group: str, bundles: list[dict[str, float]]) -> bool: ...
    def placed(self, group: str) -> list[tuple[str, str]]: ...
    def free(self, group: str) -> Mapping[str, float] | None: ...
    @property
    def failed(self) -> str: ...
    @property
    def is_lost(self) -> bool: ...
    def start(self, member: Member) -> None: ...
    def watch(self, member: str) -> None: ...
    def gone(self, member: str) -> str: ...
    def call(self, member: str, method: str) -> None: ...
    def remove(self, group: str, members: list[str] | None, cleans: str, clean: list[str]) -> bool: ...
    def close(self, *, at_once: bool = False) -> None: ...


class RayEngine:
    """Instances on the Ray cluster that `RAY_ADDRESS` of the submitting shell names.

    Args:
        home: The jobs.
        link: Joins a cluster: takes its address and the environment for Ray.
        clock: Seconds, which never go back.
    """

    def __init__(self, home: JobsHome, *, link: Callable[[str, Mapping[str, str]], Link] = RayLink,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._home, self._link, self._clock = home, link, clock
        self._links: dict[tuple[tuple[str, str], ...], Link] = {}
        self._of_jobs: dict[str, Link] = {}
        self._own: dict[str, OwnCluster] = {}
        self._killed_at: dict[str, float] = {}
        self._starting_since: dict[str, float] = {}

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        """See `Engine.problems`."""
        if not is_ray_installed():
            return ["Ray is not installed. Install it: pip install 'barograph[ray]'"]
        found = ["--no-network needs --engine local: on a Ray cluster nobody enforces it."] if spec.no_network else []
        if spec.cluster:
            return found + _problems_of_file(spec, url)
        address = os.environ.get("RAY_ADDRESS", "")
        link = self._link_of(_of_ray(os.environ))
        with probe_of(url) as probe:
            channels = local_channels(spec)
            nodes = link.nodes(_JOIN_SECS, _CONFIG, [*filter(None, [probe]), *channels.values()])
        if isinstance(nodes, str):
            return [*found, ClusterOutage(nodes)]
        where = f"the Ray cluster at {address}" if address else "the Ray cluster on this machine"
        found += _problems_of_nodes(spec, nodes, where)
        for name, path in channels.items():
            if without := [node.address for node in nodes.nodes if path in node.missing]:
                found.append(f"Channel {name} is in a directory of this machine, which other nodes of {where} do not "
                             f"have, such as {without[0]}. Use a bucket: --data {name}=s3://… ({path})")
        if probe and (without := [node.address for node in nodes.nodes if probe in node.missing]):
            found.append(f"The job would be stored in a directory of this machine, which other nodes of {where} cannot "
                         f"reach, such as {without[0]}. Use a bucket: --to s3://… ({url})")
        elif probe and nodes.config and not is_on_this_machine(nodes.config):
            found.append("The job would be stored in a directory of this machine, which nodes that the autoscaler of "
                         f"{where} adds cannot reach. Use a bucket: --to s3://… ({url})")
        return found

    def prepare(self) -> None:
        """See `Engine.prepare`. Joins the cluster."""
        if is_ray_installed():
            self._link_of(_of_ray(os.environ))

    def queue(self, job: str, spec: JobSpec) -> str:
        """See `Engine.queue`."""
        return f"cluster of {job}" if spec.cluster else self._home.environment(job).get("RAY_ADDRESS", "")

    def reserve(self, job: str, spec: JobSpec) -> str:
        """See `Engine.reserve`."""
        if spec.cluster and (reason := self._wait_for_own(job, spec)):
            return reason
        link, bundle = self._link_of_job(job), bundle_of(spec)
        if link.reserve(self._group(job), [bundle] * spec.instances):
            return ""
        wanted = f"{count(spec.instances, 'instance')} with {words_of(bundle)}"
        if link.failed:
            if spec.cluster:
                self._own_cluster(job).forget_address()  # it is started again
                self._of_jobs.pop(job, None)
            return f"Waits for the Ray cluster. {link.failed}"
        free = link.free(self._group(job))
        return f"Waits for {wanted} of the Ray cluster." if free is None else (
            f"Waits for {wanted} of the Ray cluster; {words_of(free, bundle)} were free.")

    def start(self, order: Order) -> Handle:
        """See `Engine.start`."""
        link, group = self._link_of_job(order.job), self._group(order.job)
        bundles = [bundle_of(order.spec)] * order.spec.instances
        if not link.reserve(group, bundles):  # another controller did, and was killed
            if self._clock() - self._starting_since.setdefault(order.job, self._clock()) < _JOIN_SECS:
                raise NotYet(f'The resources of job "{order.job}" are not there yet.')
            raise JobError(link.failed.rstrip(".") or "its node left the Ray cluster")
        self._starting_since.pop(order.job, None)
        if len(places := link.placed(group)) <= order.index:
            raise JobError("its node left the Ray cluster")
        node, address = places[order.index]
        name = f"{group}/{order.attempt}-{order.index}"
        link.start(Member(name, group, order.index, _INSTANCE, (
            "run", group, order.attempt, order.index, order.url, order.job, address,
            passed_environment(order.environment, order.spec.environment),
            *filter(None, [order.spec.keep_alive_secs]))))
        return {"job": order.job, "group": group, "instance": f"{order.attempt}-{order.index}", "actor": name,
                "node": node, "address": address}

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        """See `Engine.adopt`."""
        link = self._link_of_job(job)
        link.reserve(self._group(job), [bundle_of(spec)] * spec.instances)
        for handle in handles.values():
            link.watch(handle["actor"])

    def is_gone(self, handle: Handle) -> str:
        """See `Engine.is_gone`."""
        return self._link_of_job(handle["job"]).gone(handle["actor"])

    def ask_to_end(self, handle: Handle) -> None:
        """See `Engine.ask_to_end`."""
        self._link_of_job(handle["job"]).call(handle["actor"], "terminate")

    def kill(self, handle: Handle) -> None:
        """See `Engine.kill`. Does not wait; `release` does."""
        now = self._clock()
        if now - self._killed_at.get(handle["actor"], -_KILL_AGAIN_SECS) < _KILL_AGAIN_SECS:
            return
        self._killed_at[handle["actor"]] = now
        self._link_of_job(handle["job"]).remove(handle["group"], [handle["actor"]], _CLEANS,
                                                [handle["group"], handle["instance"]])

    def release(self, job: str, *, is_over: bool = True) -> None:
        """See `Engine.release`.

        Raises:
            NotYet: The cluster has not released everything, or does not respond for now.
            JobError: A cluster of its own is not removed yet. It must be tried again.
        """
        own = self._own_cluster(job)
        self._starting_since.pop(job, None)
        had_own = own.exists
        if not is_over or not had_own:
            link, group = self._link_of_job(job), self._group(job)
            if not link.remove(group, None, _CLEANS, [group, ""]) and not link.is_lost:
                raise NotYet(f'The instances of job "{job}" are not released yet.')
        if is_over:
            own.end()
            self._own.pop(job, None)
            used = self._of_jobs.pop(job, None)
            if had_own and used is not None:
                self._links = {key: link for key, link in self._links.items() if link is not used}
                used.close(at_once=True)

    def keep(self, job: str) -> None:
        """See `Engine.keep`. The actors stay: they release everything if no controller does."""

    def take_over(self, kept: str, job: str) -> None:
        """See `Engine.take_over`. The nodes stay: an autoscaler removes none within the moment until `reserve`."""
        if self._own_cluster(job).exists:
            self.release(kept)  # the job has waited, and begun to create its own
            return
        link, group = self._link_of_job(kept), self._group(kept)
        link.remove(group, None, _CLEANS, [group, ""])  # done before what is asked of the cluster later
        self._own_cluster(kept).hand_over(job)
        for name in (kept, job):
            self._own.pop(name, None)
            self._of_jobs.pop(name, None)

    def close(self) -> None:
        """See `Engine.close`."""
        for link in self._links.values():
            link.close()
        self._links, self._of_jobs = {}, {}

    def _group(self, job: str) -> str:
        """Return the name of a job in a cluster: two users may have jobs of one name."""
        return self._home.unique(job)

    def _wait_for_own(self, job: str, spec: JobSpec) -> str:
        try:
            return self._own_cluster(job).start(spec.cluster)
        except (SettingsError, OSError) as error:
            return f"Waits for the start of the cluster. {str(error).rstrip('.')}."

    def _own_cluster(self, job: str) -> OwnCluster:
        return self._own.setdefault(job, OwnCluster(self._home, job, self._group(job)))

    def _link_of_job(self, job: str) -> Link:
        if job not in self._of_jobs:
            own = {"RAY_ADDRESS": address} if (address := self._own_cluster(job).address) else {}
            self._of_jobs[job] = self._link_of({**_of_ray(self._home.environment(job)), **own})
        return self._of_jobs[job]

    def _link_of(self, variables: Mapping[str, str]) -> Link:
        key = tuple(sorted(variables.items()))
        if key not in self._links:
            environment = {**{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
                           **variables}
            self._links[key] = self._link(variables.get("RAY_ADDRESS", ""), environment)
        return self._links[key]


def passed_environment(environment: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of the submitting shell that an instance on another machine gets.

    Args:
        environment: Those of the shell.
        names: Names that the job asks for.

    Example:
        >>> passed_environment({"HOME": "/root", "AWS_REGION": "x", "TOKEN": "y", "CODE": "z"}, ("CODE",))
        {'AWS_REGION': 'x', 'CODE': 'z'}
    """
    return {name: value for name, value in environment.items()
            if name in names or (name.startswith(_PASSED) and name not in _OF_THIS_MACHINE)}


def _of_ray(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that concern Ray."""
    return {name: value for name, value in environment.items() if name.startswith("RAY_")}


def _problems_of_nodes(spec: JobSpec, nodes: RayNodes, where: str) -> list[str]:
    """Return why a cluster, with all nodes that it can get, can never run a job."""
    found = problems_of_capacity(spec, [(node.resources, 1) for node in nodes.nodes], where)
    if not found or not nodes.scales:
        return found
    types = node_types(nodes.config) if nodes.config else None
    return [] if types is None else problems_of_capacity(spec, types, f"{where} with its autoscaler")


def _problems_of_file(spec: JobSpec, url: str) -> list[str]:
    """Return why the cluster of a cluster file can never run a job."""
    try:
        content = cluster_file(spec.cluster)
    except SettingsError as error:
        return [str(error)]
    types = node_types(content)
    found = [] if types is None else problems_of_capacity(spec, types, f"the cluster file {spec.cluster}")
    if is_directory(url) and not is_on_this_machine(content):
        found.append("The job would be stored in a directory of this machine, which the nodes of the cluster cannot "
                     f"reach. Use a bucket: --to s3://… ({url})")
    if not is_on_this_machine(content) and not content.get("file_mounts"):
        found += [f"Channel {name} is in a directory of this machine, which the nodes of the cluster do not have. Use "
                  f"a bucket: --data {name}=s3://… ({path})" for name, path in local_channels(spec).items()]
    return found
