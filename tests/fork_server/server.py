"""Imports modules, then forks for each command; the fork starts like a new interpreter.

Its code is compiled under the name `<fork server>`: its frames are below those of the script, and Barograph must not
take them for the user's.

    python server.pyc SOCKET PYTHON LOG MODULE…
"""

from __future__ import annotations

import array
import atexit
import builtins
import contextlib
import fcntl
import gc
import importlib
import importlib.machinery
import json
import marshal
import os
import random
import runpy
import selectors
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from io import TextIOWrapper
from typing import NoReturn, TextIO

FRAMEWORKS = ("torch", "jax", "jaxlib", "keras", "tensorflow", "sklearn", "xgboost", "lightgbm", "optax", "flax")
"""Packages that are hidden until the script imports them: Barograph begins to record at that import."""
READ_LATER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "TORCHDYNAMO_DISABLE", "TORCHINDUCTOR_CACHE_DIR",
              "TORCHELASTIC_", "TORCH_NCCL_", "XLA_FLAGS")
"""Variables that each fork reads for itself."""
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH", "CUDA", "KERAS", "JAX", "XLA", "TF_", "LD_",
                 "LC_", "LANG", "MALLOC")
"""Variables that Python or a framework reads when it is loaded. If one differs, a new interpreter runs the command."""
SCRIPTS = ("barograph", "torchrun")
"""Console scripts, which lie beside the interpreter."""
ALLOWED_THREADS = ("jemalloc_bg_thd",)
"""pyarrow's allocator starts it, stops it before a fork and starts it again afterwards."""


class Group:
    """What the import of one module loads of the frameworks, and sets in the environment."""

    def __init__(self, name: str) -> None:
        modules, environment = set(sys.modules), dict(os.environ)
        importlib.import_module(name)
        self.modules = {new: module for new, module in sys.modules.items()
                        if new not in modules and new.partition(".")[0] in FRAMEWORKS}
        self.environment = {new: value for new, value in os.environ.items() if environment.get(new) != value}


class Hidden:
    """A finder of modules that are loaded but not yet imported by the script.

    The first import of a module of a group restores the whole group: what a real import would have loaded.
    """

    def __init__(self) -> None:
        self._group_of: dict[str, Group] = {}

    def hide(self, group: Group) -> None:
        for name in group.modules:
            self._group_of[name] = group
            del sys.modules[name]

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        group = self._group_of.get(name)
        return importlib.machinery.ModuleSpec(name, Restore(self, group)) if group is not None else None

    def restore(self, group: Group) -> None:
        os.environ.update(group.environment)
        left = {name: module for name, module in group.modules.items() if name in self._group_of}
        # An import hook that waits for one of them must hear of it.
        first = sys.meta_path[:sys.meta_path.index(self)] if self in sys.meta_path else []
        for name, module in left.items():
            if name in self._group_of and any(item.find_spec(name, None) is not None for item in first):
                importlib.import_module(name)
            elif name in self._group_of:
                sys.modules[name] = module
                del self._group_of[name]

    def module(self, name: str) -> types.ModuleType | None:
        group = self._group_of.get(name)
        return group.modules[name] if group is not None else None

    def take(self, name: str) -> None:
        self._group_of.pop(name, None)


class Restore:
    """A loader of one hidden module."""

    def __init__(self, hidden: Hidden, group: Group) -> None:
        self._hidden, self._group = hidden, group

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        self._module = self._group.modules[spec.name]
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        self._hidden.take(module.__name__)
        module.__spec__ = self._spec
        self._hidden.restore(self._group)


def server_threads() -> list[str]:
    names = []
    for number in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{number}/comm") as file:
            names.append(file.read().strip())
    return [name for name in names if name not in ALLOWED_THREADS]


