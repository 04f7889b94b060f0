"""A training that hands over arrays: what is due is asked first, and what is recorded is what was handed over."""

from __future__ import annotations

import math
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from barograph.capture import copies
from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.guard import BarographWarning
from barograph.capture.session import Session
from barograph.capture.this_worker import Rank
from barograph.errors import ShapeMismatch, TrainingStopped
from barograph.measures import native
from barograph.measures.summary import merge, summarize, summary_from_row
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.selection import Histogram, Schedule, Selection
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.model.summary import EXPONENT_BINS, Summary
from capture_writer import ListWriter


class Recorded:
    """An integration whose steps land in a list."""

    def __init__(self, *needs: Selection, **settings: Any) -> None:
        self.writer = ListWriter()
        wanted = Settings(**{"strict": True, "budget": None, "preset": "exact", **settings})

        def open_writer(rank: Rank, status: Callable[[], Heartbeat]) -> Any:
            return self.writer

        self.session = Session(wanted, needs, open_writer)
        self.integration = ArrayIntegration(self.session)

    def set_mode(self, mode: Mode | None) -> None:
        self.integration.mode_changes(mode)
        self.session.script.set_mode(mode)

    def steps(self, mode: Mode = Mode.TRAIN) -> list[StepRecords]:
        return [item for item in self.writer.steps if item.step.mode is mode]

    def summary(self, key: str, at: int = -1, mode: Mode = Mode.TRAIN) -> Summary:
        records = self.steps(mode)[at]
        row = [str(subject.key) for subject in records.subjects].index(key)
        assert records.moments is not None
        return summary_from_row(records.moments[row], None if records.exponents is None else records.exponents[row])

    def scalars(self, at: int = -1, mode: Mode = Mode.TRAIN) -> Mapping[str, float]:
        return {str(key): value for key, value in self.steps(mode)[at].scalars.items()}


FLOATS = np.array([[1.5, -2.0, 0.0], [np.nan, np.inf, 0.25]])


@pytest.mark.parametrize("array", [
    FLOATS, FLOATS.astype(np.float32), FLOATS.astype(np.float16), FLOATS.astype(ml_dtypes.bfloat16),
    FLOATS.astype(ml_dtypes.float8_e5m2), FLOATS[:1].astype(ml_dtypes.float8_e4m3fn), FLOATS.T, FLOATS[:, ::2],
    FLOATS[::-1], FLOATS.astype(">f4"), np.asfortranarray(FLOATS), np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    np.array(3.0), np.zeros((0, 4)), np.array([True, False]), np.array([3 + 4j]),
], ids=lambda array: f"{array.dtype}{array.shape}{array.strides}")
def test_any_array_is_summarised_as_it_is(array: Any) -> None:
    recorded = Recorded()
    recorded.integration.take(Kind.WEIGHT, {"fc.weight": array})
    recorded.integration.take(Kind.WEIGHT, {"beside": np.ones(2)})
    recorded.integration.end_step()
    found, wanted = recorded.summary("weight:fc.weight"), summarize(array)
    assert (found.count, found.nan, found.posinf, found.zeros, found.min, found.max) == (
        wanted.count, wanted.nan, wanted.posinf, wanted.zeros, wanted.min, wanted.max)
    assert found.sum == pytest.approx(wanted.sum)
    assert found.exponents == wanted.exponents


def test_a_narrow_type_without_statistics_of_its_own_is_read_as_float32() -> None:
    recorded = Recorded()
    recorded.integration.take(Kind.WEIGHT, {"w": np.array([0.5, -6.0], ml_dtypes.float8_e4m3b11fnuz)})
    recorded.integration.end_step()
    assert (recorded.summary("weight:w").min, recorded.summary("weight:w").max) == (-6.0, 0.5)


def test_an_array_without_statistics_is_named_and_the_rest_is_recorded() -> None:
    recorded = Recorded()
    recorded.integration.take(Kind.WEIGHT, {"names": np.array(["a"]), "w": np.ones(3)})
    recorded.integration.end_step()
    assert recorded.summary("weight:w").count == 3
    assert any("weight of names" in reason for reason in recorded.session.status().coverage.reasons)


