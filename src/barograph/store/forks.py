"""Buckets after a fork. The child has no threads of obstore, so every call would hang.

A child that inherited a used obstore uses a helper process instead, which the first call starts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, cast

from barograph.errors import StoreUnavailable
from barograph.processes.command import own_module
from barograph.processes.local_process import DEVNULL, LocalProcess

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def usable(backend: ObjectStore) -> ObjectStore:
    """Return a store of obstore that works in this process: itself, or a proxy of a helper process.

    Raises:
        StoreUnavailable: It is a store in memory, which a helper process cannot access.
    """
    if not _here.lost:
        _here.used = True
        return backend
    return cast("ObjectStore", _Asking(backend))


@dataclass(slots=True)
class _Here:
    """State of obstore in this process.

    Attributes:
        used: It was called, and has threads.
        lost: It was called before this process was forked.
        helper: Helper process to use instead.
        lock: Allows one request at a time.
    """

    used: bool = False
    lost: bool = False
    helper: _Helper | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


_here = _Here()


def _after_fork() -> None:
    global _here
    if _here.helper is not None:
        _here.helper.forget()
    _here = _Here(lost=_here.used or _here.lost)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Helper:
    """A process that calls obstore for this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = LocalProcess(own_module("barograph.store.forks", str(theirs.fileno())), stdout=DEVNULL,
                                         pass_fds=(theirs.fileno(),))
        self._line: Connection[Any, Any] = Connection(ours.detach())

    def ask(self, question: tuple[bytes, str, tuple[Any, ...], Mapping[str, Any]]) -> Any:
        self._line.send(question)
        return self._line.recv()

    def close(self) -> None:
        self._line.close()
        self._process.wait()

    def forget(self) -> None:
        """Forget the helper; it belongs to the parent of this process."""
        self._line.close()
        self._process.disown()


class _Asking:
    """The part of obstore's store API that Barograph uses, through the helper."""

    def __init__(self, backend: ObjectStore) -> None:
        try:
            self._pickled = pickle.dumps(backend)
        except TypeError as error:
            raise StoreUnavailable("A store in memory does not work in a process forked after its first use. Use a "
                                   "directory, or start the process with spawn.") from error

    def put(self, name: str, data: bytes | Iterable[bytes | memoryview], **options: Any) -> None:
        self._ask("put", name, data if isinstance(data, bytes) else b"".join(data), **options)

    def get(self, name: str, **options: Any) -> _Got:
        return _Got(*self._ask("get", name, **options))

    def head(self, name: str) -> Any:
        return self._ask("head", name)

    def list(self, folder: str | None) -> Any:
        return self._ask("list", folder)

    def list_with_delimiter(self, folder: str | None) -> Any:
        return self._ask("list_with_delimiter", folder)

    def delete(self, name: str) -> None:
        self._ask("delete", name)

    def _ask(self, verb: str, *words: Any, **options: Any) -> Any:
        with _here.lock:
            if _here.helper is None:
                _here.helper = _Helper()
                atexit.register(_close)
            try:
                went_well, answer = _here.helper.ask((self._pickled, verb, words, options))
            except (EOFError, OSError) as error:
                _close()
                raise StoreUnavailable("The helper process that accesses the bucket for this forked process has "
                                       "ended.") from error
        if not went_well:
            raise answer
        return answer


@dataclass(frozen=True, slots=True)
class _Got:
    """Result of obstore's `get`."""

    data: bytes
    meta: Any

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.data

    def bytes(self) -> bytes:
        return self.data



def _close() -> None:
    helper, _here.helper = _here.helper, None
    if helper is not None:
        helper.close()


_ANSWERS: Mapping[str, Callable[..., Any]] = {
    "put": lambda store, *words, **options: store.put(*words, **options) and None,
    "get": lambda store, *words, **options: _got(store.get(*words, **options)),
    "head": lambda store, name: store.head(name),
    "list": lambda store, folder: [list(batch) for batch in store.list(folder)],
    "list_with_delimiter": lambda store, folder: store.list_with_delimiter(folder),
    "delete": lambda store, name: store.delete(name),
}


def _got(result: Any) -> tuple[bytes, Any]:
    return bytes(result.bytes()), result.meta


def _serve(line: Connection[Any, Any]) -> None:
    """Serve requests until the other process ends."""
    known: dict[bytes, Any] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            # Both ends are this package, in processes of one user.
            pickled, verb, words, options = line.recv()
            try:
                if pickled not in known:
                    known[pickled] = pickle.loads(pickled)
                answer = True, _ANSWERS[verb](known[pickled], *words, **options)
            except Exception as error:  # noqa: BLE001 - raised again in the calling process
                answer = False, error
            line.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
