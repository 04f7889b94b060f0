"""Web UIs as their documentation says to start them: until they answer, and what memory they take."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.environments import OWN, python_of

_LONGEST_SECS = 180.0
MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class Tool:
    """A web UI.

    Attributes:
        name: Name of its environment.
        command: Returns its command; of a directory and a port.
        environment: Returns variables that it needs; of a directory and a port.
        charts: Address of the page with the charts of all runs.
        drawn: JavaScript expression that is true when the first chart is drawn.
    """

    name: str
    command: Callable[[str, int], list[str]]
    environment: Callable[[str, int], Mapping[str, str]]
    charts: str
    drawn: str


def _program(tool: str, program: str) -> str:
    return str(python_of(tool).with_name(program))


TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (
    Tool(OWN, lambda directory, port: [
            _program(OWN, "barograph"), "studio", directory, "--no-open", "--port", str(port)],
         lambda directory, port: {}, "#/runs", "document.querySelectorAll('figure canvas').length > 0"),
    Tool("mlflow", lambda directory, port: [
            _program("mlflow", "mlflow"), "server", "--backend-store-uri", f"sqlite:///{directory}/mlflow.db", "--port",
            str(port)],
         lambda directory, port: {"MLFLOW_DISABLE_TELEMETRY": "true"},
         "#/experiments/1?compareRunsMode=CHART", "document.querySelectorAll('.js-plotly-plot svg').length > 0"),
    Tool("tensorboard", lambda directory, port: [
            _program("tensorboard", "tensorboard"), "--logdir", directory, "--port", str(port)],
         lambda directory, port: {}, "#timeseries", "document.querySelectorAll('scalar-card line-chart').length > 0"),
    Tool("trackio", lambda directory, port: [_program("trackio", "trackio"), "show", "--project", "bench"],
         lambda directory, port: {"TRACKIO_DIR": directory, "GRADIO_SERVER_PORT": str(port), "BROWSER": "true"},
         "?project=bench", "document.querySelectorAll('.vega-embed canvas, .vega-embed svg').length > 0"),
)}


@dataclass
class Served:
    """A running server.

    Attributes:
        url: Its address.
        start_secs: From its start until it answered.
        process: Its first process.
    """

    url: str
    start_secs: float
    process: subprocess.Popen[bytes]

    def ask(self, path: str) -> bytes:
        """Return its answer to a request."""
        with urllib.request.urlopen(self.url + path, timeout=_LONGEST_SECS) as answer:
            return bytes(answer.read())

    def memory_bytes(self) -> float:
        """Return the proportional set size of its processes: shared pages are divided among those that share them."""
        whole = 0.0
        root = psutil.Process(self.process.pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                whole += process.memory_full_info().pss
        return whole


@contextmanager
def serving(tool: Tool, directory: Path, *, log: Path, port: int | None = None) -> Iterator[Served]:
    """Start a web UI on a directory; end it.

    Raises:
        TimeoutError: It does not answer.
    """
    port = port or _free_port()
    before = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            tool.command(str(directory), port), env={**os.environ, **tool.environment(str(directory), port)},
            stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True, cwd=directory,
        )
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait_for(url, process, log)
        yield Served(url, time.monotonic() - before, process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _LONGEST_SECS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=5.0).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.01)
    raise TimeoutError(f"{url} does not answer. {log.read_text(errors='replace')[-500:]}")