def test_what_is_not_due_is_not_asked_for() -> None:
    recorded = Recorded(preset="free", collections=(
        Selection("mine", kinds=frozenset({Kind.WEIGHT}), include=("*.bias",), schedule=Schedule(every=2)),))
    asked = []

    def weight(name: str) -> Any:
        asked.append((recorded.integration.step, name))
        return np.ones(2)

    for _ in range(4):
        recorded.integration.take(
            Kind.WEIGHT, {"fc.bias": lambda: weight("bias"), "fc.weight": lambda: weight("weight")})
        recorded.integration.end_step(loss=1.0)
    assert asked == [(0, "bias"), (2, "bias")]
    assert [bool(records.subjects) and records.moments is not None for records in recorded.steps()] == [
        True, False, True, False]


def test_due_says_what_the_schedule_says() -> None:
    recorded = Recorded(preset="free", collections=(
        Selection("mine", kinds=frozenset({Kind.GRADIENT}), schedule=Schedule(every=3)),))
    due = []
    for _ in range(5):
        due.append((recorded.integration.due(Kind.GRADIENT), recorded.integration.due(Kind.WEIGHT)))
        recorded.integration.end_step(loss=1.0)
    assert due == [(True, False), (False, False), (False, False), (True, False), (False, False)]


def test_a_loss_that_is_not_finite_makes_everything_due() -> None:
    recorded = Recorded(preset="free", collections=(
        Selection("mine", kinds=frozenset({Kind.GRADIENT}), schedule=Schedule(every=100)),))
    recorded.integration.end_step(loss=1.0)
    assert not recorded.integration.due(Kind.GRADIENT)
    recorded.integration.loss(math.nan)
    assert recorded.integration.due(Kind.GRADIENT)
    recorded.integration.take(Kind.GRADIENT, {"w": np.array([np.nan])})
    recorded.integration.end_step()
    assert recorded.summary("gradient:w").nan == 1


def test_outputs_and_losses_of_micro_batches_are_one() -> None:
    recorded = Recorded()
    for part in (1.0, 3.0):
        recorded.integration.take(Kind.OUTPUT, {"relu": np.full(2, part, np.float32)}, layers={"relu": "ReLU"})
        recorded.integration.loss(part)
    recorded.integration.end_step()
    assert recorded.summary("output:relu").count == 4
    assert recorded.summary("output:relu").mean == 2.0
    assert recorded.scalars()["loss:total"] == 2.0
    assert recorded.steps()[0].subjects[0].layer == "ReLU"


def test_the_update_is_what_the_step_added() -> None:
    recorded = Recorded(preset="updates")
    weight = np.array([1.0, 2.0], np.float32)
    recorded.integration.before_update({"w": weight})
    weight += 0.5
    recorded.integration.after_update({"w": weight})
    recorded.integration.end_step()
    assert recorded.summary("update:w").sum == 1.0
    assert recorded.summary("weight:w").sum == 4.0


def test_a_weight_is_fetched_once_for_itself_and_its_update() -> None:
    recorded, fetched = Recorded(preset="updates"), list[str]()

    def weight() -> Any:
        fetched.append("w")
        return np.full(2, len(fetched), np.float32)

    for _ in range(2):
        recorded.integration.before_update({"w": weight})
        recorded.integration.after_update({"w": weight})
        recorded.integration.end_step()
    assert len(fetched) == 4
    assert (recorded.summary("weight:w").sum, recorded.summary("update:w").sum) == (8.0, 2.0)


