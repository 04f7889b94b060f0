"""`python -m benchmarks.replay`: how exactly held steps are made again, and what is blamed for them."""

import sys

from benchmarks.replay.driver import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
