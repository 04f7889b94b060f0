"""`python -m benchmarks.faults`: what the rules catch, and how often they cry wolf."""

import sys

from benchmarks.faults.driver import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
