"""The fault bench: its programs are what their tables say, and its scores what they should be."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.judging.progress import RateJump
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from benchmarks import driver as whole
from benchmarks.faults.cache import Cache
from benchmarks.faults.driver import chosen_programs
from benchmarks.faults.programs import HALVES, HOME, PARTS, BadTable, Program, programs_of
from benchmarks.faults.scoring import Score, totals_of, verdict_of
from benchmarks.faults.trial import Trial, command_of, trial_from_json

SICK = Program(
    part="first", path=Path("a.py"), planted="dead-relu", also=("initialization-scale",), steps=100, begins=10,
)
WELL = Program(part="first", path=Path("b.py"), steps=100)


def finding(
    *, opened: int, severity: Severity = Severity.COSTLY, cause: str = "dead-relu", weight: float = 0.8,
    code: str = "A101",
) -> Finding:
    return Finding(
        id=f"{code}-{opened}", code=code, rule="dead-relu", severity=severity, state=FindingState.OPEN, message="m",
        remedy="r", evidence=(), subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=opened,
        opened_step=opened, last_step=opened, closed_step=None, opened_unix=0.0, causes=(Suspicion(cause, weight),),
    )


def trial(*findings: Finding, seed: int = 0) -> Trial:
    return Trial(seed=seed, findings=findings, steps=100, capture_secs=0.1, train_secs=10.1, wall_secs=12.0,
                 exit_code=0)


@pytest.mark.parametrize("part", PARTS)
def test_every_program_has_one_fault_or_none_and_a_twin_that_differs(part: str) -> None:
    programs = programs_of(part)
    assert len({program.name for program in programs}) == len(programs)
    for program in programs:
        text = program.path.read_text(encoding="utf-8")
        # A step of JAX is recorded by one line in the script; nothing else is said to Barograph there either.
        assert "barograph" not in (text.replace("barograph.jax", "") if part == "jax" else text).lower()
        assert (program.sound_text() == text) is program.healthy or program.planted == Cause.LEAKY_VALIDATION
        assert program.healthy or program.repair


def test_there_are_as_many_programs_as_are_promised() -> None:
    kinds = Counter(program.healthy for half in HALVES for program in programs_of(half))
    assert kinds[False] >= 40
    assert kinds[True] >= 20


@pytest.mark.parametrize(("part", "faulty", "healthy"), [("keras", 12, 6), ("jax", 6, 3), ("trees", 6, 3)])
def test_other_frameworks_have_as_many_as_are_promised(part: str, faulty: int, healthy: int) -> None:
    kinds = Counter(program.healthy for program in programs_of(part))
    assert kinds[False] >= faulty
    assert kinds[True] >= healthy


@pytest.mark.parametrize("part", PARTS)
def test_every_script_of_a_part_stands_in_its_table(part: str) -> None:
    scripts = {path.name for path in (HOME / part).glob("*.py")}
    assert scripts == {program.path.name for program in programs_of(part)}


def test_a_fault_is_caught_from_the_step_on_at_which_it_can_show() -> None:
    verdict = verdict_of(SICK, trial(finding(opened=5), finding(opened=29)))
    assert (verdict.first and verdict.first.opened_step, verdict.wasted, verdict.early) == (29, 0.2, 1)
    assert verdict.named


def test_a_note_catches_nothing() -> None:
    verdict = verdict_of(SICK, trial(finding(opened=29, severity=Severity.NOTE)))
    assert (verdict.first, verdict.wasted) == (None, 1.0)


def test_a_wrong_cause_that_weighs_more_is_named_first() -> None:
    wrong = finding(opened=30, cause="leaky-validation", weight=0.9, code="D109")
    verdict = verdict_of(SICK, trial(finding(opened=29), wrong))
    assert (verdict.named, verdict.cause, verdict.problems) == (False, "leaky-validation", 2)
    assert verdict.right is not None


def test_what_follows_from_the_fault_is_no_problem_of_its_own() -> None:
    after = finding(opened=30, cause="labels-unrelated", weight=0.9, code="L108")
    verdict = verdict_of(SICK, trial(finding(opened=29), after))
    assert (verdict.named, verdict.problems, verdict.contradicting) == (True, 1, 0)


def test_what_an_expert_would_accept_counts_as_right() -> None:
    assert verdict_of(SICK, trial(finding(opened=29, cause="initialization-scale"))).named


def test_totals_count_programs_runs_and_alarms() -> None:
    scores = [
        Score(SICK, (trial(finding(opened=29)), trial(seed=1)), {}, 10.0),
        Score(WELL, (trial(), trial(finding(opened=3), seed=1)), {}, None),
        Score(replace(WELL, path=Path("c.py")), (trial(finding(opened=3, severity=Severity.NOTE)),), {1: "died"}, None),
    ]
    totals = totals_of(scores)
    assert (totals.faulty, totals.faulty_runs, totals.caught, totals.named, totals.caught_always) == (1, 2, 1, 1, 0)
    assert (totals.healthy, totals.healthy_runs, totals.alarmed, totals.grave, totals.failed) == (2, 3, 2, 1, 1)
    assert totals.alarms_per_thousand_steps == pytest.approx(1000 * 2 / 300)
    assert (totals.problems, totals.contradicting) == (1.0, 0)
    assert totals.cost == pytest.approx(0.01)
    assert totals.wasted == pytest.approx((0.2 + 1.0) / 2)


def test_a_trial_survives_being_kept(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text("print(1)\n", encoding="utf-8")
    program, cache = replace(SICK, path=script), Cache("version", tmp_path / "kept")
    assert cache.get(program, "seed0") is None
    cache.put(program, "seed0", trial(finding(opened=29)).to_json())
    kept = cache.get(program, "seed0")
    assert kept is not None
    assert trial_from_json(kept) == trial(finding(opened=29))
    jumped = replace(trial(finding(opened=29)), jumps=(RateJump("p0", 20, 0.1, 9.0, 19),))
    assert trial_from_json(json.loads(json.dumps(jumped.to_json()))) == jumped
    script.write_text("print(2)\n", encoding="utf-8")
    assert cache.get(program, "seed0") is None


def test_several_workers_are_started_by_the_launcher() -> None:
    assert command_of(Path("a.py"), 1, 3)[1:] == ["a.py", "--seed", "3"]
    assert "torch.distributed.run" in command_of(Path("a.py"), 2, 3)


@pytest.mark.parametrize(("entry", "says"), [
    ('file = "a.py"\nsteps = 10\nplanted = "dead-rleu"', 'Did you mean "dead-relu"'),
    ('file = "a.py"', "without 'steps'"),
    ('file = "b.py"\nsteps = 10', "there is no"),
    ('file = "a.py"\nsteps = 10\nbegins = 10', "cannot be"),
    ('file = "a.py"\nsteps = 10\ncolour = "red"', "nobody knows colour"),
])
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, entry: str, says: str) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / "first" / "programs.toml").write_text(f"[[program]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(BadTable, match=says):
        programs_of("first", tmp_path)


def test_a_part_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(BadTable, match="there is no part both; choose from all, first"):
        chosen_programs("both", None)


def test_the_part_of_the_whole_benchmark_plants_every_program(monkeypatch: pytest.MonkeyPatch) -> None:
    planted: list[str] = []

    def measure(programs, **options):
        planted.extend(program.part for program in programs)
        return []

    monkeypatch.setattr(whole.faults, "measure_faults", measure)
    whole.measure_faults(argparse.Namespace(quick=True))
    assert set(planted) == {"first", "second", "keras", "jax", "trees"}
