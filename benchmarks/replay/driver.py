"""The command line of the replay benchmark: programs, how to run them, and output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.replay.programs import BadTable, Program, programs_of
from benchmarks.replay.scoring import Score, totals_of
from benchmarks.replay.trial import CommandLine, Forks, TrialFailed
from benchmarks.tables import Table, heading, note, progress


def measure_replays(programs: Sequence[Program], *, forked: bool = False) -> list[Score]:
    """Return the score of each program.

    Args:
        programs: The programs.
        forked: Use forks of one process instead of the command line; programs with several workers are left out.
    """
    runner = Forks() if forked else CommandLine()
    scores = []
    try:
        for number, program in enumerate(programs, 1):
            if forked and program.workers > 1:
                continue
            progress(f"replay {number}/{len(programs)}: {program.name}")
            try:
                scores.append(Score(program, runner.trial(program)))
            except TrialFailed as error:
                scores.append(Score(program, None, str(error)))
    finally:
        runner.close()
    return scores


def print_replays(scores: Sequence[Score]) -> None:
    """Print a row for each program, and the totals with their targets."""
    table = Table("program", "covers", "held", "replay", "operation", "sample", "record", "replay", "tries")
    for score in scores:
        trial = score.trial
        table.add(
            score.program.name, score.program.covers, _mark(score.held), trial.grade if trial else "–",
            _mark(score.blamed), _mark(score.sampled), f"{trial.record_secs:.1f} s" if trial else "–",
            f"{trial.replay_secs:.1f} s" if trial else "–", str(trial.tries) if trial else "–",
        )
    table.print()
    print()
    totals = Table("", "measured", "target", "")
    for total in totals_of(scores):
        share = f"{total.right / total.of:.0%} ({total.right} of {total.of})" if total.of else "–"
        totals.add(total.name, share, f"100 % of at least {total.least}", "" if total.kept else "missed")
    totals.print()
    for score in scores:
        if score.failure:
            note(f"{score.program.name} gave no result: {score.failure}")
        elif score.trial is not None and False in (score.held, score.blamed, score.sampled):
            trial = score.trial
            blamed = trial.blamed.get("name") or trial.blamed.get("module") or "nothing"
            note(f"{score.program.name}: held {trial.held}; blamed {blamed} at {trial.blamed.get('line')}; "
                 f"samples {trial.guilty}")


def report_of(scores: Sequence[Score]) -> dict[str, Any]:
    """Return every raw result as plain JSON data."""
    return {
        "programs": [{"name": score.program.name, "held": score.held, "exact": score.exact, "blamed": score.blamed,
                      "sampled": score.sampled, "failure": score.failure,
                      "trial": asdict(score.trial) if score.trial else None} for score in scores],
        "totals": [asdict(total) for total in totals_of(scores)],
    }


def chosen_programs(only: Iterable[str] | None) -> list[Program]:
    """Return the programs, or some of them.

    Raises:
        BadTable: The table is invalid, or there is no program with a name.
    """
    programs, wanted = list(programs_of()), None if only is None else set(only)
    if wanted is None:
        return programs
    if unknown := sorted(wanted - {program.name for program in programs}):
        raise BadTable(f"no program is called {', '.join(unknown)}")
    return [program for program in programs if program.name in wanted]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and return 0 if everything was right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay",
                                     description="Hold a step of each program, make it again, and judge what is said.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs, by the names of their scripts")
    parser.add_argument("--forked", action="store_true", help="in forks of one process, without the command line")
    parser.add_argument("--json", metavar="FILE", help="write every raw figure there")
    choice = parser.parse_args(arguments)
    try:
        programs = chosen_programs(choice.only)
    except BadTable as error:
        print(error, file=sys.stderr)
        return 2
    scores = measure_replays(programs, forked=choice.forked)
    if choice.json:
        Path(choice.json).write_text(json.dumps(report_of(scores), indent=1), encoding="utf-8")
    heading("Steps that are held, and made again")
    print_replays(scores)
    return int(not all(score.held and score.exact and score.blamed in (None, True) and score.sampled in (None, True)
                       for score in scores))


def _mark(right: bool | None) -> str:
    return {True: "right", False: "WRONG", None: "–"}[right]