class Server:
    """Serves requests until its socket's folder is gone or its starter closes its standard input."""

    def __init__(self, listener: socket.socket, python: str, log: TextIO, environment: dict[str, str]) -> None:
        self._listener, self._python, self._log, self._environment = listener, python, log, environment
        self._shims = os.path.dirname(listener.getsockname())
        self.paths = list(sys.path)
        self._children: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._ended, False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def serve(self) -> dict[str, object] | None:
        """Return a request in the fork that is to do it; None in the server, when it is to end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.fileobj == self._ended:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._ended, 4096)
                    self._reap()
                elif key.fileobj == 0:
                    self._kill_all()
                    return None
                else:
                    self._hung_up(key.fileobj)

    def _accept(self) -> dict[str, object] | None:
        client, _ = self._listener.accept()
        room = socket.CMSG_SPACE(253 * array.array("i").itemsize)
        numbers = array.array("i")
        try:
            size, ancillary, _, _ = client.recvmsg(4, room)
            for _, _, data in ancillary:
                numbers.frombytes(data[:len(data) - len(data) % numbers.itemsize])
            request = marshal.loads(exactly(client, int.from_bytes(size, "big")))
        except (OSError, EOFError, ValueError):  # it was killed before it had asked
            client.close()
            for number in numbers:
                os.close(number)
            return None
        command = Command(request["argv"], self._shims, self._python)
        reason = command.reason_against() or self._reason_against(request)
        print(json.dumps([reason or "forked", request["argv"]]), file=self._log, flush=True)
        if reason:
            with contextlib.suppress(OSError):  # it was killed meanwhile
                send(client, (command.cold(), 0))
            client.close()
            for number in numbers:
                os.close(number)
            return None
        if len(threads := server_threads()) != 1:
            raise RuntimeError(f"The fork server has threads: {threads}")
        pid = os.fork()
        if pid:
            for number in numbers:
                os.close(number)
            with contextlib.suppress(OSError):  # it was killed meanwhile: `_hung_up` ends the child
                send(client, ([], pid))
            self._children[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
            return None
        self._leave(client)
        request["received"] = list(numbers)
        request["command"] = command
        return request

    def _reason_against(self, request: dict[str, object]) -> str:
        environment, ours = request["environment"], self._environment
        for name in {*environment, *ours}:
            if (name.startswith(READ_AT_START) and not name.startswith(READ_LATER)
                    and environment.get(name) != ours.get(name)):
                return f"{name} differs"
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        if [path for path in paths if not is_bootstrap(path)] != [
                path for path in ours.get("PYTHONPATH", "").split(os.pathsep) if path]:
            return "PYTHONPATH differs"
        return ""

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self._children.pop(pid)
            with contextlib.suppress(KeyError):  # it has hung up
                self._selector.unregister(client)
            with contextlib.suppress(OSError):
                send(client, status)
            client.close()

    def _hung_up(self, client: socket.socket) -> None:
        """Kill what a killed client stood for."""
        for pid, of in self._children.items():
            if of is client:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
        self._selector.unregister(client)

    def _kill_all(self) -> None:
        for pid in self._children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _leave(self, client: socket.socket) -> None:
        """Close in the fork what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for item in (self._listener, client, *self._children.values()):
            item.close()
        for number in (self._ended, self._wake):
            os.close(number)
        self._log.close()


class Command:
    """The command line of a Python: options, then a script, a module or code.

    Args:
        argv: As the client received it: the path of `python` or a console script in the server's folder, then
            arguments.
        shims: The server's folder.
        python: The real interpreter.
    """

    def __init__(self, argv: list[str], shims: str, python: str) -> None:
        program, *words = argv
        self._python = python
        if not os.path.basename(program).startswith("python"):
            words = [os.path.join(os.path.dirname(python), os.path.basename(program)), *words]
        self._words = words
        self.executable = os.path.join(shims, "python")
        self.isolated = self.unbuffered = self.no_bytecode = False
        self.kind, self.what, self.arguments = "", "", []
        while words:
            word, *words = words
            if word == "-P":
                self.isolated = True
            elif word == "-u":
                self.unbuffered = True
            elif word == "-B":
                self.no_bytecode = True
            elif word in ("-m", "-c") and words:
                self.kind, (self.what, *self.arguments) = word, words
                return
            elif not word.startswith("-"):
                self.kind, self.what, self.arguments = "script", word, words
                return
            else:
                return

    def cold(self) -> list[str]:
        """Return the command line for the real interpreter."""
        return [self._python, *self._words]

    def reason_against(self) -> str:
        """Return why no fork can do it; "" if one can."""
        if self.kind == "script" and not self.what.endswith((".py", *map("/{}".format, SCRIPTS))):
            return "not a script"
        return "" if self.kind else "other options"

    def prepare(self, paths: list[str]) -> None:
        """Set what a new interpreter sets before it runs the program: `sys.argv`, `sys.path` and the site's hooks."""
        sys.dont_write_bytecode |= self.no_bytecode
        sys.orig_argv[:] = self.cold()
        sys.executable = self.executable
        if spawning := sys.modules.get("multiprocessing.spawn"):
            spawning.set_executable(self.executable)
        sys.argv[:] = [self.what if self.kind == "script" else self.kind, *self.arguments]
        added = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if is_bootstrap(path)]
        sys.path[:] = [*added, *paths]
        if added:
            sys.modules.pop("sitecustomize", None)
            importlib.import_module("sitecustomize")
        if not self.isolated:
            first = {"script": os.path.dirname(os.path.abspath(self.what)), "-m": os.getcwd(), "-c": ""}
            sys.path.insert(0, first[self.kind])

    def run(self) -> None:
        """Run the program as `__main__`."""
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        if self.kind == "-m":
            runpy._run_module_as_main(self.what)  # what `python -m` calls
            return
        if self.kind == "-c":
            code = compile(self.what, "<string>", "exec")
        else:
            path = os.path.abspath(self.what)
            main.__file__ = path
            main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
            main.__cached__ = None
            try:
                with open(path, "rb") as file:
                    source = file.read()
            except OSError as error:
                print(f"{self.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}",
                      file=sys.stderr)
                raise SystemExit(2) from None
            code = compile(source, path, "exec")
        exec(code, main.__dict__)


