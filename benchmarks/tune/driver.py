"""All benchmarks of tuning: each part in a process of its own, with one thread.

    python -m benchmarks.tune.driver --quick
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.processes import WorkerFailed

DRAWN = 1795823180
"""Seed of the problems that the search was not developed with."""
FULL: Sequence[Sequence[str]] = (
    ("ranks",), ("ranks", "--problems", str(DRAWN), "--seeds", "2"), ("epochs",), ("findings",), ("boosting",),
    ("overhead",), ("survival",),
)
QUICK: Sequence[Sequence[str]] = (
    ("ranks", "--seeds", "2", "--searchers", "auto,optuna-tpe,random"),
    ("ranks", "--problems", str(DRAWN), "--seeds", "1", "--searchers", "auto,optuna-tpe,random"),
    ("epochs", "--orders", "20"), ("findings", "--count", "20", "--orders", "20"), ("boosting", "--seeds", "2"),
    ("overhead", "--trials", "1000"), ("survival", "--parallel", "8", "--kills", "5", "--trials", "20"),
)
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def measure_tune(parts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Run parts, which print their tables; return the results of each by its command line.

    Raises:
        WorkerFailed: A part failed.
    """
    found = {}
    for part, *options in parts:
        print(f"\n{part} {' '.join(options)}".rstrip(), flush=True)
        with tempfile.TemporaryDirectory(prefix="barograph-bench-") as folder:
            results = Path(folder, "results.json")
            done = subprocess.run(
                [sys.executable, "-m", f"benchmarks.tune.{part}", *options, "--json", str(results)], cwd=ROOT,
                env={**os.environ, **_THREADS}, check=False)
            if done.returncode:
                raise WorkerFailed(f"{part} ended with exit code {done.returncode}")
            found[" ".join((part, *options))] = json.loads(results.read_text())
    return found


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds, searches and trials")
    measure_tune(QUICK if parser.parse_args().quick else FULL)


if __name__ == "__main__":
    main()