@pytest.mark.parametrize("histogram", list(Histogram))
def test_an_array_that_is_an_output_and_an_input_is_read_once_and_recorded_as_both(
    histogram: Histogram, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = native.summarize_many
    monkeypatch.setattr(native, "summarize_many", lambda *args: (read.extend(args[1].tolist()), whole(*args))[1])
    recorded = Recorded(preset="free", collections=(
        Selection("mine", kinds=frozenset({Kind.OUTPUT, Kind.INPUT}), histogram=histogram),))
    batches = [np.array([[1.0, -2.0, np.nan]]), np.array([[4.0, 0.0, 8.0]])]
    for batch in batches:
        recorded.integration.take_together({
            Kind.OUTPUT: {"first": batch, "second": np.ones(5)},
            Kind.INPUT: {"second": lambda batch=batch: batch, "third": batch.T, "first": np.zeros(4)},
            Kind.GRADIENT: {"absent": None},
        })
    recorded.integration.end_step(loss=1.0)
    assert sorted(read) == [3, 3, 4, 4, 5, 5]
    wanted = merge(*(summarize(batch, histogram=histogram) for batch in batches))
    for key in ("output:first", "input:second", "input:third"):
        found = recorded.summary(key)
        assert (found.count, found.nan, found.zeros, found.min, found.max, found.sum) == (6, 1, 1, -2.0, 8.0, 11.0)
        assert found.exponents == wanted.exponents
    assert recorded.summary("output:second").sum == 10.0
    assert recorded.summary("input:first").zeros == 8


def test_one_array_is_read_for_each_histogram_that_is_taken_of_it() -> None:
    recorded = Recorded(preset="free", collections=(
        Selection("exact", kinds=frozenset({Kind.OUTPUT}), histogram=Histogram.EXACT),
        Selection("moments", kinds=frozenset({Kind.INPUT}))))
    array = np.arange(1.0, 101.0)
    recorded.integration.take_together({Kind.OUTPUT: {"a": array}, Kind.INPUT: {"b": array}})
    recorded.integration.end_step(loss=1.0)
    assert sum(dict(recorded.summary("output:a").exponents).values()) == 100
    assert not recorded.summary("input:b").exponents
    assert recorded.summary("input:b").sum == 5050.0


@pytest.mark.parametrize(("most_bytes", "is_kept"), [(2**20, True), (1000, False)])
def test_copies_of_weights_lie_where_the_last_ones_did_unless_they_are_large(
    most_bytes: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "KEPT_BYTES", most_bytes)
    recorded = Recorded(preset="updates")
    weight = np.asfortranarray(np.ones((20, 30)))
    held = []
    for added in (1.0, 2.0):
        recorded.integration.before_update({"w": weight})
        held.append(weakref.ref(recorded.integration._updates._before["w"]))
        weight += added
        recorded.integration.after_update({"w": weight})
        assert (held[-1]() is not None) is is_kept
        recorded.integration.end_step(loss=1.0)
        assert recorded.summary("update:w").max == recorded.summary("update:w").min == added
    assert (held[0]() is not None and held[0]() is held[1]()) is is_kept


def test_copies_of_a_step_without_an_update_are_let_go_of_as_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "KEPT_BYTES", 1000)
    recorded = Recorded(preset="updates")
    recorded.integration.before_update({"w": np.ones((20, 30))})
    held = weakref.ref(recorded.integration._updates._before["w"])
    recorded.integration.end_step(loss=1.0)
    assert held() is None


def test_a_weight_of_another_shape_is_copied_anew() -> None:
    recorded = Recorded(preset="updates")
    for size in (3, 5):
        weight = np.zeros(size)
        recorded.integration.before_update({"w": weight})
        weight += 1.0
        recorded.integration.after_update({"w": weight})
        recorded.integration.end_step(loss=1.0)
        assert recorded.summary("update:w").sum == size


def test_units_of_an_output_are_those_of_its_last_axis() -> None:
    recorded = Recorded(preset="units")
    recorded.integration.take(
        Kind.OUTPUT, {"relu": np.array([[0.0, 1.0], [0.0, 3.0]], np.float32)}, layers={"relu": "ReLU"}
    )
    recorded.integration.end_step()
    (units,) = recorded.steps()[0].units.values()
    assert units.count == 2
    assert units.columns[:, 0].tolist() == [2.0, 0.0]


