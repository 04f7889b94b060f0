"""The time from a finding to the webhook, over loopback, with the default settings."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.finding import STEP_ENDED
from benchmarks.interleave import interval_of
from benchmarks.processes import WorkerFailed, clean_environment
from benchmarks.tables import Table, note, progress, span_text

SCRIPT = ROOT / "benchmarks" / "scripts" / "nan_at_step.py"
_OPENED = "org.barograph.finding.opened"


@dataclass(frozen=True, slots=True)
class Effort:
    """Size of the measurement: runs, steps of each, and the bad step."""

    rounds: int = 7
    steps: int = 1000
    bad_step: int = 200


QUICK = Effort(rounds=3)


@dataclass
class Received:
    """Received events: (time of arrival, event)."""

    url: str = ""
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)


def measure_notices(effort: Effort) -> dict[str, Any]:
    """Return, for each run, the seconds to the webhook from the finding's opening and from the end of the bad step."""
    latencies = []
    for number in range(effort.rounds):
        progress(f"notice, round {number + 1} of {effort.rounds}")
        latencies.append(_latency(effort))
    return {"latencies": latencies}


def _latency(effort: Effort) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch, _hook() as hook:
        command = [sys.executable, "-m", "barograph", "run", "--to", f"{scratch}/run", "--notify", "$OPS_HOOK",
                   str(SCRIPT), str(effort.bad_step), str(effort.steps)]
        environment = clean_environment(Path(scratch)) | {"OPS_HOOK": hook.url}
        done = subprocess.run(command, env=environment, cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120)
    return latency_of(done.stdout.splitlines(), hook.events)


@contextmanager
def _hook() -> Iterator[Received]:
    received = Received()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.events.append((time.time(), json.loads(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()


def latency_of(lines: Sequence[str], events: Sequence[tuple[float, Mapping[str, Any]]]) -> Mapping[str, float]:
    """Return the seconds to the first notice after the bad step.

    Args:
        lines: Output of the script.
        events: (time of arrival, event), in the order of arrival.

    Raises:
        WorkerFailed: The script never reached the step, or no notice followed; the message contains the output.
    """
    ended = next((float(match[1]) for text in lines if (match := STEP_ENDED.search(text))), None)
    if ended is None:
        raise WorkerFailed(f"the script never reached its bad step: {' | '.join(lines[-3:])}")
    for arrived, event in events:
        if event["type"] == _OPENED and arrived >= ended:
            opened = datetime.fromisoformat(event["time"]).timestamp()
            return {"from_opening": arrived - opened, "from_step": arrived - ended}
    raise WorkerFailed(f"no notice followed: {' | '.join(lines[-5:])}")


def print_notices(report: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table("from", "to", "time")
    for name, begin in (("from_opening", "finding opens"), ("from_step", "end of the step")):
        interval = interval_of([entry[name] for entry in report["latencies"]])
        table.add(begin, "webhook received it", span_text(interval, "s", digits=3))
    table.print()
    note("one webhook on loopback; the finding opens when the watcher passes it to its notifiers")
