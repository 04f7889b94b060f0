"""Everything about tuning: ranks, ranks on other problems, epochs, overhead.

    python -m benchmarks.tune --quick
"""

from __future__ import annotations

import argparse
import subprocess
import sys

QUICK = (
    ["ranks", "--seeds", "2", "--searchers", "auto,optuna-tpe,random"],
    ["ranks", "--problems", "1", "--seeds", "1", "--searchers", "auto,optuna-tpe,random"],
    ["epochs", "--orders", "20"],
    ["overhead", "--trials", "1000"],
)
FULL = (["ranks"], ["ranks", "--problems", "2026"], ["epochs"], ["overhead"])


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer seeds, searches and trials")
    for part, *options in QUICK if parser.parse_args().quick else FULL:
        print(f"\n{part} {' '.join(options)}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.tune.{part}", *options], check=True)


if __name__ == "__main__":
    main()
