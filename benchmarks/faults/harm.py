"""Checks whether a planted fault does harm: compares the last output line of each faulty script and its sound variant.

    python -m benchmarks.faults.harm                  all of the first half, seed 0
    python -m benchmarks.faults.harm --only barley --seeds 3
    python -m benchmarks.faults.harm --part keras     another part

The sound variant is the script with the `repair` of its table. For a healthy program only the last line is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.faults.driver import JOBS, chosen_programs
from benchmarks.faults.programs import PARTS, Program
from benchmarks.faults.trial import TrialFailed, bare
from benchmarks.tables import Table, progress


def last_lines(program: Program, seed: int) -> tuple[str, str]:
    """Return the last lines of a script and of its sound variant; "" without a variant."""
    progress(f"harm: {program.name} seed {seed}")
    faulty = _said(program.path, program, seed)
    if not program.repair:
        return faulty, ""
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as scratch:
        twin = Path(scratch, program.path.name)
        twin.write_text(program.sound_text(), encoding="utf-8")
        return faulty, _said(twin, program, seed)


def _said(path: Path, program: Program, seed: int) -> str:
    try:
        done = bare(path, program.workers, seed)
    except TrialFailed as error:
        return str(error)
    ended = f" (exit code {done.exit_code})" if done.exit_code else ""
    return f"{done.last_line[:100]}{ended} · {done.wall_secs:.1f} s"


def main(arguments: Sequence[str]) -> int:
    """Run, print, and return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults.harm", description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="first")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS)
    choice = parser.parse_args(arguments)
    runs = [(program, seed) for program in chosen_programs(choice.part, choice.only) for seed in range(choice.seeds)]
    table = Table("program", "planted", "seed", "as it is", "sound twin")
    with ThreadPoolExecutor(choice.jobs) as pool:
        for (program, seed), lines in zip(runs, pool.map(lambda run: last_lines(*run), runs), strict=True):
            table.add(program.name, program.planted or "–", str(seed), *lines)
    table.print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
