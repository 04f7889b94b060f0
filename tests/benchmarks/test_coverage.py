"""The coverage part counts what was recorded, refuses wrong values, and measures processor time of all processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.coverage.driver import FOLDER, PROGRAMS, Program, print_coverage, run_program
from benchmarks.coverage.meter import beside_secs
from benchmarks.coverage.reading import longest_gap, matches


def test_a_wrong_value_and_a_missing_step_are_not_read_back() -> None:
    assert matches([[1.0, 2.0, 3.0]], {"": {0: 1.0, 1: 2.5}}) == [1]


def test_each_fit_is_compared_with_the_series_that_agrees_most() -> None:
    recorded = {"": {0: 0.9, 1: 0.8}, "#3": {0: 0.7, 1: 0.6, 2: 0.5}}

    assert matches([[0.7, 0.6, 0.5], [0.9, 0.8], [0.1]], recorded) == [3, 2, 0]


def test_nothing_recorded_matches_nothing() -> None:
    assert matches([[1.0, 2.0]], {}) == [0]


@pytest.mark.parametrize(("seen", "share"), [([], 1.0), ([0, 1, 2, 3], 0.0), ([0, 3], 0.5), ([1], 0.5), ([3], 0.75)])
def test_the_longest_gap_includes_both_ends(seen: list[int], share: float) -> None:
    assert longest_gap(seen, 4) == share


def test_a_process_that_still_runs_counts_and_one_of_another_measurement_does_not() -> None:
    spin = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", spin], env={**os.environ, "MARK": "this one"}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        gained = beside_secs("MARK=this one") - beside_secs("MARK=another")
        child.communicate()

    assert 0.2 < gained < 3.0


def test_a_program_is_measured_plain_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "programs"
    shutil.copytree(FOLDER, folder)
    program = Program(["digits_mlp.py", "8"])
    plain, recorded = (run_program(program, folder, recorded=each) for each in (False, True))

    assert recorded["losses"] == 1.0  # the first ten steps are recorded whatever they cost
    assert recorded["fits"] == 1
    assert recorded["tensor_steps"] >= 1
    assert 0.0 <= plain["first_beside_secs"] < recorded["first_beside_secs"] < recorded["all_secs"]

    print_coverage({"measured": {"digits_mlp": [{"plain": plain, "recorded": {**recorded, "losses": 0.5}}]},
                    "failures": {"jax": "no module named jax"}})
    printed = capsys.readouterr().out
    assert "50.0 % (50.0–50.0) !" in printed
    assert "digits_mlp: losses read back" in printed
    assert "jax failed: no module named jax" in printed


def test_every_program_of_the_table_has_its_script() -> None:
    assert {program.command[0] for program in PROGRAMS.values()} == {path.name for path in FOLDER.glob("*.py")}
