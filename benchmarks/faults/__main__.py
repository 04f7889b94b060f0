"""`python -m benchmarks.faults`: detected faults, and false alarms."""

import sys

from benchmarks.faults.driver import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
