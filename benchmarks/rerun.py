"""Whether reruns of the examples are identical to the last bit: `barograph run`, then `barograph rerun`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.processes import WorkerFailed
from benchmarks.tables import Table, progress

_LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")
_MOST_SECS = 300.0

EXAMPLES: Mapping[str, Sequence[str]] = {
    "digits": ("digits.py", "--epochs", "2"),
    "digits, with a fault": ("digits.py", "--epochs", "1", "--fault", "nan"),
    "accumulation": ("accumulation.py",),
    "gan": ("gan.py",),
    "nanogpt": ("nanogpt_style.py", "--steps", "30"),
    "half precision": ("half_precision_gpt.py",),
    "two processes": (sys.executable, *_LAUNCHER, "ddp.py"),
    "attach": ("attach.py",),
    "custom rule": ("custom_rule.py",),
    "hypothesis": ("digits_hypothesis.py",),
}
"""Arguments of `barograph run`. The missing examples (demo.py, analysis.py) do not train themselves: they start
`digits.py` under `barograph run`."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to rerun each example."""

    rounds: int = 3


QUICK = Effort(rounds=1)


def measure_rerun(effort: Effort) -> dict[str, Any]:
    """Return as `examples` name to the verdicts of its reruns, each with its reason and time in seconds."""
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="barograph-bench-", ignore_cleanup_errors=True) as scratch:
        folder = _repository(Path(scratch, "examples"))
        for name, words in EXAMPLES.items():
            for number in range(effort.rounds):
                progress(f"rerun, {name}, round {number + 1} of {effort.rounds}")
                found.setdefault(name, []).append(_made_again(folder, words, Path(scratch, f"{len(found)}-{number}")))
    return {"examples": found}


def _repository(folder: Path) -> Path:
    # A separate repository: other files in this one are irrelevant, and may be uncommitted.
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__", "barograph-runs"))
    (folder / ".gitignore").write_text("barograph-runs/\n__pycache__/\n", encoding="utf-8")
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "first"]):
        subprocess.run([*_GIT, *words], cwd=folder, check=True)
    return folder


def _made_again(folder: Path, words: Sequence[str], place: Path) -> dict[str, Any]:
    _barograph(folder, "run", "--to", str(place), "--rules", "none", *words)
    # Files that the script itself keeps must not exist when it runs again.
    shutil.rmtree(folder / "barograph-runs", ignore_errors=True)
    began = time.monotonic()
    said = _barograph(folder, "rerun", str(place), "--to", f"{place}-again", "--json")
    verdict = json.loads(said)
    return {"sameness": verdict["sameness"], "why": verdict["why"], "secs": time.monotonic() - began,
            "records": verdict["numbers"]["compared"]}


def _barograph(folder: Path, *words: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run([sys.executable, "-m", "barograph", *words], cwd=folder, env=environment, text=True,
                          capture_output=True, timeout=_MOST_SECS, check=False)
    # A different rerun exits with 1, and prints that; scripts may exit with 1 on their own.
    if words[0] == "rerun" and not done.stdout.startswith("{"):
        last = " | ".join(done.stderr.splitlines()[-3:])
        raise WorkerFailed(f"{' '.join(words)}: exit code {done.returncode}: {last}")
    return done.stdout


def print_rerun(report: Mapping[str, Any]) -> None:
    """Print the table, and below it the reasons of differences."""
    table = Table("example", "identical", "records compared", "rerun time")
    reruns = report["examples"]
    for name, found in reruns.items():
        identical = sum(item["sameness"] == "identical" for item in found)
        table.add(name, f"{identical} of {len(found)}", f"{min(item['records'] for item in found):,}",
                  f"{sum(item['secs'] for item in found) / len(found):.1f} s")
    every = [item for found in reruns.values() for item in found]
    table.add("all", f"{sum(item['sameness'] == 'identical' for item in every)} of {len(every)}", "", "")
    table.print()
    for name, found in reruns.items():
        for item in found:
            if item["sameness"] != "identical":
                print(f"  {name}: {item['sameness']}: {item['why']}")
