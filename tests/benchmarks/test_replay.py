"""The replay bench: its programs are what their table says, its scores are right, and some programs are run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.replay.programs import BadTable, Program, programs_of
from benchmarks.replay.scoring import Score, totals_of
from benchmarks.replay.trial import Forks, Trial

PROGRAMS = {program.name: program for program in programs_of()}
SICK = Program(path=Path(__file__), covers="", step=3, handed_in="batch", guilty=(4,))


def trial(**otherwise: object) -> Trial:
    told = Trial("not finite@3", "bitwise", {"handed_in": True, "module": "batch"}, (4,), (), 1.0, 1.0)
    return replace(told, **otherwise)  # type: ignore[arg-type]


def test_there_are_as_many_programs_as_are_promised() -> None:
    assert len(PROGRAMS) == len(programs_of()) >= 22
    assert sum(program.blames for program in PROGRAMS.values()) >= 20


def test_no_program_knows_of_barograph_and_no_two_are_alike() -> None:
    texts = [program.path.read_text(encoding="utf-8") for program in PROGRAMS.values()]
    assert not any("barograph" in text.lower().replace("the barograph draws", "") for text in texts)
    assert len({text.partition("\n")[0] for text in texts}) == len(texts)
    scripts = {path.stem for path in programs_of()[0].path.parent.glob("*.py")}
    assert scripts == set(PROGRAMS)


def test_a_program_that_is_held_made_again_and_rightly_blamed() -> None:
    score = Score(SICK, trial())
    assert (score.held, score.exact, score.blamed, score.sampled) == (True, True, True, True)
    assert [total.right for total in totals_of([score])] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize(("otherwise", "judged"), [
    ({"held": "norm@3"}, (False, True, True, True)),
    ({"grade": "same event"}, (True, False, True, True)),
    ({"blamed": {"handed_in": True, "module": "0.weight"}}, (True, True, False, True)),
    ({"guilty": (4, 5)}, (True, True, True, False)),
])
def test_what_is_wrong_is_told_apart(otherwise: dict[str, object], judged: tuple[bool, ...]) -> None:
    score = Score(SICK, trial(**otherwise))
    assert (score.held, score.exact, score.blamed, score.sampled) == judged


def test_a_program_without_result_is_right_in_nothing() -> None:
    score = Score(SICK, None, "died")
    assert (score.held, score.exact, score.blamed, score.sampled) == (False, False, False, False)


def test_the_line_of_an_operation_is_that_of_the_mark() -> None:
    program = PROGRAMS["char_lstm"]
    told = {"name": "log", "phase": "forward", "line": f"/there/char_lstm.py:{program.line}"}
    assert Score(program, trial(blamed=told)).blamed is True
    assert Score(program, trial(blamed={**told, "line": "/there/char_lstm.py:1"})).blamed is False


@pytest.mark.parametrize(("entry", "says"), [
    ('file = "b.py"\ncovers = ""\nstep = 1', "there is no"),
    ('file = "a.py"\ncovers = ""', "lacks something"),
    ('file = "a.py"\ncovers = ""\nstep = 1\ncolour = "red"', "nobody knows colour"),
    ('file = "a.py"\ncovers = ""\nstep = 1\noperations = ["log"]', "if and only if"),
])
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, entry: str, says: str) -> None:
    (tmp_path / "a.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / "programs.toml").write_text(f"[[program]]\n{entry}\n", encoding="utf-8")
    with pytest.raises(BadTable, match=says):
        programs_of(tmp_path)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["gan", "poisson_lbfgs", "picked_labels", "collapsing_scale", "dataclass_batches"])
def test_a_step_is_held_made_again_to_the_bit_and_its_operation_named(forks: Forks, name: str) -> None:
    # Its samples are looked for in the bench alone: that takes longer.
    program = replace(PROGRAMS[name], guilty=None)
    score = Score(program, forks.trial(program))
    assert (score.held, score.exact, score.blamed) == (True, True, True), score.trial


@pytest.mark.parametrize("name", ["whole_checkpointed", "gradient_penalty"])
def test_a_step_whose_norm_was_too_great_is_made_again_to_the_bit(forks: Forks, name: str) -> None:
    program = replace(PROGRAMS[name], guilty=None)
    score = Score(program, forks.trial(program))
    assert (score.held, score.exact) == (True, True), score.trial
