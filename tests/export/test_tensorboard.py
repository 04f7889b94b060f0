"""A run as event files: everything is there, where TensorBoard looks for it, and nothing is overwritten."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.errors import ExportError
from barograph.export.event_buckets import buckets_of
from barograph.export.tensorboard import Exported, export_tensorboard
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.summary import Summary
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url
from barograph.wire.events import Value, event_from_message
from barograph.wire.framing import Record, records_in
from barograph.wire.tensor_proto import array_from_proto
from barograph.wire.writing import scalar, summary_event, tagged

LOSS, WEIGHT = Key(Kind.LOSS, "total"), Key(Kind.WEIGHT, "fc.weight")
ELEMENTS = np.array([-3.0, -2.5, 0.0, 1.5, math.nan])


def write_run(place: Path, ranks: tuple[int | None, ...] = (None,), *, shard: bool = False) -> None:
    """Three steps of training and an evaluation, of each worker."""
    store, clock = store_from_url(place), ManualClock(unix=1e9)
    claim_run(store, Manifest("20260101T000000Z-abc", "example", 1e9), clock=clock)
    subject = (Subject(WEIGHT, shard=shard, whole=2 * len(ELEMENTS) if shard else 0),)
    moments, exponents = row_from_summary(summarize(ELEMENTS))
    for rank in ranks:
        worker = claim_worker(store, attempt=0, clock=clock, rank=rank, world_size=len(ranks))
        writer = RunWriter(store, worker, settings=Settings(), clock=clock, background=False, wait=clock.advance,
                           status=lambda: Heartbeat(0, 0.0))
        for number, loss in enumerate((0.125, math.nan, math.inf)):
            step = Step(number, number, time_unix=1e9 + number + 0.25)
            writer.put(StepRecords(step, subject, moments[None], exponents[None], scalars={LOSS: loss + (rank or 0)}))
            writer.log("accuracy", 0.5, number, Mode.TRAIN, 1e9 + number)
        writer.put(StepRecords(Step(3, 3, mode=Mode.EVAL, time_unix=1e9 + 9), scalars={LOSS: 0.75}))
        assert writer.close(EndState.FINISHED).complete


def exported(place: Path, out: Path) -> Exported:
    return export_tensorboard(barograph.open(place), out)


def held(folder: Path) -> dict[str, list[tuple[int, float, Value]]]:
    """Tag to step, time and value, of the one file of a folder."""
    (path,) = folder.glob("*tfevents*")
    found: dict[str, list[tuple[int, float, Value]]] = {}
    for record in records_in(memoryview(path.read_bytes())):
        assert isinstance(record, Record)
        assert record.proved
        event = event_from_message(record.payload)
        for value in event.values:
            found.setdefault(value.tag, []).append((event.step, event.time_unix, value))
    return found


def number(value: Value) -> float:
    assert value.tensor is not None
    return float(np.asarray(array_from_proto(value.tensor)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_run(tmp_path / "run")
    return tmp_path / "run"


def test_numbers_keep_step_time_and_what_is_no_number(place: Path, tmp_path: Path) -> None:
    exported(place, tmp_path / "out")
    losses = held(tmp_path / "out" / "train")["loss/total"]
    assert [(step, time_unix) for step, time_unix, _ in losses] == [(0, 1e9 + 0.25), (1, 1e9 + 1.25), (2, 1e9 + 2.25)]
    assert np.array_equal([number(value) for *_, value in losses], [0.125, math.nan, math.inf], equal_nan=True)
    ((step, _, value),) = held(tmp_path / "out" / "eval")["loss/total"]
    assert (step, number(value)) == (3, 0.75)
    assert [step for step, *_ in held(tmp_path / "out" / "train")["scalar/accuracy"]] == [0, 1, 2]


def test_tensors_are_statistics_and_histograms(place: Path, tmp_path: Path) -> None:
    exported(place, tmp_path / "out")
    found = held(tmp_path / "out" / "train")
    assert number(found["weight/fc.weight/max"][0][2]) == 1.5
    assert number(found["weight/fc.weight/nonfinite"][0][2]) == 1.0
    tensor = found["weight/fc.weight"][0][2].tensor
    assert tensor is not None
    assert np.asarray(array_from_proto(tensor)).tolist() == [[-3.0, -2.0, 2.0], [-2.0, 1.0, 1.0], [1.0, 1.5, 1.0]]


def test_each_of_several_workers_has_folders_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path / "run", (0, 1))
    folders = exported(tmp_path / "run", tmp_path / "out").folders
    assert list(folders) == ["r0/eval", "r0/train", "r1/eval", "r1/train"]
    assert number(held(tmp_path / "out" / "r1" / "train")["loss/total"][0][2]) == 1.125


def test_parts_of_a_tensor_are_shown_as_one(tmp_path: Path) -> None:
    write_run(tmp_path / "run", (0, 1), shard=True)
    exported(tmp_path / "run", tmp_path / "out")
    assert number(held(tmp_path / "out" / "r0" / "train")["weight/fc.weight/nonfinite"][0][2]) == 2.0
    assert "weight/fc.weight" not in held(tmp_path / "out" / "r1" / "train")


def test_a_part_without_the_others_is_not_shown_as_the_whole(tmp_path: Path) -> None:
    write_run(tmp_path / "run", (0,), shard=True)
    exported(tmp_path / "run", tmp_path / "out")
    assert "weight/fc.weight" not in held(tmp_path / "out" / "train")


@pytest.mark.parametrize(("value", "shown"), [
    (1e300, 3.4028234663852886e38), (-1e300, -3.4028234663852886e38), (-math.inf, -math.inf),
])
def test_a_number_without_room_in_32_bits_stays_finite(value: float, shown: float) -> None:
    event = event_from_message(memoryview(summary_event(1.0, 0, [scalar(tagged("loss", "scalars"), value)])))
    assert number(event.values[0]) == shown


def test_the_same_run_may_be_written_again(place: Path, tmp_path: Path) -> None:
    exported(place, tmp_path / "out")
    stale = next((tmp_path / "out" / "eval").iterdir())
    (tmp_path / "out" / "gone").mkdir()
    stale.rename(tmp_path / "out" / "gone" / stale.name)
    exported(place, tmp_path / "out")
    names = sorted(str(path.relative_to(tmp_path / "out").parent) for path in (tmp_path / "out").rglob("*tfevents*"))
    assert names == ["eval", "train"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_with_other_events_is_refused(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "out" / "train" / "events.out.tfevents.1.host"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"theirs")
    with pytest.raises(ExportError, match=r"has events of something else, .*events.out.tfevents.1.host"):
        exported(place, tmp_path / "out")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == [other]
    assert other.read_bytes() == b"theirs"


def test_where_the_writing_fails_nothing_is_left(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(summary: Summary) -> None:
        raise ValueError("in the middle")

    monkeypatch.setattr("barograph.export.event_values.buckets_of", fail)
    with pytest.raises(ValueError, match="in the middle"):
        exported(place, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_file_in_the_place_of_the_folder_is_refused(place: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(ExportError, match="Event files need a directory; this is a file"):
        exported(place, tmp_path / "out")


@pytest.mark.parametrize(("summary", "rows"), [
    (Summary(count=3, zeros=3, min=0.0, max=0.0), [[-0.5, 0.5, 3.0]]),
    (Summary(count=2, min=1.0, max=1.0, exponents={127: 2}), [[1.0, 2.0, 2.0]]),
    (Summary(count=3, zeros=1, min=0.0, max=1.5, exponents={127: 2}), [[0.0, 1.0, 1.0], [1.0, 1.5, 2.0]]),
    (Summary(count=2, min=1.0, max=5.0, exponents={127: 1, 129: 1}),
     [[1.0, 2.0, 1.0], [2.0, 4.0, 0.0], [4.0, 5.0, 1.0]]),
    (Summary(count=2, nan=2), []),
    (Summary(count=2, min=1.0, max=1.0), []),
])
def test_buckets_have_no_gaps_and_count_every_finite_element(summary: Summary, rows: list[list[float]]) -> None:
    assert buckets_of(summary).tolist() == rows


# Read back by TensorBoard's own reader


@pytest.fixture
def accumulator() -> Any:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator",
                                 reason="tensorboard cannot be loaded")
    return lambda folder: module.EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def test_tensorboard_reads_what_was_written(place: Path, tmp_path: Path, accumulator: Any) -> None:
    from tensorboard.util import tensor_util

    exported(place, tmp_path / "out")
    read = accumulator(tmp_path / "out" / "train")
    losses = read.Tensors("loss/total")
    assert [(item.step, item.wall_time) for item in losses] == [(0, 1e9 + 0.25), (1, 1e9 + 1.25), (2, 1e9 + 2.25)]
    found = [float(tensor_util.make_ndarray(item.tensor_proto)) for item in losses]
    assert np.array_equal(found, [0.125, math.nan, math.inf], equal_nan=True)
    assert read.SummaryMetadata("loss/total").plugin_data.plugin_name == "scalars"
    assert read.SummaryMetadata("weight/fc.weight").plugin_data.plugin_name == "histograms"
    buckets = tensor_util.make_ndarray(read.Tensors("weight/fc.weight")[0].tensor_proto)
    assert buckets.tolist() == [[-3.0, -2.0, 2.0], [-2.0, 1.0, 1.0], [1.0, 1.5, 1.0]]


def test_the_server_that_comes_with_tensorboard_reads_it_too(place: Path, tmp_path: Path) -> None:
    # It takes fewer sorts of tensors than TensorBoard's own reader, and is what most people have.
    server = pytest.importorskip("tensorboard_data_server", reason="tensorboard-data-server is not installed")
    grpc = pytest.importorskip("grpc", reason="grpc is not installed")
    from tensorboard.data import grpc_provider
    from tensorboard.data.proto import data_provider_pb2_grpc

    exported(place, tmp_path / "out")
    words = [server.server_binary(), "--logdir", str(tmp_path / "out"), "--port", "0", "--reload", "once", "--verbose"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            said: list[str] = []
            while not said or "Finished load cycle" not in said[-1]:
                said.append(process.stdout.readline())
                assert said[-1], "".join(said)
            (address,) = [line.split()[-1] for line in said if line.startswith("listening on")]
            with grpc.secure_channel(address, grpc.local_channel_credentials()) as channel:
                provider = grpc_provider.GrpcDataProvider(
                    address, data_provider_pb2_grpc.TensorBoardDataProviderStub(channel))
                found = provider.read_scalars(None, experiment_id="", plugin_name="scalars", downsample=100)
                held = provider.list_tensors(None, experiment_id="", plugin_name="histograms")
        finally:
            process.kill()
    losses = found["train"]["loss/total"]
    assert [(item.step, item.wall_time) for item in losses] == [(0, 1e9 + 0.25), (1, 1e9 + 1.25), (2, 1e9 + 2.25)]
    assert np.array_equal([item.value for item in losses], [0.125, math.nan, math.inf], equal_nan=True)
    assert [item.value for item in found["train"]["weight/fc.weight/max"]] == [1.5] * 3
    assert held["train"].keys() == {"weight/fc.weight"}
