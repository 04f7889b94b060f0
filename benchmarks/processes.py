"""Runs one measurement in a fresh process, without a network.

A worker is a module `benchmarks.<name>_worker`. It reads one JSON object, its request, from standard input and writes
one JSON object, its result, to the file named in the request, because tools print to both outputs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.environments import OWN, ROOT, python_of

Request = Mapping[str, Any]
Result = dict[str, Any]

NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist: network access fails at once."""

KEEP_PAGES: Mapping[str, str] = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Environment variables that make glibc keep its memory.

By default it returns large freed blocks to the system or not, depending on other allocations; a step that frees and
reallocates its gradients then has ten thousand page faults, or none: 62 ms or 45. Keeping memory is the same for every
tool, and makes the bare step as fast as possible, so every ratio is an upper bound.
"""


class WorkerFailed(Exception):
    """A measurement ended without a result; the message contains the end of its output."""


def run_worker(
    module: str, request: Request, *, environment: str = OWN, timeout_secs: float = 600.0,
    variables: Mapping[str, str] | None = None,
) -> Result:  # fmt: skip
    """Return the result of a worker.

    Args:
        module: The worker, below `benchmarks`.
        request: Its request. A new, empty `directory` for its output is added, and removed afterwards.
        environment: Environment whose interpreter runs it.
        timeout_secs: Maximum time.
        variables: Environment variables besides those of `clean_environment`.

    Raises:
        WorkerFailed: It ended with an error, without a result, or not in time.
    """
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        answer = Path(scratch, "result.json")
        directory, home = Path(scratch, "written"), Path(scratch, "home")
        directory.mkdir()
        home.mkdir()
        sent = json.dumps({**request, "directory": str(directory), "answer": str(answer)})
        command = [str(python_of(environment)), "-m", f"benchmarks.{module}"]
        _run(command, sent, {**clean_environment(home, environment), **(variables or {})}, timeout_secs)
        if not answer.exists():
            raise WorkerFailed(f"{module} gave no result")
        result: Result = json.loads(answer.read_text(encoding="utf-8"))
        return result


def answer_request(measure: Callable[[Result], Request]) -> None:
    """Read the request, measure, write the result: the main function of every worker."""
    request: Result = json.load(sys.stdin)
    Path(request["answer"]).write_text(json.dumps(dict(measure(request))), encoding="utf-8")


def clean_environment(home: Path, environment: str = OWN) -> dict[str, str]:
    """Return the environment variables of a measurement: one thread, no network, no user settings.

    Args:
        home: Replaces the user's home and caches.
        environment: Environment whose interpreter runs; only our own inherits PYTHONPATH.
    """
    inherited = [os.environ["PYTHONPATH"]] if environment == OWN and os.environ.get("PYTHONPATH") else []
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    no_network = {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE),
        "no_proxy": "localhost,127.0.0.1",
        "WANDB_MODE": "offline",
        "WANDB_ERROR_REPORTING": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
    }
    quiet = {"WANDB_SILENT": "true", "PYTHONWARNINGS": "ignore", "TERM": "dumb"}
    own = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *inherited]),
        "PYTHONUNBUFFERED": "1",
    }
    return {**kept, **threads, **no_network, **quiet, **own}


def size_of(directory: str | Path) -> int:
    """Return the bytes of all files below a directory."""
    return sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())


def _run(command: list[str], sent: str, environment: dict[str, str], timeout_secs: float) -> None:
    try:
        done = subprocess.run(
            command, input=sent, capture_output=True, text=True, env=environment, cwd=environment["HOME"],
            timeout=timeout_secs, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise WorkerFailed(f"not done within {timeout_secs:.0f} s") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise WorkerFailed(f"exit code {done.returncode}: {' | '.join(said[-3:])}")


def peak_bytes() -> int:
    """Return the peak memory of this process since its program started.

    Not from `getrusage`: for a child process, that is at least the peak of its parent.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]
