"""`python -m benchmarks.replay`: how exactly withheld steps are replayed, and whether the cause is found."""

import sys

from benchmarks.replay.driver import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
