"""A driver of a Ray cluster in a separate process, for a process that must neither wait for Ray nor end with it.

    python -m barograph.processes.ray_driver ADDRESS

Reads requests from standard input, one JSON object per line, and writes events to standard output in the same way;
`ray_link.RayLink` is the other side. A group is a named, detached placement group; a member is a named, detached actor
in one of its bundles. Both outlive the driver, which ends with its standard input, once all requests are done.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from barograph.errors import BarographError
from barograph.processes.ray_cluster import NAMESPACE, join, missing_paths, reason_of, token_problem

_LOOK_SECS = 0.1
_STARTING_LOOK_SECS = 0.02
_WAIT_SECS = 30.0
_AGAIN_SECS = 0.5
_CLEAN_SECS = 10.0
_CONFIG_SECS = 20.0
_HEAD_RESOURCE = "node:__internal_head__"
_LAST_LINES_SECS = 1.0
_NO_TOKEN = b"InvalidAuthToken"
_THREADS = 8
"""Parallel calls of a member: short ones, and those of this and of killed drivers that wait for its end."""

Request = Mapping[str, Any]
Report = Callable[[Mapping[str, Any]], object]


class Driver:
    """Handles requests.

    Args:
        ray: The module, which has joined a cluster.
        report: Called with each event.
        later: Runs a function in the driver's loop, soon; called from other threads.
    """

    def __init__(self, ray: Any, report: Report, later: Callable[[Callable[[], None]], object]) -> None:
        self._ray, self._report, self._later = ray, report, later
        self._pending: set[str] = set()
        # Members of the groups that this driver made and that were not cleaned up, and their nodes.
        self._open: dict[str, dict[str, str]] = {}

    @property
    def pause_secs(self) -> float | None:
        """Time until `turn` has something to do; None: until the next request."""
        return _LOOK_SECS if self._pending else None

    def do(self, request: Request) -> None:
        """Handle a request; its name is a method's."""
        try:
            getattr(self, f"_{request['do']}")(request)
        except (self._ray.exceptions.RayError, ValueError) as error:
            print(f"{request['do']}: {error}", file=sys.stderr, flush=True)
            if request["do"] in ("start", "watch"):
                self._report({"lost": request["member"], "reason": reason_of(error)})

    def turn(self) -> None:
        """Check which waiting groups got their resources."""
        for name in list(self._pending):
            table = self._table(name)
            if table is None:
                self._pending.discard(name)
            elif table["state"] == "CREATED":
                self._pending.discard(name)
                self._report({"group": name, "nodes": self._placed(table)})

    def _nodes(self, request: Request) -> None:
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        scales = self._scales()
        elsewhere = {node["NodeID"] for node in nodes if node["NodeManagerHostname"] != socket.gethostname()}
        missing = self._missing(elsewhere, request["paths"])
        self._report({"nodes": [
            {"node_id": node["NodeID"], "address": node["NodeManagerAddress"], "resources": node["Resources"],
             "is_here": node["NodeID"] not in elsewhere, "missing": missing.get(node["NodeID"], ())} for node in nodes],
            "scales": scales, "config": self._config(nodes, request["config"]) if scales else None})

    def _scales(self) -> bool:
        """Return whether an autoscaler adds nodes, or whether that is unknown.

        The head always writes a status. Without an autoscaler, a node's type is derived from its ID.
        """
        from ray.experimental.internal_kv import _internal_kv_get

        status = _internal_kv_get(b"__autoscaling_status")
        if not status:
            return True
        types = (json.loads(status).get("autoscaler_report") or {}).get("node_type_mapping") or {}
        return any(type_ != f"node_{node}" for node, type_ in types.items())

    def _missing(self, nodes: set[str], paths: list[str]) -> dict[str, list[str]]:
        """Return which paths nodes do not have; all, if a node does not respond."""
        ray, missing = self._ray, dict.fromkeys(nodes, paths)
        if not paths:
            return {}
        task, strategy = ray.remote(missing_paths), ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        answers = {task.options(num_cpus=0, max_retries=0, scheduling_strategy=strategy(node, soft=False)).remote(
            paths): node for node in nodes}
        for answer in ray.wait(list(answers), num_returns=len(answers), timeout=_CONFIG_SECS)[0] if answers else ():
            with contextlib.suppress(ray.exceptions.RayError):
                missing[answers[answer]] = ray.get(answer)
        return missing

    def _config(self, nodes: list[dict[str, Any]], function: str) -> Any:
        """Return the autoscaler's configuration, from a function that runs on the head; None if it finds nothing."""
        ray = self._ray
        head = next((node["NodeID"] for node in nodes if _HEAD_RESOURCE in node["Resources"]), None)
        if head is None:
            return None
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(head, soft=False)
        task = ray.remote(_imported(function)).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
        answer = task.remote(ray.get_runtime_context().gcs_address)
        try:
            return ray.get(answer, timeout=_CONFIG_SECS)
        except ray.exceptions.RayError as error:
            print(f"The nodes that the autoscaler can add are unknown: {reason_of(error)}", file=sys.stderr, flush=True)
            return None

    def _reserve(self, request: Request) -> None:
        name = request["group"]
        if self._table(name) is None:
            self._ray.util.placement_group(request["bundles"], name=name, lifetime="detached", strategy="PACK")
            self._open[name] = {}
        self._pending.add(name)
        for _ in range(5):  # free resources are reserved within milliseconds
            self.turn()
            if name not in self._pending:
                return
            time.sleep(_STARTING_LOOK_SECS)
        self._report({"group": name, "free": self._ray.available_resources()})

    def _start(self, request: Request) -> None:
        """Start a member, unless another driver did; `call` is its first method, which is idempotent."""
        ray, group = self._ray, self._ray.util.get_placement_group(request["group"])
        table = ray.util.placement_group_table(group)
        bundle = table["bundles"][request["bundle"]]
        if request["group"] in self._open:
            self._open[request["group"]][request["member"]] = table["bundles_to_node_id"].get(request["bundle"], "")
        strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group, request["bundle"])
        actor = ray.remote(_imported(request["made"])).options(
            name=request["member"], namespace=NAMESPACE, lifetime="detached", get_if_exists=True,
            max_concurrency=_THREADS, num_cpus=bundle.get("CPU", 0), num_gpus=bundle.get("GPU", 0),
            memory=bundle.get("memory") or None, scheduling_strategy=strategy).remote()
        method, *arguments = request["call"]
        self._follow(request["member"], actor, getattr(actor, method).remote(*arguments))

    def _watch(self, request: Request) -> None:
        try:
            actor = self._ray.get_actor(request["member"], namespace=NAMESPACE)
        except ValueError:
            self._report({"lost": request["member"], "reason": "Ray has no actor for it any more."})
            return
        self._follow(request["member"], actor, actor.end_within.remote(0.0))

    def _follow(self, member: str, actor: Any, answer: Any) -> None:
        """Follow a member until its end, without blocking."""
        answer.future().add_done_callback(lambda done: self._later(lambda: self._take(member, actor, done)))

    def _take(self, member: str, actor: Any, done: Any) -> None:
        errors = self._ray.exceptions
        try:
            ended = done.result()
        except errors.ActorUnavailableError:
            # The network or its node failed: Ray determines which. If it was not started, the next call shows that.
            again = threading.Timer(_AGAIN_SECS, self._later, [
                lambda: self._follow(member, actor, actor.end_within.remote(_WAIT_SECS))])
            again.daemon = True
            again.start()
        except errors.RayTaskError as error:
            self._report({"lost": member, "reason": f"{str(error.cause).rstrip('.')}."})
        except errors.RayError as error:
            self._report({"lost": member, "reason": self._why_lost(error)})
        else:
            if ended is not None:
                self._report({"ended": member, **ended})
            else:
                self._report({"running": member})
                self._follow(member, actor, actor.end_within.remote(_WAIT_SECS))

    def _why_lost(self, error: Exception) -> str:
        if getattr(error, "preempted", False):
            return "Ray drained its node, and the node ended."
        if "node" in str(error).lower() and "died" in str(error):
            return "Its node left the Ray cluster."
        return f"Its Ray actor died: {reason_of(error)}"

    def _call(self, request: Request) -> None:
        with contextlib.suppress(ValueError, self._ray.exceptions.RayError):
            actor = self._ray.get_actor(request["member"], namespace=NAMESPACE)
            getattr(actor, request["method"]).remote()

    def _remove(self, request: Request) -> None:
        """End members and remove what they leave; without a list of members, those of a group, and the group."""
        ray, group, table = self._ray, request["group"], self._table(request["group"])
        names = request.get("members")
        chosen = names if names is not None else [
            name for name in ray.util.list_named_actors() if name.startswith(f"{group}/")]
        cleaned = self._removed(chosen, request["clean"])
        left = self._open.get(group)
        if left is not None:
            for member in cleaned:
                left.pop(member, None)
        places = {node for node, _ in self._placed(table)} - set(cleaned.values()) if table else set()
        if left is not None and (names is not None or not left):
            # A task starts a process on a node, which the next attempt waits for.
            places = {left[member] for member in names or () if member in left}
        self._clean(places & {node["NodeID"] for node in ray.nodes() if node["Alive"]}, request)
        if names is None:
            self._pending.discard(group)
            self._open.pop(group, None)
            if table is not None:
                ray.util.remove_placement_group(ray.util.get_placement_group(group))
        self._report({"removed": request["id"]})

    def _removed(self, members: list[str], clean: list[Any]) -> dict[str, str]:
        """End members; return those that cleaned up first, and their nodes."""
        ray, actors = self._ray, {}
        for member in members:
            with contextlib.suppress(ValueError):  # it is gone
                actors[member] = ray.get_actor(member, namespace=NAMESPACE)
        answers = {actor.clean.remote(*clean): member for member, actor in actors.items()}
        done = ray.wait(list(answers), num_returns=len(answers), timeout=_CLEAN_SECS)[0] if answers else []
        cleaned = {}
        for answer in done:
            with contextlib.suppress(ray.exceptions.RayError):
                cleaned[answers[answer]] = ray.get(answer)
        for actor in actors.values():
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(actor)
        return cleaned

    def _clean(self, nodes: set[str], request: Request) -> None:
        """Remove what members left behind whose actors are gone."""
        ray = self._ray
        clean = ray.remote(_imported(request["cleans"]))
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        answers = [clean.options(num_cpus=0, max_retries=0, scheduling_strategy=strategy(node, soft=False)).remote(
            *request["clean"]) for node in nodes]
        if answers:
            ray.wait(answers, num_returns=len(answers), timeout=_CLEAN_SECS)

    def _table(self, name: str) -> dict[str, Any] | None:
        """Return what Ray knows about a group; None if there is none."""
        try:
            group = self._ray.util.get_placement_group(name)
        except ValueError:
            return None
        table: dict[str, Any] = self._ray.util.placement_group_table(group)
        return None if table.get("state") == "REMOVED" else table

    def _placed(self, table: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return ID and address of the node of each bundle that has one."""
        addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes()}
        nodes = table.get("bundles_to_node_id", {})
        return [(nodes[bundle], addresses.get(nodes[bundle], "")) for bundle in sorted(nodes) if nodes[bundle]]


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def main(address: str) -> int:
    """Drive a cluster until standard input ends; return 0 unless it could not be joined."""
    # Output of Ray must not mix with the events.
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)

    def report(event: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # of a killed process; standard input has ended, too
            out.write(json.dumps(event).encode() + b"\n")

    try:
        with _ended_without_token(lambda: report({"failed": token_problem(address)})):
            ray = join(address)
    except BarographError as error:
        report({"failed": str(error)})
        return 1
    report({"joined": address})
    due: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    driver = Driver(ray, report, due.put)
    threading.Thread(target=_read, args=(driver, due), daemon=True).start()
    while True:
        with contextlib.suppress(queue.Empty):
            do = due.get(timeout=driver.pause_secs)
            if do is None:
                break
            do()
        driver.turn()
    ray.shutdown()
    return 0


@contextlib.contextmanager
def _ended_without_token(report: Callable[[], object]) -> Iterator[None]:
    """End this process when Ray writes to standard error that the cluster rejects its authentication token.

    Ray raises no error for that, but retries for twenty seconds, with a warning per second.
    """
    error, (out, into) = os.dup(2), os.pipe()
    os.dup2(into, 2)
    os.close(into)

    def read() -> None:
        with open(out, "rb") as lines, open(error, "wb", closefd=False) as kept:
            for line in lines:
                if _NO_TOKEN in line:
                    report()
                    os._exit(1)
                kept.write(line)
                kept.flush()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.dup2(error, 2)
        reader.join(_LAST_LINES_SECS)
        if not reader.is_alive():  # otherwise a process that Ray started writes to it
            os.close(error)


def _read(driver: Driver, due: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        due.put(lambda request=request: driver.do(request))  # type: ignore[misc]
    due.put(None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
