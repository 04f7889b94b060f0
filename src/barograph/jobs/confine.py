"""Confines itself, then becomes the command of a job.

    python -I -S confine.py SETTINGS PROGRAM [ARGUMENT]...
    python -I -S confine.py --probe
    python -I -S confine.py --hold

Started as a file and without third-party packages, so that it takes milliseconds and that the environment of the
command, which may record every Python, does not concern it. What it does to itself ends with the process.
`--probe` prints why a limit cannot be had here; `--hold` keeps a network namespace open until it is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_NEW_USER, _NEW_NET, _NEW_MOUNTS = 0x10000000, 0x40000000, 0x00020000
_BIND, _RECURSIVE, _FOLLOW = 0x1000, 0x4000, 0x80000
"""Flags of `mount`; a mount with the last one follows changes outside its namespace, and the other way round not."""
_GET_FLAGS, _SET_FLAGS, _IS_UP = 0x8913, 0x8914, 1
_NETWORK, _MOUNTS = "a network namespace", "a mount namespace"
_HOSTS = "/etc/hosts"
_FAILED, _NOT_EXECUTABLE, _NOT_FOUND = 125, 126, 127

_libc = ctypes.CDLL(None, use_errno=True)


def main(words: Sequence[str]) -> int:
    """Confine this process and run the command in its place. Return only if that failed."""
    if words[0] == "--probe":
        print(json.dumps({"network": _problem(enter_network)}))
        return 0
    if words[0] == "--hold":
        enter_network()
        print("ready", flush=True)
        while True:
            signal.pause()
    try:
        confine(json.loads(words[0]))
    except OSError as error:
        print(f"Barograph: the limits of this job cannot be set: {error.strerror or error}.", file=sys.stderr)
        return _FAILED
    try:
        os.execvp(words[1], tuple(words[1:]))
    except FileNotFoundError:
        print(f"Barograph: program not found: {words[1]}.", file=sys.stderr)
        return _NOT_FOUND
    except OSError as error:
        print(f"Barograph: {words[1]} cannot be run: {error.strerror}.", file=sys.stderr)
        return _NOT_EXECUTABLE


def confine(settings: Mapping[str, Any]) -> None:
    """Set the limits of this process.

    Args:
        settings: "procs": file of a control group to join; "cpu_set": CPUs; "watcher": command that limits memory, to
            which this process's number is appended as its first argument; "network": "new", or number of a process
            whose namespace is joined; "hosts": file that is /etc/hosts for the command, and whether a user namespace
            may be entered for it. Each may be absent.

    Raises:
        OSError: A limit cannot be set.
    """
    if "watcher" in settings:
        _start_apart([word.replace("{pid}", str(os.getpid())) for word in settings["watcher"]])
    if "procs" in settings:
        with open(settings["procs"], "w", encoding="ascii") as file:
            file.write("0")
    if "cpu_set" in settings:
        os.sched_setaffinity(0, settings["cpu_set"])
    if settings.get("network") == "new":
        enter_network()
    elif "network" in settings:
        join_network(int(settings["network"]))
    if "hosts" in settings:
        name_hosts(*settings["hosts"])


def enter_network() -> None:
    """Enter a new network namespace that has only the loopback interface."""
    _enter(_NEW_NET, _NETWORK)
    with _named(_NETWORK), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _IS_UP))


def name_hosts(path: str, may_enter_user_namespace: bool) -> None:
    """Show a file as /etc/hosts to this process and those that it starts, where this machine allows it.

    Args:
        path: The file.
        may_enter_user_namespace: If nothing else is allowed. `sudo` and containers do not work there.
    """
    if _libc.unshare(_NEW_MOUNTS):
        # First in a child: there is no way back from a user namespace.
        if not may_enter_user_namespace or _problem(lambda: _mount_hosts_apart(path)):
            return
        _mount_hosts_apart(path)
    else:
        with contextlib.suppress(OSError):
            _mount_hosts(path)


def _mount_hosts_apart(path: str) -> None:
    _enter(_NEW_MOUNTS, _MOUNTS)
    _mount_hosts(path)


def _mount_hosts(path: str) -> None:
    for source, target, flags in ((None, "/", _RECURSIVE | _FOLLOW), (path, _HOSTS, _BIND)):
        _checked(_libc.mount(source and os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None),
                 f"a mount at {target}")


def _enter(kind: int, what: str) -> None:
    """Enter a new namespace. Without privileges a user namespace comes with it: this user has the same number there."""
    if not _libc.unshare(kind):
        return
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NEW_USER | kind), what)
    with _named(what):
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)


def join_network(pid: int) -> None:
    """Enter the network namespace of another process."""
    with contextlib.ExitStack() as opened:
        spaces = {kind: opened.enter_context(open(f"/proc/{pid}/ns/{kind}", "rb")) for kind in ("user", "net")}
        if os.fstat(spaces["user"].fileno()).st_ino != os.stat("/proc/self/ns/user").st_ino:
            _checked(_libc.setns(spaces["user"].fileno(), _NEW_USER), "the user namespace of the job")
        _checked(_libc.setns(spaces["net"].fileno(), _NEW_NET), "the network namespace of the job")


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise _not_available(ctypes.get_errno(), what)
    return result


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _not_available(error.errno or 0, what) from error


def _not_available(number: int, what: str) -> OSError:
    return OSError(number, f"{what} is not available ({os.strerror(number)})")


def _problem(limit: Any) -> str:
    """Return why a limit cannot be had, tried in a child; "" if it can."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            limit()
        except OSError as error:
            os.write(writing, str(error.strerror or error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said.decode("utf-8", "replace")


def _start_apart(command: Sequence[str]) -> None:
    """Start a command that is nobody's child and keeps nothing of ours open."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if not os.fork():
            empty = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(empty, stream)
            os.closerange(3, 1024)
            os.execv(command[0], tuple(command))
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
