"""Two runs side by side: identical, within noise, or different and where first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.facts import Fact, fact
from barograph.model.key import Key, Kind
from barograph.model.manifest import Coverage, EndState, Heartbeat, Manifest
from barograph.model.origin import Code, DataFile, Origin, Package, Submodule
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.provenance.gathering import Gathered
from barograph.rerun.repetition import Repetition, Sameness, causes_between, in_words, repetition_of
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.state.origins import write_data, write_origin
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

LOSS, RATE, WEIGHT = Key(Kind.LOSS, "total"), Key(Kind.LEARNING_RATE, "group0"), Key(Kind.WEIGHT, "fc.weight")
LOSSES = (2.0, 1.5, 1.25, 1.125)


def run_of(
    place: Path, losses: Sequence[float] = LOSSES, *, weights: Mapping[int, float] | None = None,
    numbers: Mapping[Key, float] | None = None, origin: Origin | None = None, not_seen: tuple[str, ...] = (),
    made: int = 0,
) -> RunReader:
    """A run with a loss a step, a weight of that size at some, and other numbers at step 0; so many steps were made."""
    store, clock = store_from_url(str(place)), ManualClock()
    attempt = claim_run(store, Manifest(place.name, place.name, 0.0), clock=clock).attempt
    writer = RunWriter(store, claim_worker(store, attempt=attempt, clock=clock, rank=None, world_size=1),
                       settings=Settings(), clock=clock, background=False,
                       status=lambda: Heartbeat(0, 0.0, step=made, coverage=Coverage(reasons=not_seen)),
                       wait=clock.advance)
    for number, loss in enumerate(losses):
        scalars = {LOSS: loss, **(numbers or {} if number == 0 else {})}
        sizes = [weights[number]] if weights and number in weights else []
        rows = [row_from_summary(summarize(np.array([size, -size], np.float64)))[0] for size in sizes]
        writer.put(StepRecords(Step(number, number, time_unix=float(number)),
                               (Subject(WEIGHT, "Linear", "float32"),) if rows else (),
                               np.stack(rows) if rows else None, scalars=scalars))
        writer.turn()
    assert writer.close(EndState.FINISHED).complete
    if origin is not None:
        write_origin(store, 0, Gathered(origin))
        write_data(store, 0, "p0", origin.data, 0)
    return RunReader(store)


def test_of_different_batches_it_says_that_and_not_their_digests(tmp_path: Path) -> None:
    digest = fact(Fact.BATCH_DIGEST)
    first, second = (run_of(tmp_path / str(value), numbers={digest: value}) for value in (1.91e15, 2.5e15))
    found = repetition_of(first, second)

    assert in_words(found.numbers.parts) == "step 0, the content of the batch"


@pytest.mark.parametrize(("key", "words"), [
    (fact(Fact.BAD_OPERATION), "NaN or infinite values: no and yes"),
    (fact(Fact.BAD_OPERATION, "log"), "NaN or infinite values from log: no and yes"),
    (fact(Fact.LABEL_MAX), "label max: 0 and 1"),
])
def test_a_fact_that_differs_is_said_in_words(tmp_path: Path, key: Key, words: str) -> None:
    first, second = (run_of(tmp_path / str(value), numbers={key: value}) for value in (0.0, 1.0))

    assert in_words(repetition_of(first, second).numbers.parts) == f"step 0, {words}"


@pytest.fixture
def verdict(tmp_path: Path):  # type: ignore[no-untyped-def]
    def judge(**second: object) -> Repetition:
        first = run_of(tmp_path / "first", weights={0: 1.0, 2: 3.0}, numbers={RATE: 0.1})
        known: dict[str, object] = {"weights": {0: 1.0, 2: 3.0}, "numbers": {RATE: 0.1}}
        return repetition_of(first, run_of(tmp_path / "second", **{**known, **second}))  # type: ignore[arg-type]

    return judge


def test_the_same_numbers_are_identical(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict()
    assert (said.sameness, said.numbers.compared, said.numbers.differing) == (Sameness.IDENTICAL, 7, 0)


def test_nan_equals_nan(tmp_path: Path) -> None:
    losses = (1.0, math.nan, math.inf)
    said = repetition_of(run_of(tmp_path / "first", losses), run_of(tmp_path / "second", losses))
    assert said.sameness is Sameness.IDENTICAL


def test_nan_beside_a_number_is_different(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(losses=(2.0, 1.5, math.nan, 1.125))
    assert (said.sameness, said.numbers.apart) == (Sameness.DIFFERENT, math.inf)
    assert in_words(said.numbers.loss_parts).endswith(": 1.25 and NaN")


def test_one_bit_is_not_identical_but_noise(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(losses=(2.0, 1.5, math.nextafter(1.25, 2), 1.125))
    assert said.sameness is Sameness.WITHIN_NOISE
    assert (said.numbers.parts.step, said.numbers.parts.key) == (2, "loss:total")


@pytest.mark.parametrize(("loss", "expected"), [
    (1.25 + 0.0087, Sameness.WITHIN_NOISE), (1.25 + 0.0089, Sameness.DIFFERENT),
])
def test_noise_is_a_hundredth_of_what_the_loss_ranges_over(
    verdict, loss: float, expected: Sameness  # type: ignore[no-untyped-def]
) -> None:
    assert verdict(losses=(2.0, 1.5, loss, 1.125)).sameness is expected


def test_the_first_step_at_which_they_part_is_named(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(losses=(2.0, 1.0, 0.5, 0.25), weights={0: 1.0, 2: 9.0})
    assert said.sameness is Sameness.DIFFERENT
    assert (said.numbers.parts.step, said.numbers.parts.key, said.numbers.parts.second) == (1, "loss:total", 1.0)


def test_a_learning_rate_is_named_before_the_loss_that_it_moves(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(losses=(2.0, 1.0, 0.5, 0.25), numbers={RATE: 0.2})
    assert (said.numbers.parts.step, said.numbers.parts.key) == (0, "learning_rate:group0")
    assert (said.numbers.loss_parts.step, said.numbers.loss_parts.first) == (1, 1.5)


def test_a_weight_alone_can_part(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(weights={0: 1.0, 2: 4.0})
    assert (said.sameness, said.numbers.apart_key) == (Sameness.DIFFERENT, "weight:fc.weight")
    assert said.numbers.apart == pytest.approx(1 / 3)


def test_tensors_that_one_alone_recorded_do_not_count(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(weights={0: 1.0, 3: 77.0})
    assert (said.sameness, said.numbers.compared) == (Sameness.IDENTICAL, 6)


def test_another_number_of_steps_is_different(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(losses=LOSSES[:3])
    assert said.sameness is Sameness.DIFFERENT
    assert "last step 3 in the first run, 2 in the second" in said.why


def test_under_a_budget_the_steps_that_were_made_count_and_not_those_that_were_recorded(tmp_path: Path) -> None:
    seen = "Tensors were recorded at 4 of 9 steps (the budget)."
    first = run_of(tmp_path / "first", made=9, not_seen=(seen,))
    assert repetition_of(first, run_of(tmp_path / "second", LOSSES[:3], made=9, not_seen=(seen,))).sameness \
        is Sameness.IDENTICAL
    said = repetition_of(first, run_of(tmp_path / "third", made=8, not_seen=(seen,)))
    assert said.numbers.shape == "p0 made 9 steps in the first run, 8 in the second"


def test_what_depends_on_the_steps_that_were_looked_at_is_passed_over(tmp_path: Path) -> None:
    first, second = ({fact(Fact.SEEN_BEFORE): share, fact(Fact.SEEN_IN_TRAINING, "part0"): share,
                      fact(Fact.BACKWARDS): 1.0} for share in (0.1, 0.2))
    said = repetition_of(run_of(tmp_path / "first", numbers=first), run_of(tmp_path / "second", numbers=second))
    assert (said.sameness, said.numbers.compared) == (Sameness.IDENTICAL, 5)


def test_a_number_that_one_alone_logged_is_different(verdict) -> None:  # type: ignore[no-untyped-def]
    said = verdict(numbers={RATE: 0.1, Key(Kind.SCALAR, "accuracy"): 1.0})
    assert said.numbers.shape == "only the second run has scalar:accuracy"


def test_numbers_of_clocks_are_passed_over(tmp_path: Path) -> None:
    speed, time = Key(Kind.SCALAR, "train/samples_per_second"), Key(Kind.TIME, "step")
    said = repetition_of(run_of(tmp_path / "first", numbers={speed: 1.0, time: 3.0}),
                    run_of(tmp_path / "second", numbers={speed: 2.0, time: 4.0}))
    assert (said.sameness, said.numbers.passed_over) == (Sameness.IDENTICAL, ("train/samples_per_second",))


def test_runs_without_records_are_not_identical(tmp_path: Path) -> None:
    said = repetition_of(run_of(tmp_path / "first", ()), run_of(tmp_path / "second", ()))
    assert (said.sameness, said.numbers.shape) == (Sameness.DIFFERENT, "the runs have no records in common")


def test_the_causes_are_told_in_their_order_and_the_verdict_is_json(tmp_path: Path) -> None:
    first = Origin(parameters={"lr": 0.1}, code=Code("/a", commit="a" * 40), packages={"numpy": Package("1")},
                   data=(DataFile("/a/data/x.csv", 1, 1, "f" * 32),))
    second = Origin(parameters={"lr": 0.2}, code=Code("/b", commit="b" * 40), packages={"numpy": Package("2")},
                    data=(DataFile("/b/data/x.csv", 1, 1, "e" * 32),))
    said = repetition_of(run_of(tmp_path / "first", origin=first),
                    run_of(tmp_path / "second", (2.0, 1.0, 1.0, 1.0), origin=second))
    assert [(cause.what, cause.name) for cause in said.causes] == [
        ("parameters", "lr"), ("code", "commit"), ("packages", "numpy"), ("data", "data/x.csv")]
    assert said.why.startswith("The parameter lr differs (0.1 and 0.2); the commit differs (aaaaaaaaaaaa and "
                               "bbbbbbbbbbbb); the package numpy differs (1 and 2); the data file data/x.csv differs ")
    assert said.to_json()["numbers"]["parts"]["step"] == 1


@pytest.mark.parametrize(("first", "second", "words"), [
    (Origin(seeds={"PYTHONHASHSEED": "0"}), Origin(), "the setting PYTHONHASHSEED differs (0 and not given)"),
    (Origin(python_version="3.11"), Origin(python_version="3.12"), "the Python version differs (3.11 and 3.12)"),
    (Origin(code=Code("/a", deleted=("x.py",))), Origin(code=Code("/a")), "the deleted files differ (x.py and none)"),
    (Origin(code=Code("/a", submodules=(Submodule("lib", "a"),))),
     Origin(code=Code("/a", submodules=(Submodule("lib", "b"),))), "the submodule lib differs (a and b)"),
])
def test_a_cause_reads_as_a_sentence(first: Origin, second: Origin, words: str) -> None:
    assert [cause.in_words() for cause in causes_between(first, second)] == [words]


def test_a_seed_that_is_an_option_of_the_script_is_one_cause() -> None:
    first, second = (Origin(parameters={"seed": seed}, seeds={"seed": seed}) for seed in (0, 1))

    assert [cause.in_words() for cause in causes_between(first, second)] == ["the parameter seed differs (0 and 1)"]


def test_the_same_origin_gives_no_cause() -> None:
    origin = Origin(parameters={"lr": 0.1}, code=Code("/a", commit="a", diff="origin/0000.abc.diff"))
    assert causes_between(origin, origin) == ()
    assert causes_between(origin, None) == ()