def is_bootstrap(path: str) -> bool:
    """Return whether a folder of PYTHONPATH only holds a `sitecustomize`, as Barograph's does."""
    return path.endswith(os.path.join("capture", "inject"))


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("The client has ended.")
        data += part
    return data


def send(connection: socket.socket, what: object) -> None:
    data = marshal.dumps(what)
    connection.sendall(len(data).to_bytes(4, "big") + data)


def become(request: dict[str, object], hidden: Hidden) -> None:
    """Give this fork what the client was started with: descriptors, environment, directory, signals."""
    os.setsid()
    # Out of the way first: the number of one may be where another belongs.
    received = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 1000) for number in request["received"]]
    for number in request["received"]:
        os.close(number)
    for number in {0, 1, 2} - set(request["descriptors"]):
        os.close(number)
    for number, wanted in zip(received, request["descriptors"], strict=True):
        os.dup2(number, wanted)
        os.close(number)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    if request["niceness"] > os.nice(0):
        os.nice(request["niceness"] - os.nice(0))
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    parent_is_that_of(request["pid"])
    random.seed()
    sys.modules["numpy"].random.seed()
    if torch := hidden.module("torch"):
        torch.default_generator.seed()


def parent_is_that_of(client: int) -> None:
    """Let `os.getppid` return the parent of the client: for Barograph, that process started this one."""

    def getppid() -> int:
        try:
            with open(f"/proc/{client}/stat", "rb") as file:
                return int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            return 1

    os.getppid = getppid


def open_streams(unbuffered: bool) -> None:
    """Open the standard streams as a new interpreter does."""
    for number, name, mode, errors in ((0, "stdin", "r", "strict"), (1, "stdout", "w", "strict"),
                                       (2, "stderr", "w", "backslashreplace")):
        try:
            raw = open(number, f"{mode}b", 0 if unbuffered and mode == "w" else -1, closefd=False)  # noqa: SIM115
        except OSError:
            setattr(sys, name, None)
            setattr(sys, f"__{name}__", None)
            continue
        getattr(raw, "raw", raw).name = f"<{name}>"
        stream = TextIOWrapper(raw, errors=errors, line_buffering=name == "stderr" or os.isatty(number),
                                  write_through=unbuffered and mode == "w")
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main(place: str, python: str, log: str, *names: str) -> None:
    sys.path[0:1] = []  # the folder of this file
    sys.argv[1:] = []
    hidden = Hidden()
    environment = dict(os.environ)
    groups = [Group(name) for name in names]
    for group in groups:
        hidden.hide(group)
    sys.meta_path.insert(0, hidden)
    with socket.socket(socket.AF_UNIX) as listener, open(log, "a", encoding="utf-8") as file:
        listener.bind(place)
        listener.listen(64)
        gc.collect()
        gc.freeze()
        os.write(1, b"ready\n")
        server = Server(listener, python, file, environment)
        request = server.serve()
    if request is None:
        return
    command = request["command"]
    become(request, hidden)
    open_streams(command.unbuffered)
    command.prepare(server.paths)
    end(status_after(command.run))


def status_after(run: Callable[[], None]) -> int:
    """Run the program; return what an interpreter would exit with, minus a signal's number if it would kill itself."""
    try:
        run()
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return (ending.code or 0) & 0xFF
        print(ending.code, file=sys.stderr)
        return 1
    except BaseException as error:  # noqa: BLE001 - an interpreter prints whatever it is
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<fork server>":
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
        if sys.version_info >= (3, 12):
            sys.last_exc = sys.last_value
        sys.excepthook(sys.last_type, sys.last_value, trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(status: int) -> NoReturn:
    """End as an interpreter does, but leave the modules to the system: to take them apart costs a fork 0.2 s."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        status = status or 120
    if sys.stderr is not None:
        sys.stderr.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main(*sys.argv[1:])