def test_whole_tensors_are_kept_where_they_are_asked_for() -> None:
    recorded = Recorded(preset="free", collections=(Selection("mine", kinds=frozenset({Kind.WEIGHT}), raw=True),))
    recorded.integration.take(Kind.WEIGHT, {"w": np.arange(4, dtype=np.int16).reshape(2, 2).T})
    recorded.integration.save("mine", [1.0, 2.0])
    recorded.integration.end_step()
    kept = recorded.steps()[0].tensors
    assert np.frombuffer(kept[Key(Kind.WEIGHT, "w")].data, np.int16).tolist() == [0, 2, 1, 3]
    assert kept[Key(Kind.CUSTOM, "mine")].shape == (2,)


def test_statistics_that_a_device_reduced_are_merged_when_the_step_is_published() -> None:
    recorded = Recorded()
    array = np.array([1.0, -4.0, 0.0])
    fetched = []

    def reduced() -> Any:
        fetched.append(recorded.integration.step)
        found = summarize(array)
        moments = [[found.count, 0, 0, 0, found.zeros, found.min, found.max, found.sum, found.sum_sq, found.sum_abs]]
        exponents = np.zeros((1, EXPONENT_BINS), np.int64)
        for place, number in found.exponents.items():
            exponents[0, place] = number
        return moments, exponents

    assert recorded.integration.taking(Kind.GRADIENT, "w") is not None
    recorded.integration.merge(Kind.GRADIENT, ["w"], reduced, dtypes=["float32"])
    assert fetched == []
    recorded.integration.end_step()
    assert recorded.summary("gradient:w") == summarize(array)
    assert recorded.session.seen.gradients == {"w"}


def test_an_evaluation_stands_between_two_steps_with_the_steps_made_so_far() -> None:
    recorded = Recorded(Selection(kinds=frozenset({Kind.OUTPUT})), preset="standard")
    recorded.integration.end_step(loss=2.0)
    recorded.integration.begin_evaluation()
    for part in (1.0, 3.0):
        recorded.integration.loss(part)
        recorded.integration.take(Kind.OUTPUT, {"relu": np.ones(4)})
    recorded.integration.end_evaluation()
    recorded.integration.end_step(loss=1.0)
    (evaluation,) = recorded.steps(Mode.EVAL)
    assert (evaluation.step.number, evaluation.step.tick) == (1, 1)
    assert recorded.scalars(mode=Mode.EVAL)["loss:total"] == 2.0
    assert recorded.summary("output:relu", mode=Mode.EVAL).count == 8
    assert [records.step.number for records in recorded.steps()] == [0, 1]


def test_the_last_loss_is_that_of_the_training_and_of_evaluations_if_it_has_none() -> None:
    trained, evaluated = Recorded(), Recorded()
    trained.integration.loss(2.0)
    trained.integration.end_step()
    for recorded in (trained, evaluated):
        for loss in (4.0, 3.0):
            recorded.integration.begin_evaluation()
            recorded.integration.loss(loss)
            recorded.integration.end_evaluation()

    assert (trained.session.progress.last_loss, evaluated.session.progress.last_loss) == (2.0, 3.0)


def test_a_mode_that_the_script_says_is_an_evaluation_until_it_says_otherwise() -> None:
    recorded = Recorded()
    recorded.integration.end_step(loss=2.0)
    recorded.set_mode(Mode.PREDICT)
    recorded.integration.loss(5.0)
    recorded.set_mode(None)
    recorded.integration.end_step(loss=1.0)
    assert recorded.scalars(mode=Mode.PREDICT)["loss:total"] == 5.0
    assert [recorded.scalars(at)["loss:total"] for at in (0, 1)] == [2.0, 1.0]


