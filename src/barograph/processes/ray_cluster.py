"""Objects on machines of a Ray cluster. Only this module imports Ray."""

from __future__ import annotations

import importlib
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from barograph.errors import ClusterUnreachable, MissingExtra
from barograph.processes.process import HostLost

_EXTRA = "Ray is not installed. Install it: pip install 'barograph[ray]'"
NAMESPACE = "barograph"
"""Namespace of the named actors of Barograph."""

_PORT = 6379
_REACH_SECS = 10.0
_OBJECTS_BYTES = 200 * 2**20
"""Object store memory of a cluster that we start: a few steps at a time."""


def connect(report: Callable[[str], object]) -> None:
    """Join the Ray cluster in `RAY_ADDRESS` or on this machine; if there is none, start one here.

    Does nothing if this process has already joined one.

    Args:
        report: Called with a sentence if a cluster was started.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterUnreachable: There is no cluster at `RAY_ADDRESS`, or it rejects us.
    """
    ray = _ray()
    if ray.is_initialized():
        return
    address = os.environ.get("RAY_ADDRESS", "")
    # Output of rules must not mix with ours.
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address not in ("", "local", "auto"):
        _check_reachable(address)
    try:
        if address != "local":
            ray.init(address=address or "auto", **quiet)
            return
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address or not isinstance(error, ConnectionError):
            raise _not_joined(address, reason_of(error)) from error
    report("No Ray cluster runs here, and RAY_ADDRESS is not set. Starting one on this machine until the watcher "
           "stops.")
    # Ray reports usage statistics by default; users of Barograph have not agreed to that.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", include_dashboard=False, object_store_memory=_OBJECTS_BYTES, **quiet)


def join(address: str) -> Any:
    """Join a running cluster as a driver, in the namespace of Barograph; return the module `ray`.

    Args:
        address: `HOST:PORT` of its head, `ray://HOST:PORT` of a Ray Client server, or "": the cluster on this machine.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterUnreachable: There is no cluster, or it rejects us.
    """
    ray = _ray()
    importlib.import_module("ray.util.scheduling_strategies")
    if address not in ("", "auto"):
        _check_reachable(address)
    try:
        ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except ray.exceptions.AuthenticationError as error:
        raise ClusterUnreachable(token_problem(address)) from error
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        if address in ("", "auto") and isinstance(error, ConnectionError):
            raise ClusterUnreachable("No Ray cluster runs on this machine. Set RAY_ADDRESS to HOST:PORT of the head of "
                                     "a cluster.") from error
        raise _not_joined(address, reason_of(error)) from error
    return ray


def missing_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not on this machine."""
    return [path for path in paths if not os.path.exists(path)]


def token_problem(address: str) -> str:
    """Return a sentence for a cluster that rejects us because of its authentication token."""
    where = f" at {address} (RAY_ADDRESS)" if address else ""
    return (f"Cannot connect to the Ray cluster{where}: its authentication token is missing or wrong; set "
            "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or ~/.ray/auth_token to the token.")


class Remote:
    """An object on a machine of the cluster, in a separate process that ends with us.

    It reserves no processor, and is placed on the machine with the fewest such objects.

    Args:
        made: Its class, which must be importable there: Barograph's own are.
        names: Arguments of its constructor.
    """

    def __init__(self, made: type, *names: Any) -> None:
        ray = _ray()
        actor = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(made)
        self._actor = actor.remote(*names)

    def begin(self, method: str, *arguments: Any) -> Callable[[], Any]:
        """Call a method; return a function that waits for its result.

        Raises:
            HostLost: The machine is gone, or the object with its process; the returned function raises it, too.
        """
        ray = _ray()
        errors = ray.exceptions
        lost = (errors.RayActorError, errors.ObjectLostError, errors.NodeDiedError, errors.RaySystemError,
                errors.RuntimeEnvSetupError, errors.OutOfMemoryError, errors.ActorUnschedulableError, ConnectionError)
        try:
            answer = getattr(self._actor, method).remote(*arguments)
        except lost as error:
            raise HostLost(reason_of(error)) from error

        def wait() -> Any:
            try:
                return ray.get(answer)
            except lost as error:
                raise HostLost(reason_of(error)) from error
            except errors.RayTaskError as error:
                if isinstance(error.cause, HostLost):
                    raise HostLost(str(error.cause)) from error
                raise

        return wait

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method and return its result, waiting for it.

        Raises:
            HostLost: See `begin`.
        """
        return self.begin(method, *arguments)()

    def close(self) -> None:
        """End it, whatever it is doing."""
        ray = _ray()
        if ray.is_initialized():
            ray.kill(self._actor)


def here() -> tuple[str, str]:
    """Return the ID of the node of this task or actor, and the address of the cluster's head.

    Raises:
        MissingExtra: Ray is not installed.
    """
    context = _ray().get_runtime_context()
    return context.get_node_id(), context.gcs_address


def leave(prefix: str) -> None:
    """End this actor at once, and its placement group if it is the last named actor of its namespace with a prefix."""
    ray = _ray()
    if len([name for name in ray.util.list_named_actors() if name.startswith(prefix)]) <= 1:
        ray.util.remove_placement_group(ray.util.get_current_placement_group())
    ray.kill(ray.get_runtime_context().current_actor)


class Head:
    """The head of a cluster, for a process that need not have joined it.

    Args:
        address: `HOST:PORT`.

    Raises:
        MissingExtra: Ray is not installed.
        HostLost: The head does not respond.
    """

    def __init__(self, address: str) -> None:
        self._ray = _ray()
        host, _, port = address.rpartition(":")
        # Ray itself tries for 40 seconds.
        self._ask(lambda: socket.create_connection((host, int(port)), timeout=_REACH_SECS).close())
        self._client = self._ask(lambda: self._ray._raylet.GcsClient(address=address))

    def drains(self) -> dict[str, int]:
        """Return the nodes being drained, and when each ends in milliseconds since 1970; 0: not announced.

        Ray has no public interface for this; Ray Train and Ray Serve make the same call.

        Raises:
            HostLost: The head does not respond.
        """
        return dict(self._ask(lambda: self._client.get_draining_nodes(timeout=_REACH_SECS)))

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (self._ray.exceptions.RayError, OSError, RuntimeError, ValueError, AttributeError) as error:
            raise HostLost(reason_of(error)) from error


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtra(f"{_EXTRA} ({error})") from error
    return ray


def _check_reachable(address: str) -> None:
    """Check that something listens: Ray itself tries for minutes, and then ends the process.

    Raises:
        ClusterUnreachable: Nothing listens.
    """
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        place = (parts.hostname or "", parts.port or _PORT)
        socket.create_connection(place, timeout=_REACH_SECS).close()
    except (OSError, ValueError) as error:
        raise _not_joined(address, f"{error}.") from error


def _not_joined(address: str, why: str) -> ClusterUnreachable:
    where = f" at {address} (RAY_ADDRESS)" if address else ""
    return ClusterUnreachable(f"Cannot connect to the Ray cluster{where}: {why}")


def reason_of(error: Exception) -> str:
    """Return the last sentence of Ray's message, which contains the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__).split(". ")[0].rstrip(".") + "."
