"""A curve of any length is a small read and says what the records say, whatever became of the files of buckets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import barograph
from barograph.errors import SettingsError, StoreUnavailable, UnknownKey, UnknownWorker
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.runs.format.curves_file import SeriesBuckets, curves_file, read_curves
from barograph.runs.format.layout import CURVES, ChunkName, CurvesName
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.metrics import metrics_in, metrics_of
from barograph.runs.writing.compaction import publish_compacted
from barograph.runs.writing.condensing import published_curves
from barograph.runs.writing.outbox import Published
from barograph.runs.writing.writer import RunWriter

MakeRecords = Callable[..., StepRecords]
POINTS = 20_000


def numbers(count: int = POINTS, seed: int = 0) -> NDArray[np.float64]:
    values = np.random.default_rng(seed).normal(size=count)
    values[[7, count // 2, count - 3]] = [np.nan, np.inf, -np.inf]
    values[[count // 3, count // 5]] = [99.0, -99.0]
    return values


def log(writer: RunWriter, values: NDArray[np.float64], first: int = 0, name: str = "acc") -> None:
    for step, value in enumerate(values.tolist(), first):
        writer.log(name, value, step, Mode.TRAIN, 1_800_000_000.0 + step)


def publish(workshop: Any, writer: RunWriter, values: NDArray[np.float64], first: int = 0, name: str = "acc") -> None:
    log(writer, values, first, name)
    workshop.publish(writer)


def check(workshop: Any, values: NDArray[np.float64], points: int = 200) -> None:
    """What is told of the series is what its points say."""
    found = workshop.run().curve("scalar:acc", points=points)
    line = found.line()
    finite = values[np.isfinite(values)]
    assert len(line) <= points
    assert (found.count, found.nonfinite) == (len(values), len(values) - len(finite))
    assert (np.nanmin(line.values), np.nanmax(line.values)) == (finite.min(), finite.max())
    assert np.isin(line.values, values).all()
    assert (np.diff(line.steps) >= 0).all()
    assert np.array_equal(values[line.steps], line.values)
    summary = metrics_of(workshop.run())["acc"]
    assert (summary.count, summary.last, summary.last_step) == (len(values), values[-1], len(values) - 1)
    assert (summary.min, summary.max) == (np.nanmin(values), np.nanmax(values))
    assert summary.mean == pytest.approx(finite.mean())
    assert summary.std == pytest.approx(finite.std())


@pytest.fixture
def recorded(workshop: Any) -> Any:
    """A run of two files of records, each with its buckets, and one that is too small for any."""
    writer = workshop.writer()
    values = numbers()
    publish(workshop, writer, values[:9_000])
    publish(workshop, writer, values[9_000:18_000], 9_000)
    publish(workshop, writer, values[18_000:], 18_000)
    workshop.publish(writer)
    assert len(workshop.names(CURVES)) == 2
    return workshop


def records_read(workshop: Any) -> list[str]:
    return [name for verb, name in workshop.store.calls if verb == "get" and name.startswith("records/")]


def test_a_curve_says_what_the_points_say_and_reads_only_what_is_in_no_buckets(recorded: Any) -> None:
    recorded.store.calls.clear()
    check(recorded, numbers())
    assert {chunk.first for name in records_read(recorded) if (chunk := ChunkName.from_name(name))} == {2}


@pytest.mark.parametrize("count", [2_500, 12_000])
def test_a_curve_is_not_coarser_than_a_quarter_of_what_was_asked_for(workshop: Any, count: int) -> None:
    writer = workshop.writer()
    publish(workshop, writer, numbers(count))
    workshop.publish(writer)
    curve = workshop.run().curve("scalar:acc")
    assert 500 <= len(curve.line()) <= 2_000
    assert curve.count == count


def test_a_curve_of_few_points_is_the_series(recorded: Any) -> None:
    line = recorded.run().curve("scalar:acc", points=POINTS).line()
    finite = np.isfinite(numbers())
    assert np.array_equal(line.steps, np.arange(POINTS))
    assert np.array_equal(line.values[finite], numbers()[finite])
    assert np.isnan(line.values[~finite]).all()


def test_a_part_of_a_curve_has_the_true_extremes_of_that_part(recorded: Any) -> None:
    line = recorded.run().curve("scalar:acc", points=100, start=1000, stop=5000).line()
    part = numbers()[1000:5000]
    assert (line.values.min(), line.values.max()) == (part.min(), part.max())


def test_steps_with_what_is_not_finite_are_told(recorded: Any) -> None:
    found = recorded.run().curve("scalar:acc", points=400).nonfinite_steps()
    assert [bool(((found[:, 0] <= step) & (step <= found[:, 1])).any()) for step in (7, POINTS // 2, POINTS - 3)] == [
        True, True, True]
    assert len(found) == 3


@pytest.mark.parametrize("damage", [None, b"", b"PAR1 no such thing PAR1"])
def test_without_its_buckets_the_records_tell_the_same(recorded: Any, damage: bytes | None) -> None:
    for name in recorded.names(CURVES):
        recorded.store.inner.delete(name)
        if damage is not None:
            recorded.store.inner.put(name, damage)
    check(recorded, numbers())
    assert recorded.run().damage == ()
    diagnosis = examine(recorded.store)
    assert diagnosis.intact
    assert len(diagnosis.leftover) == (0 if damage is None else 2)


def test_buckets_that_are_made_again_are_the_same_file(recorded: Any) -> None:
    before = recorded.names(CURVES)
    for name in before:
        recorded.store.inner.delete(name)
    for name in recorded.names("records"):
        published_curves(recorded.store, ChunkName.from_name(name), recorded.manifest.run_id)  # type: ignore[arg-type]
    assert recorded.names(CURVES) == before


def test_buckets_of_other_chunks_are_not_believed(recorded: Any) -> None:
    first, second = recorded.names(CURVES)
    digests = [name.digest for text in (first, second) if (name := CurvesName.from_name(text))]
    recorded.store.inner.delete(first)
    recorded.store.inner.put(first.replace(*digests), bytes(recorded.store.get(second)))
    check(recorded, numbers())
    assert "covers other chunks than its name says" in examine(recorded.store).leftover[0]


def test_buckets_of_another_run_are_not_believed(recorded: Any) -> None:
    for name in recorded.names(CURVES):
        recorded.store.inner.delete(name)
    for text in recorded.names("records"):
        published_curves(recorded.store, ChunkName.from_name(text), "20260101T000000Z-another")  # type: ignore[arg-type]
    check(recorded, numbers())
    assert "to another run" in examine(recorded.store).leftover[0]


@pytest.mark.parametrize(("field", "value"), [
    ("min", np.nan), ("max", np.nan), ("mean", np.nan), ("squares", -1.0), ("nan", -1), ("posinf", 2**40)])
def test_buckets_that_say_what_no_numbers_come_to_are_not_believed(recorded: Any, field: str, value: float) -> None:
    def spoil(found: SeriesBuckets) -> SeriesBuckets:
        found.buckets[field] = value
        return found

    replace_buckets(recorded, spoil)
    check(recorded, numbers())


def test_buckets_of_a_mode_that_there_is_not_are_not_believed(recorded: Any) -> None:
    replace_buckets(recorded, lambda found: replace(found, names=[found.names[0]._replace(mode="nap")]))
    check(recorded, numbers())


def replace_buckets(workshop: Any, change: Callable[[SeriesBuckets], SeriesBuckets]) -> None:
    """Have the files of buckets say something else, under names that prove it."""
    records = {chunk.first: chunk for text in workshop.names("records") if (chunk := ChunkName.from_name(text))}
    for text in workshop.names(CURVES):
        name = CurvesName.from_name(text)
        assert name is not None
        found = change(read_curves(workshop.store, name, workshop.manifest.run_id))
        made, data = curves_file(found, records[name.first], workshop.manifest.run_id)
        workshop.store.inner.delete(text)
        workshop.store.inner.put(str(made), data)


def test_who_follows_a_run_forgets_the_files_that_were_made_one(workshop: Any) -> None:
    writer = workshop.writer()
    run = None
    for number in range(40):
        publish(workshop, writer, numbers(20), number * 20)
        run = run or workshop.run()
        run.refresh()
        assert metrics_of(run)["acc"].count == (number + 1) * 20
    assert run is not None
    assert len(workshop.names("records")) < 20
    assert len(run._condensed._of_files) < 20
    assert len(run._records._files._footers) < 20


@pytest.mark.parametrize("spoiled", ["not", "damaged", "gone", "superseded"])
def test_which_metrics_there_are_is_known_whatever_became_of_the_buckets(
    recorded: Any, make_records: MakeRecords, spoiled: str
) -> None:
    names = recorded.names(CURVES)
    if spoiled == "damaged":
        recorded.store.inner.put(names[0], b"damaged")
    elif spoiled == "gone":
        recorded.store.inner.delete(names[0])
    elif spoiled == "superseded":
        publish(recorded, recorded.writer(recorded.worker(attempt=0)), numbers(5_000), 9_000, name="old")
        second = recorded.writer(recorded.worker(attempt=recorded.claim()))
        recorded.publish(second, make_records(0, 8_000))
        publish(recorded, second, numbers(100), 8_000, name="late")
        recorded.publish(second)
    run = recorded.run()
    late = {"late", "loss", "loss.loss"} if spoiled == "superseded" else set()
    assert metrics_in(run).keys() == {"acc", *late}
    assert metrics_in(run).keys() == metrics_of(run).keys() == metrics_in(run).keys()


def test_which_metrics_there_are_is_read_without_their_numbers(recorded: Any) -> None:
    run = recorded.run()
    recorded.store.calls.clear()
    metrics_in(run)
    metrics_in(run)
    read = [name for verb, name in recorded.store.calls if verb == "get"]
    assert sorted(name for name in read if name.startswith(CURVES)) == sorted(recorded.names(CURVES))
    assert {chunk.first for name in records_read(recorded) if (chunk := ChunkName.from_name(name))} == {2}
    assert run._condensed._curves == {}


def test_where_a_file_of_records_is_gone_its_buckets_do_not_stand_in_for_it(recorded: Any) -> None:
    recorded.store.inner.delete(recorded.names("records")[0])
    assert recorded.run().curve("scalar:acc", points=100).count == POINTS - 9_000


def test_points_that_come_after_the_buckets_are_in_the_curve(recorded: Any) -> None:
    run = recorded.run()
    assert run.curve("scalar:acc", points=100).count == POINTS
    worker = recorded.worker(attempt=0)
    second = recorded.writer(worker)
    publish(recorded, second, np.full(5_000, 0.5), name="other")
    run.refresh()
    assert run.curve("scalar:other", points=100).count == 5_000
    assert run.curve("scalar:acc", points=100).count == POINTS


def test_buckets_that_are_damaged_are_not_read_again_and_again(recorded: Any) -> None:
    for name in recorded.names(CURVES):
        recorded.store.inner.put(name, b"damaged")
    run = recorded.run()
    run.curve("scalar:acc")
    recorded.store.calls.clear()
    run.curve("scalar:acc")
    assert [name for verb, name in recorded.store.calls if verb == "get" and name.startswith(CURVES)] == []


def test_metrics_asked_again_look_at_what_is_new_alone(recorded: Any) -> None:
    run = recorded.run()
    metrics_of(run)
    recorded.store.calls.clear()
    run.refresh()
    assert metrics_of(run)["acc"].count == POINTS
    assert records_read(recorded) == []


def test_what_a_later_attempt_made_again_is_there_once(workshop: Any, make_records: MakeRecords) -> None:
    first = workshop.writer()
    workshop.publish(first, make_records(0))
    publish(workshop, first, numbers(8_000))
    workshop.publish(first)
    first.close(EndState.FAILED)
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    workshop.publish(second, make_records(0, 6_000))
    publish(workshop, second, numbers(8_000, seed=1)[6_000:], 6_000)
    series = workshop.run().series("scalar:acc")
    curve = workshop.run().curve("scalar:acc", points=100)
    assert curve.count == len(series)
    assert metrics_of(workshop.run())["acc"].count == len(series)
    assert curve.line().values.max() == series.values[np.isfinite(series.values)].max()


def test_losses_of_ranks_are_merged_and_not_taken_from_the_buckets_of_one(workshop: Any) -> None:
    attempt = workshop.claim()
    writers = [workshop.writer(workshop.worker(rank=rank, world_size=2, attempt=attempt)) for rank in (0, 1)]
    for rank, writer in enumerate(writers):
        publish(workshop, writer, np.full(5_000, float(rank)))
        workshop.publish(writer)
    assert len(workshop.names(CURVES)) == 2
    assert workshop.run().curve("scalar:acc", points=10).line().values.max() == 0.0
    assert workshop.run().curve("scalar:acc", points=10, worker="r1").line().values.min() == 1.0


def test_what_is_asked_wrongly_is_said(recorded: Any) -> None:
    with pytest.raises(UnknownKey, match="acc"):
        recorded.run().curve("scalar:ac")
    with pytest.raises(UnknownWorker, match="p0"):
        recorded.run().curve("scalar:acc", worker="p7")
    with pytest.raises(SettingsError, match="points is 1; a curve needs at least 2"):
        recorded.run().curve("scalar:acc", points=1)


def test_many_small_files_get_buckets_when_they_are_made_one(workshop: Any) -> None:
    writer = workshop.writer()
    values = numbers(6_400)
    for number in range(32):
        publish(workshop, writer, values[number * 200 : (number + 1) * 200], number * 200)
    workshop.publish(writer)
    (curves,) = workshop.names(CURVES)
    assert (CurvesName.from_name(curves).first, CurvesName.from_name(curves).last) == (0, 31)  # type: ignore[union-attr]
    check(workshop, values)


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_a_writer_that_dies_between_records_and_buckets_loses_nothing(workshop: Any, verb: str) -> None:
    writer = workshop.writer()
    values = numbers(32 * 4_200)
    for number in range(31):
        publish(workshop, writer, values[number * 4_200 : (number + 1) * 4_200], number * 4_200)
    made = len(workshop.names(CURVES))
    workshop.store.verbs = {verb}

    def fail_at_buckets(called: str, name: str) -> None:
        if called == verb and (verb == "delete" or name.startswith(CURVES)):
            workshop.store.error = StoreUnavailable("away")

    workshop.store.before = fail_at_buckets
    publish(workshop, writer, values[31 * 4_200 :], 31 * 4_200)
    assert made
    assert any("-00000031." in name and "-00000000-" in name for name in workshop.names("records"))
    check(workshop, values)
    workshop.store.before, workshop.store.error = lambda verb, name: None, None
    workshop.clock.advance(10)
    workshop.publish(writer)
    assert writer.close(EndState.FINISHED).complete
    assert [name.partition(".")[0] for name in workshop.names(CURVES)] == ["curves/p0/0000-00000000-00000031"]
    check(workshop, values)


def test_buckets_of_many_chunks_stand_for_their_files_only_while_all_are_there(recorded: Any) -> None:
    files = [Published(chunk, 0, 9_000) for name in recorded.names("records") if (chunk := ChunkName.from_name(name))]
    whole = publish_compacted(recorded.store, files)
    published_curves(recorded.store, whole.name, recorded.manifest.run_id)
    recorded.store.inner.put(str(whole.name), b"damaged")
    run = recorded.run()
    assert len(run.series("scalar:acc")) == POINTS
    assert run.curve("scalar:acc", points=100).count == POINTS
    recorded.store.inner.delete(str(files[1].name))
    run = recorded.run()
    assert len(run.series("scalar:acc")) == POINTS - 9_000
    assert run.curve("scalar:acc", points=100).count == POINTS - 9_000


def test_two_who_compact_at_once_leave_each_number_once(recorded: Any) -> None:
    files = [Published(chunk, 0, 9_000) for name in recorded.names("records") if (chunk := ChunkName.from_name(name))]
    made = [publish_compacted(recorded.store, files), publish_compacted(recorded.store, files[:2])]
    for file in made:
        published_curves(recorded.store, file.name, recorded.manifest.run_id)
    check(recorded, numbers())
    for file in files:
        recorded.store.inner.delete(str(file.name))
    check(recorded, numbers())


def test_buckets_go_with_their_records(workshop: Any) -> None:
    writer = workshop.writer(max_bytes=200_000)
    for number in range(6):
        publish(workshop, writer, numbers(9_000, seed=number), number * 9_000)
        workshop.publish(writer)
    kept = {chunk.first for name in workshop.names("records") if (chunk := ChunkName.from_name(name))}
    assert 0 not in kept
    assert {name.first for text in workshop.names(CURVES) if (name := CurvesName.from_name(text))} <= kept


_LOGS = """
import sys
from barograph.tracking import Run
with Run("killed", root=sys.argv[1]) as run:
    for step in range(400_000):
        run.log_metric("acc", float(step % 1000), step)
    print(run.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def killed(tmp_path: Path) -> str:
    """A run whose process was killed while it published numbers and their buckets."""
    process = subprocess.Popen([sys.executable, "-c", _LOGS, str(tmp_path)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return url


def test_a_process_that_is_killed_leaves_a_run_whose_curves_are_those_of_its_records(killed: str) -> None:
    run = barograph.open(killed)
    if run.keys():
        series, curve = run.series("scalar:acc"), run.curve("scalar:acc", points=100)
        assert curve.count == len(series)
        assert metrics_of(run)["acc"].last == series.values[-1]
    assert run.damage == ()
