"""Measures what Barograph costs, beside other tools, in one run; prints tables of ratios.

    python benchmarks/run.py                          everything (about four hours on two cores)
    python benchmarks/run.py --quick                  everything, coarser
    python benchmarks/run.py --only steps --workloads mlp --variants barograph,smdebug --rounds 9
    python benchmarks/run.py --only log --json log.json

See README.md beside this file for what each part measures and how to read it.
"""

from __future__ import annotations

import sys
from pathlib import Path

# Run by its path, Python puts this folder first on the path; the modules here are `benchmarks.…`.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.driver import main  # noqa: E402

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
