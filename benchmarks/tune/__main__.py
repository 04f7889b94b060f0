"""All benchmarks of tuning: `python -m benchmarks.tune --quick`."""

from benchmarks.tune.driver import main

if __name__ == "__main__":
    main()
