"""The examples run, and a run of each holds what its first lines promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import barograph
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import Standing
from forking import DIGITS

FORKED = DIGITS
pytestmark = pytest.mark.usefixtures("programs_on_path")
EXAMPLES = Path(__file__).parents[1] / "examples"
PATIENCE_SECS = 600.0


def python(*words: str, folder: Path, exit_code: int = 0) -> str:
    """Run Python in `folder` and return all that it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["python", *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_SECS)
    assert done.returncode == exit_code, done.stdout
    return done.stdout


def recorded(folder: Path, *command: str) -> RunReader:
    """Return the run of a command, with every step recorded."""
    said = python("-m", "barograph", "run", "--to", "run", "--budget", "off", *command, folder=folder)
    assert "No problems found in" in said
    run = barograph.open(folder / "run")
    assert {state.standing for state in run.workers} == {Standing.FINISHED}
    assert all(state.last is not None and state.last.coverage.complete for state in run.workers)
    assert run.findings == ()
    return run


def test_the_demonstration_shows_what_it_claims(tmp_path: Path) -> None:
    said = python(str(EXAMPLES / "demo.py"), folder=tmp_path)
    assert said.count("\n  yes  ") == 6
    assert "NO " not in said
    assert "of them saved" in said


def test_the_study_of_the_example_finds_a_winner(tmp_path: Path, jobs_home: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    said = python("-m", "barograph", "tune", "examples/tune.toml", "--jobs", "2", folder=tmp_path)
    assert "command  python examples/tune_digits.py --epochs 6 --lr" in said
    assert said.count(" started: lr=") == 2


@pytest.mark.parametrize(("fault", "code"), [("learning-rate", "W101"), ("nan", "N101")])
def test_the_other_faults_of_the_digits_are_named(tmp_path: Path, fault: str, code: str) -> None:
    said = python("-m", "barograph", "run", "--to", "run", "--budget", "off", str(EXAMPLES / "digits.py"),
                  "--epochs", "1", "--fault", fault, folder=tmp_path)
    assert code in {finding.code for finding in barograph.open(tmp_path / "run").findings}, said


def test_the_operation_and_the_document_that_overflow_are_named(tmp_path: Path) -> None:
    script = str(EXAMPLES / "half_precision_gpt.py")
    held = python("-m", "barograph", "run", "--record", "--to", "run", script, folder=tmp_path, exit_code=79)
    assert "not finite because of the operation bmm_float16: its result exceeds 65504" in held
    assert "masked" not in held
    assert "The update of step 8 was withheld." in held
    # Named: a capsule by itself has only scripts of this folder run.
    told = python("-m", "barograph", "replay", "run", "--try", "dtype=bf16", "--try", "without-sample", "--steps", "1",
                  script, folder=tmp_path)
    assert "bitwise" in told
    assert "bmm, forward in blocks.0.attention" in told
    assert "half_precision_gpt.py:56" in told
    assert "float16 [32, 64, 64]" in told
    assert "guilty  sample 3, of 8: it fails alone, and without it the step is finite" in told
    assert "sample 3 is 761 of Chunks, calls" in told
    assert re.search(r"^dtype=bf16\s+stays finite", told, re.MULTILINE)
    assert re.search(r"^without-sample\s+stays finite", told, re.MULTILINE)


def test_accumulated_batches_make_one_step(tmp_path: Path) -> None:
    run = recorded(tmp_path, str(EXAMPLES / "accumulation.py"))
    steps = run.series("output:0", "count")
    assert len(steps) == 4 * (1797 // 16 // 4)
    assert set(steps.values) == {4 * 16 * 64}  # batches x samples x neurons


def test_two_optimizers_have_their_own_series(tmp_path: Path) -> None:
    run = recorded(tmp_path, str(EXAMPLES / "gan.py"))
    made = 4 * (1797 // 64)
    for model in ("Generator", "Discriminator"):
        np.testing.assert_array_equal(run.steps(optimizer=model), range(made))
        assert len(run.series(f"weight:{model}.0.weight", "l2", optimizer=model)) == made


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_loop_in_the_style_of_nanogpt_is_seen_whole(tmp_path: Path, dtype: str) -> None:
    run = recorded(tmp_path, str(EXAMPLES / "nanogpt_style.py"), "--steps", "30", "--dtype", dtype)
    assert list(run.steps("eval")) == [0, 25, 30]
    assert len(run.series("loss:total")) == 30
    assert len(run.keys("weight", path="blocks.*")) == 20
    assert run.keys("weight", path="head.*") == []  # tied: it is the token embedding, and goes by that name
    np.testing.assert_allclose(run.series("learning_rate:group0").values[:4], [0.001, 0.002, 0.003, 0.003])
    # The loss is divided by the number of micro-batches before `backward`, and what the function returned is not.
    total, whole = run.series("loss:total").values, run.series("loss:cross_entropy").values
    np.testing.assert_allclose(2 * total, whole, rtol=1e-2)


def test_two_processes_are_two_workers_of_one_run(tmp_path: Path) -> None:
    run = recorded(tmp_path, "python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                   str(EXAMPLES / "ddp.py"))
    assert [state.worker.name for state in run.workers] == ["r0", "r1"]
    mine, others = (run.series("loss:total", worker=name).values for name in ("r0", "r1"))
    assert (mine != others).any()
    np.testing.assert_allclose(run.series("loss:total").values, (mine + others) / 2)
    weights = [run.series("weight:0.weight", "l2", worker=name).values for name in ("r0", "r1")]
    np.testing.assert_array_equal(*weights)


def test_one_line_in_the_script_records_it_and_has_it_watched(tmp_path: Path) -> None:
    said = python(str(EXAMPLES / "attach.py"), "--to", "run", folder=tmp_path)
    assert "barograph: " in said  # the watcher's summary
    run = barograph.open(tmp_path / "run")
    accuracy = run.series("scalar:accuracy", mode="eval")
    assert len(accuracy) == 10
    assert accuracy.values[-1] > 0.9
    assert run.tensor("custom:guesses", int(accuracy.steps[0])).shape == (397,)


def test_a_rule_of_ones_own_finds_what_it_is_for(tmp_path: Path) -> None:
    said = python(str(EXAMPLES / "custom_rule.py"), folder=tmp_path)
    assert re.search(r"Accuracy is .* \(since step \d+, X101\)", said)


def test_a_rule_of_ones_own_is_found_by_its_place(tmp_path: Path) -> None:
    said = python("-m", "barograph", "rules", "explain", "custom_rule:AccuracyFell", folder=EXAMPLES)
    assert "Accuracy has fallen far below its best" in said


def test_a_run_answers_questions(tmp_path: Path) -> None:
    said = python(str(EXAMPLES / "analysis.py"), folder=tmp_path)
    assert "p0 finished after 129 steps" in said
    assert "evaluations after steps: 43 86 129" in said
    assert "share of zeros in each layer's output" in said


def test_every_example_is_run_by_a_test_and_listed() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = [path.name for path in EXAMPLES.glob("*.py")]
    assert [name for name in names if name not in tests or f"[{name}]({name})" not in listed] == []


def test_a_hypothesis_becomes_eighteen_trials_a_verdict_and_a_model_that_is_made_again(tmp_path: Path) -> None:
    said = python(str(EXAMPLES / "digits_hypothesis.py"), "runs", folder=tmp_path)
    rows = [line for line in said.splitlines() if line.startswith(("| mine ", "| resnet "))]
    assert len(rows) == 18
    best = rows[0].split("|")[1].strip()
    assert f"best of all: {best}" in said
    assert [f"best in {epochs} epochs: " in said for epochs in (3, 6, 9)] == [True] * 3
    assert "mine is better: undecided, +0." in said
    assert said.endswith("made again: identical\n")
    shared = python("-m", "barograph", "search", "--root", "runs", "name = 'digits data and settings'", "--json",
                    folder=tmp_path)
    assert len(json.loads(shared)[0]["trials"].split(", ")) == 18
    derived = python("-m", "barograph", "search", "--root", "runs", f"derived_from('{best}')", "--json",
                     folder=tmp_path)
    assert [row["name"] for row in json.loads(derived)] == [f"{best} again"]