def test_labels_and_answers_are_counted_over_a_step() -> None:
    recorded = Recorded(Selection(kinds=frozenset({Kind.LABEL, Kind.CONFUSION})), preset="standard")
    recorded.integration.predictions(np.array([0, 1]), np.array([[0.9, 0.1], [0.8, 0.2]]), "softmax")
    recorded.integration.predictions(np.array([[0.0, 1.0]]), np.array([[0.1, 0.9]]), "softmax")
    recorded.integration.predictions([1], [[0.7]], "sigmoid")
    recorded.integration.end_step()
    found = recorded.scalars()
    assert {name: found[name] for name in found if name.startswith("confusion")} == {
        "confusion:softmax[0,0]": 1, "confusion:softmax[1,0]": 1, "confusion:softmax[1,1]": 1,
        "confusion:sigmoid[1,1]": 1,
    }


def test_facts_are_recorded_where_they_are_asked_for() -> None:
    recorded = Recorded(Selection(kinds=frozenset({Kind.FACT}), include=("batch_size",)), preset="standard")
    recorded.integration.fact(Fact.BATCH_SIZE, 32)
    recorded.integration.fact(Fact.MOMENTUM, 0.9, "group0")
    recorded.integration.learning_rate(0.1)
    recorded.integration.end_step()
    recorded.integration.learning_rate(0.1)
    recorded.integration.end_step()
    assert recorded.scalars(0) == {"fact:batch_size": 32.0, "learning_rate:group0": 0.1}


def test_a_skipped_step_is_a_step() -> None:
    recorded = Recorded()
    recorded.integration.end_step(loss=1.0, skipped=True)
    recorded.integration.end_step(loss=1.0)
    assert [(records.step.number, records.step.skipped) for records in recorded.steps()] == [(0, True), (1, False)]


def test_a_second_training_counts_from_its_own_beginning() -> None:
    recorded = Recorded()
    recorded.session.counts.begin_at(7)
    recorded.integration.end_step(loss=1.0)
    recorded.integration.begin_training(first_step=3)
    recorded.integration.end_step(loss=1.0)
    other = ArrayIntegration(recorded.session)
    other.end_step(loss=1.0)
    assert [(records.step.optimizer, records.step.number) for records in recorded.steps()] == [
        ("", 7), ("#2", 3), ("#3", 7)]


def test_the_loss_of_every_step_is_recorded_whatever_the_budget() -> None:
    recorded = Recorded(budget=1e-9, preset="standard")
    for step in range(3000):
        recorded.integration.loss(math.nan if step == 2500 else 1.0 + 0.01 * (step % 7))
        recorded.integration.learning_rate(0.1)
        recorded.integration.take(Kind.WEIGHT, {"w": np.ones(2000)})
        recorded.integration.end_step()
    assert [records.step.number for records in recorded.steps()] == list(range(3000))
    losses = [recorded.scalars(at)["loss:total"] for at in range(3000)]
    assert math.isnan(losses.pop(2500))
    assert losses == [1.0 + 0.01 * (step % 7) for step in range(3000) if step != 2500]
    assert all(recorded.scalars(at)["learning_rate:group0"] == 0.1 for at in range(3000))
    assert sum(records.moments is not None for records in recorded.steps()) < 100


def test_an_error_of_ours_is_one_warning_and_strict_raises_it() -> None:
    recorded = Recorded(strict=False)
    with pytest.warns(BarographWarning, match="saving predictions"):
        recorded.integration.save_predictions([0, 1], [[0.5]], "wrong")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recorded.integration.save_predictions([0, 1], [[0.5]], "wrong")
        recorded.integration.end_step(loss=1.0)
    assert recorded.scalars()["loss:total"] == 1.0
    with pytest.raises(ShapeMismatch):
        Recorded().integration.save_predictions([0, 1], [[0.5]], "wrong")


def test_a_step_whose_loss_cannot_be_read_is_a_step_all_the_same() -> None:
    recorded = Recorded(strict=False)
    with pytest.warns(BarographWarning, match="the loss of a step"):
        recorded.integration.end_step(loss="much")  # type: ignore[arg-type]
    recorded.integration.end_step(loss=1.0)
    assert recorded.integration.step == 2


