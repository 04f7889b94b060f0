"""What fed each step, from the writer to whoever asks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import barograph
from barograph.errors import StoreUnavailable, UnknownName, UnknownStep
from barograph.model.manifest import EndState
from barograph.model.trace import BatchFed, OrderHint
from barograph.runs.format.layout import TraceName
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.trace import Trace
from barograph.runs.writing import trace_writer
from barograph.store.urls import store_from_url


def fed(step, indices, *, names=(), hint=None, first=None, tick=None, size=100, **more):
    """A batch with these samples; `first`: where it stands in its pass, if not as steps of so many would."""
    place = step * len(indices) if first is None else first
    return BatchFed(step if tick is None else tick, step, "", 0, "Images", size, place, len(indices),
                    np.array(indices, np.int64).tobytes(), names=tuple(names), hint=hint)._replace(**more)


def of_stream(step, worker, first, names, **more):
    named = tuple(enumerate(names, first))
    return BatchFed(step, step, "", 0, "Shards", -1, first, len(names), b"", worker, named)._replace(**more)


def writing(workshop):
    def write(*batches):
        writer = workshop.writer()
        writer.put_batches(batches)
        assert writer.close(EndState.FINISHED).complete
        return workshop.run().trace()
    return write


@pytest.fixture
def traced(workshop):
    """Write batches into the run, and return its trace."""
    return writing(workshop)


@pytest.fixture
def another(make_workshop, tmp_path):
    """Write batches into another run, and return its trace."""
    return writing(make_workshop(store_from_url(tmp_path / "another"), "20260102T000000Z-abd"))


def samples(batches):
    return [batch.indices.tolist() for batch in batches]


def names_of(store):
    return [name for item in store.list("trace") if (name := TraceName.from_name(item.name))]


def test_a_step_and_those_before_it_tell_their_samples(traced):
    trace = traced(*(fed(step, [10 * step, 7]) for step in range(5)))
    assert samples(trace.at(3)) == [[30, 7]]
    assert [batch.step for batch in trace.at(3, before=2)] == [1, 2, 3]
    assert trace.steps.tolist() == [0, 1, 2, 3, 4]


def test_several_batches_of_one_step_stand_in_the_order_in_which_they_came(traced):
    trace = traced(fed(0, [5, 6]), fed(0, [1, 2], first=2), fed(1, [3, 4]))
    assert samples(trace.at(0)) == [[5, 6], [1, 2]]


def test_a_step_that_is_not_known_is_named_with_those_that_are(traced):
    with pytest.raises(UnknownStep, match=r"step 9 .* Recorded steps: 3 to 4"):
        traced(fed(3, [1]), fed(4, [2])).at(9)


def test_a_run_without_a_trace_says_so(workshop, make_records):
    writer = workshop.writer()
    writer.put(make_records(0))
    writer.close(EndState.FINISHED)
    trace = workshop.run().trace()
    assert len(trace) == 0
    with pytest.raises(UnknownStep, match="has no data trace"):
        trace.at(0)


def test_a_sample_tells_the_steps_that_saw_it(traced):
    trace = traced(fed(0, [1, 2]), fed(1, [3, 1]), fed(2, [4, 5]))
    assert [(batch.step, batch.rows_of(1)) for batch in trace.seeing(1)] == [(0, [0]), (1, [1])]
    assert trace.seeing(99) == ()
    assert trace.seeing("99999999999999999999") == trace.seeing("--1") == ()
    assert [batch.step for batch in trace.seeing("1")] == [0, 1]


def test_an_order_that_holds_is_written_as_its_seed(traced, workshop):
    order = np.array([4, 0, 1, 3, 2])  # torch.randperm(5), seed 0
    hint = OrderHint("permutation", 5, seed=0)
    trace = traced(fed(0, order[:2], hint=hint, size=5), fed(1, order[2:4], size=5), fed(2, order[4:], first=4, size=5))
    assert trace._table["order"].null_count == 0
    assert trace._table["indices"].null_count == 3
    assert samples(trace.at(2, before=2)) == [[4, 0], [1, 3], [2]]
    assert [batch.step for batch in trace.seeing(3)] == [1]


def test_from_where_an_order_does_not_hold_samples_are_written(traced):
    hint = OrderHint("range", 100)
    trace = traced(fed(0, [0, 1], hint=hint), fed(1, [2, 4]), fed(2, [4, 5]))
    assert trace._table["order"].null_count == 2
    assert samples(trace.at(2, before=2)) == [[0, 1], [2, 4], [4, 5]]


def test_names_are_told_once_and_known_ever_after(traced):
    trace = traced(
        fed(0, [1, 2], names=[(1, "cats/a.png"), (2, "dogs/b.png")]), fed(1, [2, 3], names=[(3, "cats/c.png")]))
    assert trace.at(1)[0].names == ("dogs/b.png", "cats/c.png")
    for name in ("dogs/b.png", "b.png", "*b.p*"):
        assert [batch.step for batch in trace.of_file(name)] == [0, 1]
    with pytest.raises(UnknownName, match=r"c\.png"):
        trace.of_file("cc.png")


def test_without_names_a_file_is_not_known(traced):
    with pytest.raises(UnknownName, match="has no sample names"):
        traced(fed(0, [1])).of_file("a.png")


def test_a_stream_tells_worker_and_place_and_what_the_batch_called_its_samples(traced):
    trace = traced(of_stream(0, 1, 0, ["x.tar#a", "x.tar#b"]), of_stream(1, 0, 0, ["y.tar#c"]))
    (batch,) = trace.at(0)
    assert batch.indices is None
    assert batch.samples == ("1:0", "1:1")
    assert batch.names == ("x.tar#a", "x.tar#b")
    assert [batch.step for batch in trace.seeing("0:0")] == [1]
    assert [batch.step for batch in trace.of_file("x.tar")] == [0]
    assert [batch.step for batch in trace.of_file("c")] == [1]


def test_a_stream_without_names_has_places_alone(traced):
    batch = BatchFed(0, 0, "", 0, "Numbers", -1, 4, 3, b"", -1)
    trace = traced(batch)
    assert trace.at(0)[0].samples == ("0:4", "0:5", "0:6")
    assert trace.at(0)[0].names == ("", "", "")


def test_two_runs_part_where_their_samples_do(traced, workshop, another):
    one = traced(fed(0, [1, 2]), fed(1, [3, 4]), fed(2, [5, 6]))
    other = another(fed(0, [1, 2]), fed(1, [3, 5]), fed(2, [5, 6]))
    parting = one.parting(other)
    assert (parting.step, parting.same_steps) == (1, 1)
    assert samples(parting.one) == [[3, 4]]
    assert samples(parting.other) == [[3, 5]]


def test_how_a_step_was_split_into_batches_does_not_matter(traced, another):
    one, other = traced(fed(0, [1, 2]), fed(0, [3], first=2)), another(fed(0, [1, 2, 3]))
    assert one.parting(other).step is None


def test_two_runs_with_the_same_data_say_which_goes_on(traced, another):
    one, other = traced(fed(0, [1])), another(fed(0, [1]), fed(1, [2]))
    assert (one.parting(other).step, one.parting(other).only, other.parting(one).only) == (None, "other", "one")
    assert one.parting(one).only == ""


def test_runs_of_one_order_and_other_names_part(traced, another):
    hint = OrderHint("range", 100)
    one = traced(fed(0, [0, 1], hint=hint, names=[(0, "a"), (1, "b")]))
    assert one.parting(another(fed(0, [0, 1], hint=hint, names=[(0, "a"), (1, "z")]))).step == 0


def test_names_that_one_run_alone_knows_do_not_part_them(traced, another):
    one = traced(fed(0, [0, 1], names=[(0, "a"), (1, "b")]))
    assert one.parting(another(fed(0, [0, 1]))).step is None


def test_orders_that_are_told_alike_are_the_same(traced, another):
    hint = OrderHint("permutation", 5, seed=0)
    one, other = (make(fed(0, [4, 0], hint=hint, size=5)) for make in (traced, another))
    assert one.parting(other).step is None


def test_a_resumed_run_counts_the_later_attempt_from_its_first_step(workshop, make_records):
    writer = workshop.writer()
    for step in range(4):
        writer.put(make_records(step))
    writer.put_batches([fed(step, [step]) for step in range(4)])
    writer.abandon()
    workshop.clock.advance(1000)
    attempt = workshop.claim()
    writer = workshop.writer(workshop.worker(attempt=attempt))
    writer.put(make_records(0, 2))
    writer.put_batches([fed(2, [50], tick=0)])
    writer.close(EndState.FINISHED)
    trace = workshop.run().trace()
    assert samples(trace.at(2, before=2)) == [[0], [1], [50]]
    assert trace.steps.tolist() == [0, 1, 2]


def test_the_newest_file_is_made_anew_until_it_is_large(workshop, monkeypatch):
    monkeypatch.setattr(trace_writer, "FILE_ROWS", 3)
    writer = workshop.writer(flush_secs=0.1)
    for step in range(5):
        writer.put_batches([fed(step, [step])])
        workshop.clock.advance(10)
        writer.turn()
    assert sorted((name.first, name.last) for name in names_of(workshop.store)) == [(0, 2), (3, 4)]
    assert workshop.run().trace().steps.tolist() == [0, 1, 2, 3, 4]


def test_a_file_that_was_made_anew_and_is_still_there_is_read_once(workshop):
    writer = workshop.writer()
    writer.put_batches([fed(0, [1])])
    writer.turn()
    (first,) = names_of(workshop.store)
    kept = bytes(workshop.store.get(str(first)))
    workshop.clock.advance(10)
    writer.put_batches([fed(1, [2])])
    writer.turn()
    workshop.store.put(str(first), kept)
    assert samples(workshop.run().trace().at(1, before=1)) == [[1], [2]]


def test_a_damaged_file_is_named_and_the_rest_reads(workshop, monkeypatch):
    monkeypatch.setattr(trace_writer, "FILE_ROWS", 1)
    writer = workshop.writer()
    for step in range(2):
        writer.put_batches([fed(step, [step])])
        workshop.clock.advance(10)
        writer.turn()
    first, _ = sorted(names_of(workshop.store))
    workshop.store.put(str(first), b"nothing")
    run = workshop.run()
    trace = run.trace()
    assert trace.steps.tolist() == [1]
    assert str(first) in trace.damage[0]
    assert trace.damage[0] in run.damage
    assert trace.damage[0] in examine(workshop.store).damaged


def test_a_file_of_another_run_is_damage(workshop, traced):
    traced(fed(0, [1]))
    trace = Trace(workshop.store, "another")
    assert len(trace) == 0
    assert "to another run" in trace.damage[0]


def test_a_file_under_another_workers_name_is_damage(workshop, traced):
    traced(fed(0, [1]))
    (name,) = names_of(workshop.store)
    workshop.store.put(str(replace(name, worker="p7")), bytes(workshop.store.get(str(name))))
    assert "another worker" in workshop.run().trace().damage[0]


def test_nothing_of_a_trace_is_foreign(workshop, traced):
    traced(fed(0, [1]))
    assert examine(workshop.store).foreign == []


def test_what_could_not_be_put_is_put_later_and_once(workshop):
    writer = workshop.writer()
    writer.put_batches([fed(0, [1])])
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"create"}
    writer.turn()
    workshop.store.error = None
    writer.put_batches([fed(1, [2])])
    assert writer.close(EndState.FINISHED).complete
    assert samples(workshop.run().trace().at(1, before=1)) == [[1], [2]]


def test_a_put_that_came_through_unheard_does_no_harm(workshop):
    writer = workshop.writer()
    writer.put_batches([fed(0, [1])])

    def after(verb, name):
        if verb == "create" and name.startswith("trace/"):
            workshop.store.before = lambda verb, name: None
            workshop.store.inner.create(name, kept.pop() if kept else b"")
            raise StoreUnavailable("away")

    kept = []
    workshop.store.before = after
    writer.turn()
    writer.put_batches([fed(1, [2])])
    assert writer.close(EndState.FINISHED).complete
    trace = workshop.run().trace()
    assert samples(trace.at(1, before=1)) == [[1], [2]]
    assert trace.damage == ()


def test_batches_beyond_the_queue_are_dropped_and_counted(workshop):
    writer = workshop.writer(queue_bytes=1000)
    writer.put_batches([fed(0, [1])])
    writer.put_batches([fed(1, [2] * 1000)])
    assert writer.close(EndState.FINISHED).complete
    trace = workshop.run().trace()
    assert trace.steps.tolist() == [0]
    assert trace.dropped_batches == 1


def test_what_is_kept_of_the_last_steps_is_kept_of_their_trace(workshop, make_records, monkeypatch):
    monkeypatch.setattr(trace_writer, "FILE_ROWS", 2)
    writer = workshop.writer(keep_last=4, flush_secs=0.1)
    for step in range(12):
        writer.put(make_records(step))
        writer.put_batches([fed(step, [step])])
        workshop.clock.advance(10)
        writer.turn()
    assert workshop.run().trace().steps.min() >= 4
    assert workshop.run().trace().steps.max() == 11


def test_what_a_batch_says_is_plain_json(traced):
    (batch,) = traced(fed(0, [1, 2], names=[(1, "a.png")])).at(0)
    assert json.loads(json.dumps(batch.to_json()))["samples"] == ["1", "2"]
    assert batch.to_json()["names"] == ["a.png", ""]


def test_others_read_the_rows_as_parquet(traced, workshop):
    traced(fed(0, [1, 2]), fed(1, [3, 4], names=[(3, "a.png")]))
    (name,) = names_of(workshop.store)
    path = Path(workshop.store.url.removeprefix("file://")) / str(name)
    rows = duckdb.sql(f"SELECT step, indices, names FROM read_parquet('{path}') ORDER BY step").fetchall()
    assert rows == [(0, [1, 2], None), (1, [3, 4], ["a.png"])]


def test_a_run_of_before_there_was_a_trace_has_none():
    run = barograph.open(Path(__file__).parents[2] / "data" / "run-format-1")
    assert len(run.trace()) == 0
    assert run.trace().damage == ()
