"""Measures the cost of Barograph compared with other tools, in one run; prints tables of ratios.

    python benchmarks/run.py                          everything (about four hours on two cores)
    python benchmarks/run.py --quick                  everything, less precise
    python benchmarks/run.py --only steps --workloads mlp --variants barograph,smdebug --rounds 9
    python benchmarks/run.py --only log --json log.json

See README.md for what each part measures and how to read the results.
"""

from __future__ import annotations

import sys
from pathlib import Path

# If started by its path, Python puts this folder first on the path; the modules here are `benchmarks.…`.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.driver import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