def test_a_writer_that_does_not_answer_at_the_end_is_reported_in_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(strict=False)
    recorded.integration.end_step(loss=1.0)
    silent = replace(recorded.writer.close(EndState.FINISHED), complete=False, problems=("the writer did not answer",))
    monkeypatch.setattr(recorded.writer, "close", lambda *_: silent)

    with pytest.warns(BarographWarning, match=r"could not be written\. The writer did not answer\. The training is"):
        recorded.session.close(EndState.FINISHED)


def test_a_training_is_stopped_between_two_steps_only() -> None:
    recorded = Recorded()
    recorded.session.steering.request_stop("Enough.")
    recorded.integration.loss(1.0)
    with pytest.raises(TrainingStopped, match="Enough"):
        recorded.integration.end_step()
    assert recorded.integration.step == 1


def test_its_time_is_part_of_the_price_and_once_closed_it_does_nothing() -> None:
    recorded = Recorded()
    recorded.integration.take(Kind.WEIGHT, {"w": np.ones(1_000_000)})
    recorded.integration.end_step(loss=1.0)
    assert recorded.session.price.spent_secs > 1e-4
    recorded.session.close(EndState.FINISHED)
    spent = recorded.session.price.spent_secs
    recorded.integration.take(Kind.WEIGHT, {"w": np.ones(1_000_000)})
    recorded.integration.end_step(loss=1.0)
    assert not recorded.integration.due()
    assert recorded.session.price.spent_secs == spent
    assert len(recorded.steps()) == 1


def test_a_histogram_is_taken_as_the_plan_says() -> None:
    recorded = Recorded(preset="moments")
    taking = recorded.integration.taking(Kind.WEIGHT, "w")
    assert taking is not None
    assert taking.histogram is Histogram.NONE
    recorded.integration.take(Kind.WEIGHT, {"w": np.ones(3)})
    recorded.integration.end_step()
    assert recorded.steps()[0].exponents is None


def test_what_is_done_once_is_start_up_and_no_price() -> None:
    recorded = Recorded(budget=0.01)
    recorded.integration.take(Kind.WEIGHT, {"fc.weight": np.ones(2)})
    spent_secs, started_secs = recorded.session.price.spent_secs, recorded.session.startup.secs
    with recorded.session.startup.apart_from_training():
        recorded.integration.take(Kind.WEIGHT, {"out.weight": np.ones(2)})
    assert recorded.session.price.spent_secs == pytest.approx(spent_secs)
    assert recorded.session.startup.secs > started_secs


def test_what_is_done_once_inside_of_what_is_done_once_is_no_training_once() -> None:
    recorded = Recorded(budget=0.01)
    price, startup = recorded.session.price, recorded.session.startup
    recorded.integration.take(Kind.WEIGHT, {"fc.weight": np.ones(2)})
    begin, paused_secs = time.perf_counter(), price.paused_secs
    with startup.apart_from_training():
        with startup.apart_from_training(ours=False):
            sum(range(1_000_000))
        with startup.apart_from_training():
            sum(range(1_000_000))
    assert 0 < price.paused_secs - paused_secs <= time.perf_counter() - begin


def test_of_what_the_script_compiles_only_our_part_is_start_up() -> None:
    recorded = Recorded(budget=0.01)
    recorded.integration.take(Kind.WEIGHT, {"fc.weight": np.ones(2)})
    started_secs = recorded.session.startup.secs
    with recorded.session.startup.apart_from_training(ours=False):
        sum(range(200_000))
    assert recorded.session.startup.secs == started_secs


def test_what_there_is_of_several_models_adds_up() -> None:
    recorded = Recorded()
    recorded.integration.declare(parameters=["a.weight", "a.bias"], modules=["a"])
    recorded.integration.declare(parameters=["b.weight", "a.bias"], modules=["b"])
    recorded.integration.take(Kind.OUTPUT, {"a[0]": FLOATS, "a[1]": FLOATS})
    recorded.integration.end_step(0.5)
    seen = recorded.session.seen.coverage(1, 1, "")
    assert (seen.parameters, seen.modules, seen.modules_seen) == (3, 2, 1)
