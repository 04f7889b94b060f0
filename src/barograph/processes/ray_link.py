"""A Ray cluster for a process that must neither wait for Ray nor end with it. `ray_driver` is the other side."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barograph.processes.command import own_module
from barograph.processes.local_process import PIPE, LocalProcess
from barograph.processes.process import ended_reason

_RETRY_SECS = 5.0
_LOST_SECS = 90.0
"""Ray ends all nodes of a cluster whose head does not respond for a minute."""
_CLOSE_SECS = 20.0


@dataclass(frozen=True, slots=True)
class RayNodeInfo:
    """A node of a cluster.

    Attributes:
        node_id: ID in hexadecimal digits.
        address: IP address.
        resources: Name to amount: `CPU`, `GPU`, `memory` in bytes.
        is_here: It is this machine.
        missing: Requested paths that it does not have.
    """

    node_id: str
    address: str
    resources: Mapping[str, float]
    is_here: bool
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RayNodes:
    """The nodes of a cluster.

    Attributes:
        nodes: Current nodes.
        scales: An autoscaler may add others.
        config: Properties of the nodes that it can add; None: unknown.
    """

    nodes: tuple[RayNodeInfo, ...]
    scales: bool
    config: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """An actor to start.

    Attributes:
        name: Its name; starts with that of its group and "/".
        group: Its group.
        bundle: Index of its bundle in the group, from 0.
        made: Its class, as in "package.module:Class", importable on the nodes. It has a method
            `end_within(wait_secs)` that returns how its process ended as a table, None if it has not.
        call: A method to call first, and its arguments. It is idempotent, and always returns the same.
    """

    name: str
    group: str
    bundle: int
    made: str
    call: tuple[Any, ...]


@dataclass(slots=True)
class _Known:
    """The state reported by the driver."""

    failed: str = ""
    nodes: RayNodes | None = None
    placed: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    free: dict[str, Mapping[str, float]] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)


class RayLink:
    """A Ray cluster, driven by a process that is restarted when it ends.

    Args:
        address: See `ray_cluster.join`.
        environment: Environment of that process.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self, address: str, environment: Mapping[str, str] | None = None, *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._environment, self._clock = address, environment, clock
        self._known = _Known()
        self._events: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._groups: dict[str, Sequence[Mapping[str, float]]] = {}
        self._members: set[str] = set()
        self._starting: dict[str, dict[str, Any]] = {}
        self._removals: dict[int, dict[str, Any]] = {}
        self._removing: dict[str, int] = {}
        self._requests = 0
        self._failed_at: float | None = None
        self._lost_at: float | None = None
        self._process = self._begun()

    def nodes(self, wait_secs: float, config: str, paths: Sequence[str] = ()) -> RayNodes | str:
        """Return the nodes; a sentence that says why not, if the cluster cannot be joined in time.

        Args:
            wait_secs: Time to wait.
            config: A function that finds `RayNodes.config` on the machine of the head, as in "package.module:function".
                It takes `HOST:PORT` of the head.
            paths: Paths of this machine, for `RayNodeInfo.missing`.
        """
        self._ask("nodes", config=config, paths=list(paths))
        self._wait(lambda: self._known.nodes is not None or bool(self._known.failed), wait_secs)
        where = f" at {self._address} (RAY_ADDRESS)" if self._address else " on this machine"
        return self._known.nodes or self._known.failed or (
            f"The Ray cluster{where} does not respond within {wait_secs:g} s. Check that its head node is running.")

    def reserve(self, group: str, bundles: Sequence[Mapping[str, float]]) -> bool:
        """Reserve a group, if it is not yet; return whether it is reserved. Does not wait."""
        self._turn()
        if group not in self._groups:
            self._groups[group] = bundles
            self._removing.pop(group, None)
            self._ask("reserve", group=group, bundles=bundles)
        return group in self._known.placed

    def placed(self, group: str) -> list[tuple[str, str]]:
        """Return ID and address of the node of each bundle of a reserved group."""
        return self._known.placed[group]

    def free(self, group: str) -> Mapping[str, float] | None:
        """Return the resources that were free when a group could not be reserved; None if unknown."""
        return self._known.free.get(group)

    @property
    def failed(self) -> str:
        """Why the cluster could not be joined last time; "" if it was joined, or never tried."""
        return self._known.failed

    @property
    def is_lost(self) -> bool:
        """Whether the cluster has been away for so long that Ray has ended its nodes."""
        self._turn()
        return self._lost_at is not None and self._clock() - self._lost_at >= _LOST_SECS

    def start(self, member: Member) -> None:
        """Start a member, unless it was started; does not wait. If it fails, `gone` says so."""
        self._members.add(member.name)
        request = {"member": member.name, "group": member.group, "bundle": member.bundle, "made": member.made,
                   "call": list(member.call)}
        self._starting[member.name] = request
        self._ask("start", **request)

    def watch(self, member: str) -> None:
        """Watch a member that was started through another link."""
        if member not in self._members:
            self._members.add(member)
            self._ask("watch", member=member)

    def gone(self, member: str) -> str:
        """Return why a member is gone, in a sentence; "" if it exists, or the cluster does not respond for now."""
        if self.is_lost:
            return f"The Ray cluster has not responded for {_LOST_SECS:g} s. {self._known.failed}".rstrip()
        return self._known.ends.get(member, "")

    def call(self, member: str, method: str) -> None:
        """Call a method of a member, if it exists; does not wait."""
        self._ask("call", member=member, method=method)

    def remove(self, group: str, members: Sequence[str] | None, cleans: str, clean: Sequence[Any]) -> bool:
        """End members and remove what they left behind. Does not wait; returns whether the whole group is removed.

        Args:
            group: The group.
            members: Its members to end. None: all of them, and the group is removed; call it again until it is.
            cleans: A function that cleans a node, as in "package.module:function". The members' method `clean` does
                the same, and returns the ID of its node.
            clean: Its arguments.
        """
        self._turn()
        number = self._removing.get(group) if members is None else None
        if number is not None:
            if number not in self._removals:
                del self._removing[group]
            return number not in self._removals
        self._requests += 1
        request = {"id": self._requests, "group": group, "members": members, "cleans": cleans, "clean": list(clean)}
        self._removals[self._requests] = request
        self._ask("remove", **request)
        if members is None:
            self._removing[group] = self._requests
            self._forget(group)
        return False

    def _forget(self, group: str) -> None:
        self._groups.pop(group, None)
        self._known.placed.pop(group, None)
        self._known.free.pop(group, None)
        gone = {member for member in self._members if member.startswith(f"{group}/")}
        self._members -= gone
        for member in gone:
            self._known.ends.pop(member, None)
            self._starting.pop(member, None)

    def close(self, *, at_once: bool = False) -> None:
        """End the driver once it has handled all requests.

        Args:
            at_once: The remaining requests need not be handled.
        """
        self._end_input()
        if not at_once and (self._groups or self._members or self._removals):
            self._process.wait(_CLOSE_SECS)
        self._process.kill()
        self._process.wait()

    def _end_input(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.feed(b"")

    def _begun(self) -> LocalProcess:
        process = LocalProcess(own_module("barograph.processes.ray_driver", self._address,
                                          environment=self._environment), stdin=PIPE, stdout=PIPE)
        threading.Thread(target=_read, args=(process, self._events), daemon=True).start()
        return process

    def _begin_again(self) -> None:
        """Start another driver; repeat the unfinished requests of the last one."""
        self._failed_at = None
        self._process = self._begun()
        # First: a group may have been reserved again under the same name since.
        for request in self._removals.values():
            self._ask("remove", **request)
        for group, bundles in self._groups.items():
            if group not in self._known.placed:
                self._ask("reserve", group=group, bundles=bundles)
        for member in self._members - set(self._known.ends):
            # Starting again does nothing if the killed driver has already done so.
            starting = self._starting.get(member)
            self._ask("start", **starting) if starting else self._ask("watch", member=member)

    def _ask(self, what: str, **request: Any) -> None:
        self._turn()
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            return  # a new driver gets everything
        line = json.dumps({"do": what, **request}).encode() + b"\n"
        try:
            view = memoryview(line)
            while view:
                view = view[self._process.stdin.write(view):]
        except OSError:
            return  # it has ended; `_turn` will see that

    def _wait(self, has_come: Callable[[], bool], wait_secs: float) -> None:
        deadline = self._clock() + wait_secs
        self._turn()
        while not has_come() and (left := deadline - self._clock()) > 0:
            try:
                self._take(self._events.get(timeout=left))
            except queue.Empty:
                return
            self._turn()

    def _turn(self) -> None:
        while True:
            try:
                self._take(self._events.get_nowait())
            except queue.Empty:
                break
        if self._failed_at is not None and self._clock() - self._failed_at >= _RETRY_SECS:
            self._begin_again()

    def _take(self, event: Mapping[str, Any] | None) -> None:
        known = self._known
        match event:
            case None:
                self._ended()
            case {"joined": _}:
                known.failed, self._lost_at = "", None
            case {"failed": reason}:
                known.failed = reason
            case {"nodes": nodes, "scales": scales, "config": config}:
                known.nodes = RayNodes(tuple(RayNodeInfo(**node) for node in nodes), scales, config)
            case {"group": group, "free": free}:
                known.free[group] = free
            case {"group": group, "nodes": places}:
                known.placed[group] = [(node, address) for node, address in places]
            case {"running": member}:
                self._starting.pop(member, None)
            case {"ended": member, "exit_code": code, "said": said}:
                known.ends[member] = f"Its agent {ended_reason(code)}{f': {said}' if said else '.'}"
            case {"lost": member, "reason": reason}:
                known.ends[member] = reason
            case {"removed": number}:
                self._removals.pop(number, None)

    def _ended(self) -> None:
        """Handle the end of the driver: it could not join the cluster, or Ray ended it because the head is gone."""
        self._process.wait()
        self._end_input()
        self._failed_at = self._clock()
        if self._lost_at is None:
            self._lost_at = self._failed_at


def _read(process: LocalProcess, events: queue.SimpleQueue[Mapping[str, Any] | None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in iter(lines.readline, b""):
            events.put(json.loads(line))
    events.put(None)
