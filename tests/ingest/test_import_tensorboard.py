"""Runs made of event files as PyTorch, tf.summary and tensorboardX write them: whole, damaged, restarted, nested."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.errors import ImportFailed
from barograph.ingest.tensorboard.importing import Imported, import_tensorboard
from barograph.model.key import Key, Kind
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.wire.framing import framed, framed_all
from barograph.wire.writing import first_event, histogram, restart_event, scalar, summary_event, tagged, text

FILE = "events.out.tfevents.1700000000.host"


def imported(source: Path, target: Path, only: str = "") -> Imported:
    return import_tensorboard(store_from_url(source), store_from_url(target),
                              lambda name: store_from_url(target / name), only=only)


def point(tag: str, step: int, value: float, time_unix: float | None = None) -> bytes:
    """An event as tf.summary writes it."""
    return summary_event(1e9 + step if time_unix is None else time_unix, step, [scalar(tagged(tag, "scalars"), value)])


def put(path: Path, events: list[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(framed_all([first_event(1e9), *events]))
    return path


def values(run: RunReader, key: str, mode: str = "train") -> dict[int, float]:
    series = run.series(key, mode=mode)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def summary_writer() -> Callable[..., Any]:
    """PyTorch's own."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    torch_writer = pytest.importorskip("torch.utils.tensorboard", reason="PyTorch's SummaryWriter cannot be loaded")
    made: Callable[..., Any] = torch_writer.SummaryWriter
    return made


# What writers write


def test_what_pytorch_writes_is_read(log: Path, target: Path, summary_writer: Callable[..., Any]) -> None:
    with summary_writer(str(log)) as writer:
        for step, loss in enumerate((0.5, math.nan, math.inf)):
            writer.add_scalar("train/loss", loss, step)
            writer.add_scalar("train/lr", 0.25, step, new_style=True)
            writer.add_scalar("exact", 0.1, step, double_precision=True, new_style=True)
        writer.add_scalar("val/loss", 0.75, 2)
        writer.add_scalar("Accuracy/val", 0.5, 2)
    (made,) = imported(log, target).runs
    run = barograph.open(target)
    losses = run.series("loss:total")
    assert losses.steps.tolist() == [0, 1, 2]
    assert np.array_equal(losses.values, [0.5, math.nan, math.inf], equal_nan=True)
    assert values(run, "learning_rate:group0") == {0: 0.25, 1: 0.25, 2: 0.25}
    assert values(run, "scalar:exact") == {0: 0.1, 1: 0.1, 2: 0.1}
    assert values(run, "loss:total", "eval") == {2: 0.75}
    assert values(run, "scalar:Accuracy", "eval") == {2: 0.5}
    assert made.points == 11
    assert examine(store_from_url(target)).intact


def test_histograms_of_pytorch_keep_what_they_state(
    log: Path, target: Path, summary_writer: Callable[..., Any]
) -> None:
    weights = np.array([-3.0, -0.75, 0.0, 0.0, 1.5, 6.0])
    with summary_writer(str(log)) as writer:
        writer.add_histogram("fc1.weight", weights, 4)
        writer.add_histogram("fc1.weight.grad", weights / 8, 4)
        writer.add_histogram("latent", weights, 4)
    imported(log, target)
    run = barograph.open(target)
    assert list(map(str, run.keys())) == ["custom:latent", "gradient:fc1.weight", "weight:fc1.weight"]
    summary = run.summary("weight:fc1.weight", 4)
    assert (summary.count, summary.zeros, summary.min, summary.max) == (6, 2, -3.0, 6.0)
    assert (summary.sum, summary.sum_sq) == (3.75, 9 + 0.5625 + 2.25 + 36)
    assert summary.sum_abs == pytest.approx(11.25, rel=0.1)
    assert {place: number for place, number in summary.exponents.items() if number} == {
        256 + 128: 1, 256 + 126: 1, 127: 1, 129: 1}
    assert run.summary("gradient:fc1.weight", 4).max == 0.75


def test_parameters_texts_and_what_is_passed_over_are_told(
    log: Path, target: Path, summary_writer: Callable[..., Any]
) -> None:
    with summary_writer(str(log)) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_text("note", "careful", 0)
        writer.add_image("image", np.zeros((3, 4, 4)), 0)
        writer.add_hparams({"rate": 0.5, "optimizer": "sgd"}, {"hparam/accuracy": 0.75})
    (made,) = imported(log, target).runs
    run = barograph.open(target)
    assert made.parameters == {"rate": 0.5, "optimizer": "sgd"}
    assert made.passed_over == {"image": 1}
    assert json.loads(run.tensor("custom:note", 0).tobytes()) == ["careful"]
    assert json.loads(run.tensor("custom:hyperparameters", 0).tobytes()) == {"optimizer": "sgd", "rate": 0.5}
    assert values(run, "scalar:hyperparameter[rate]") == {0: 0.5}
    assert values(run, "scalar:hparam/accuracy") == {0: 0.75}


def test_curves_of_add_scalars_are_one_run(log: Path, target: Path, summary_writer: Callable[..., Any]) -> None:
    with summary_writer(str(log)) as writer:
        writer.add_scalar("lr", 0.5, 0)
        writer.add_scalars("Loss", {"train": 1.0, "val": 2.0}, 0)
    assert len(imported(log, target).runs) == 1
    run = barograph.open(target)
    assert (values(run, "loss:total"), values(run, "loss:total", "eval")) == ({0: 1.0}, {0: 2.0})


def test_what_tensorboardx_writes_is_read(log: Path, target: Path) -> None:
    tensorboardx = pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    with tensorboardx.SummaryWriter(str(log)) as writer:
        writer.add_scalar("train/loss", 0.5, 3)
        writer.add_histogram("fc.weight", np.array([1.0, 2.0]), 3)
    imported(log, target)
    run = barograph.open(target)
    assert values(run, "loss:total") == {3: 0.5}
    assert run.summary("weight:fc.weight", 3).count == 2


def test_what_keras_writes_is_one_run_in_two_modes(log: Path, target: Path) -> None:
    # As its callback does, epoch by epoch, beside evaluations by iteration.
    for folder, loss in (("train", 1.0), ("validation", 2.0)):
        events = [point("epoch_loss", epoch, loss + epoch) for epoch in range(3)]
        if folder == "validation":
            events += [point("evaluation_loss_vs_iterations", 100 * epoch, 9.0) for epoch in range(3)]
        put(log / folder / f"{FILE}.v2", events)
    (made,) = imported(log, target).runs
    run = barograph.open(target)
    assert made.name == ""
    assert values(run, "loss:total") == {0: 1.0, 1: 2.0, 2: 3.0}
    assert values(run, "loss:total", "eval") == {0: 2.0, 1: 3.0, 2: 4.0}
    assert values(run, "scalar:evaluation_loss_vs_iterations", "eval") == {0: 9.0, 100: 9.0, 200: 9.0}


def test_thirty_buckets_are_kept_and_not_judged(log: Path, target: Path) -> None:
    buckets = np.array([[-1.0, 0.0, 3.0], [0.0, 1.0, 1.0]])
    put(log / FILE, [summary_event(1e9, 0, [histogram(tagged("dense/kernel", "histograms"), buckets)])])
    imported(log, target)
    summary = barograph.open(target).summary("custom:dense/kernel", 0)
    assert (summary.count, summary.min, summary.max, summary.sum) == (4, -1.0, 1.0, -1.0)


# Runs, modes and clocks


def test_several_runs_of_a_tree_are_several_runs(log: Path, target: Path) -> None:
    for name in ("a/train", "a/val", "b"):
        put(log / name / FILE, [point("loss", 0, 1.0)])
    made = imported(log, target).runs
    assert [run.name for run in made] == ["a", "b"]
    assert values(barograph.open(target / "a"), "loss:total", "eval") == {0: 1.0}
    assert values(barograph.open(target / "b"), "loss:total") == {0: 1.0}


def test_no_run_is_made_within_another(log: Path, target: Path) -> None:
    for name in ("a", "a/b"):
        put(log / name / FILE, [point("loss", 0, 1.0)])
    imported(log, target)
    assert sorted(path.name for path in target.iterdir()) == ["a", "a.b"]
    assert all(examine(store_from_url(path)).foreign == [] for path in target.iterdir())


def test_one_file_of_a_tree_may_be_asked_for(log: Path, target: Path) -> None:
    put(log / FILE, [point("loss", 0, 1.0)])
    put(log / f"{FILE}.second", [point("loss", 1, 2.0)])
    imported(log, target, FILE)
    assert values(barograph.open(target), "loss:total") == {0: 1.0}


def test_evaluations_that_count_epochs_stand_at_the_steps_of_training(log: Path, target: Path) -> None:
    events = [point("loss/train", step, 1.0, 1e9 + step) for step in range(0, 1000, 10)]
    events += [point("loss/val", epoch, 2.0, 1e9 + 333 * (epoch + 1)) for epoch in range(3)]
    put(log / FILE, events)
    (made,) = imported(log, target).runs
    run = barograph.open(target)
    assert made.recounted == ["loss/val"]
    assert run.steps("eval").tolist() == [330, 660, 990]
    views = [(view.step.mode.value, view.step.number) for view in run.views()]
    assert views.index(("eval", 660)) == views.index(("train", 660)) + 1


def test_a_series_is_never_lost_to_another_of_its_place(log: Path, target: Path) -> None:
    put(log / FILE, [point("train/loss", 0, 1.0), point("train_loss_epoch", 0, 2.0), point("loss", 0, 3.0)])
    imported(log, target)
    run = barograph.open(target)
    assert values(run, "loss:total") == {0: 3.0}
    assert values(run, "scalar:train/loss") == {0: 1.0}
    assert values(run, "scalar:train_loss_epoch") == {0: 2.0}


# Restarts


def test_a_session_that_starts_again_takes_back_what_was_written_since(log: Path, target: Path) -> None:
    put(log / f"{FILE}.0", [point("loss", step, 1.0) for step in range(6)])
    put(log / f"{FILE}.1", [restart_event(1e9, 3), point("loss", 4, 2.0)])
    (made,) = imported(log, target).runs
    assert values(barograph.open(target), "loss:total") == {0: 1.0, 1: 1.0, 2: 1.0, 4: 2.0}
    assert made.again == 3


def test_of_a_restart_that_says_nothing_the_later_file_counts(log: Path, target: Path) -> None:
    put(log / f"{FILE}.0", [point("loss", step, 1.0) for step in range(6)])
    put(log / f"{FILE}.1", [point("loss", step, 2.0) for step in (4, 6)])
    imported(log, target)
    assert values(barograph.open(target), "loss:total") == {0: 1.0, 1: 1.0, 2: 1.0, 3: 1.0, 4: 2.0, 6: 2.0}


def test_purge_step_of_pytorch_is_a_restart(log: Path, target: Path, summary_writer: Callable[..., Any]) -> None:
    for purge, suffix, loss in ((None, ".0", 1.0), (2, ".1", 2.0)):
        with summary_writer(str(log), purge_step=purge, filename_suffix=suffix) as writer:
            for step in range(4) if purge is None else (3,):
                writer.add_scalar("loss", loss, step)
    # Their names begin with the second in which they were made, which may be one.
    names = sorted(path.name for path in log.iterdir())
    assert names[0].endswith(".0")
    imported(log, target)
    assert values(barograph.open(target), "loss:total") == {0: 1.0, 1: 1.0, 3: 2.0}


# Damage


def whole(path: Path) -> list[bytes]:
    """Write three points; return their records."""
    events = [first_event(1e9), *(point("loss", step, float(step)) for step in range(3))]
    path.parent.mkdir(parents=True)
    path.write_bytes(framed_all(events))
    return [framed(event) for event in events]


def test_a_wrong_checksum_costs_one_record(log: Path, target: Path) -> None:
    records = whole(log / FILE)
    start = len(records[0]) + len(records[1])
    data = bytearray((log / FILE).read_bytes())
    data[start + 12 + 3] ^= 1
    (log / FILE).write_bytes(data)
    made = imported(log, target)
    assert made.damage == [f"{FILE}: at byte {start} its checksum does not match."]
    assert values(barograph.open(target), "loss:total") == {0: 0.0, 2: 2.0}


@pytest.mark.parametrize("left_out", [1, 5, 30])
def test_the_tail_of_a_live_file_is_named(log: Path, target: Path, left_out: int) -> None:
    records = whole(log / FILE)
    data = (log / FILE).read_bytes()
    (log / FILE).write_bytes(data[:-left_out])
    (sentence,) = imported(log, target).damage
    assert sentence.startswith(f"{FILE}: at byte {len(data) - len(records[-1])} a record of ")
    assert values(barograph.open(target), "loss:total") == {0: 0.0, 1: 1.0}


def test_a_hostile_length_ends_the_file_and_nothing_else(log: Path, target: Path) -> None:
    records = whole(log / FILE)
    put(log / "b" / FILE, [point("loss", 0, 7.0)])
    hostile = bytearray(b"".join(records))
    at = len(records[0]) + len(records[1])
    hostile[at : at + 8] = struct.pack("<Q", 1 << 60)
    (log / FILE).write_bytes(hostile)
    made = imported(log, target)
    assert made.damage == [f"{FILE}: at byte {at} the length of a record does not match its checksum."]
    assert values(barograph.open(target / "log"), "loss:total") == {0: 0.0}
    assert values(barograph.open(target / "b"), "loss:total") == {0: 7.0}


@pytest.mark.parametrize(("event", "said"), [
    (b"\x2a\xff\xff\xff\xff\x0f", "a field of"),
    (summary_event(0.0, 0, [tagged("loss", "scalars") + b"\x42\x04\x08\x01\x2a\x00"]), "needs 1"),
    (summary_event(0.0, -1, [scalar(tagged("loss", "scalars"), 1.0)]), "an event has step -1"),
    (summary_event(0.0, 0, [histogram(tagged("h", "histograms"), np.array([[1.0, 0.0, 5.0]]))]), "ends before it"),
    (summary_event(0.0, 0, [histogram(tagged("h", "histograms"), np.array([[0.0, 1.0, 1e300]]))]), "an invalid count"),
    (summary_event(0.0, 0, [histogram(tagged("h", "histograms"), np.array([[1e300, 1e301, 1.0]]))]), "too large"),
    (summary_event(0.0, 0, [b"\x0a\x01h\x2a\x0b\x19" + struct.pack("<d", 1e300) + b"\x32\x00"]), "elements"),
])
def test_messages_that_are_none_are_named_and_passed_over(log: Path, target: Path, event: bytes, said: str) -> None:
    put(log / FILE, [event, point("loss", 5, 1.0)])
    (sentence,) = imported(log, target).damage
    assert sentence.startswith(f"{FILE}: at byte ")
    assert said in sentence
    assert values(barograph.open(target), "loss:total") == {5: 1.0}


@pytest.mark.parametrize("time_unix", [math.nan, -5.0, 1e300])
def test_a_time_that_can_be_none_is_that_before_it(log: Path, target: Path, time_unix: float) -> None:
    bars = histogram(tagged(".", "histograms"), np.array([[0.0, 1.0, 5.0]]))
    note = text(tagged("note", "text"), "x")
    put(log / FILE, [point("loss", 0, 1.0, 1e9), point("loss", 1, 2.0, time_unix), summary_event(time_unix, 1, [bars]),
                     summary_event(time_unix, 1, [note])])
    imported(log, target)
    assert barograph.open(target).series("loss:total").times.tolist() == [1e9, 1e9]


def test_random_bytes_do_no_harm(log: Path, target: Path) -> None:
    random = np.random.default_rng(0)
    events = [bytes(random.integers(0, 256, 40, np.uint8)) for _ in range(300)]
    put(log / FILE, [*events, point("loss", 5, 1.0)])
    assert len(imported(log, target).damage) > 100
    assert values(barograph.open(target), "loss:total")[5] == 1.0


# Refusals


def test_a_place_without_event_files_is_refused(log: Path, target: Path) -> None:
    log.mkdir()
    (log / "notes.txt").write_text("x")
    with pytest.raises(ImportFailed, match="No event files: no file name has"):
        imported(log, target)
    assert not target.exists()


def test_a_place_where_something_is_is_refused(log: Path, target: Path) -> None:
    put(log / FILE, [point("loss", 0, 1.0)])
    target.mkdir()
    (target / "mine").write_text("x")
    with pytest.raises(ImportFailed, match="The target is not empty"):
        imported(log, target)
    assert [path.name for path in target.iterdir()] == ["mine"]


def test_files_that_hold_no_numbers_are_refused(log: Path, target: Path) -> None:
    put(log / FILE, [])
    with pytest.raises(ImportFailed, match="the files are empty"):
        imported(log, target)


def test_texts_alone_make_a_run(log: Path, target: Path) -> None:
    put(log / FILE, [summary_event(1e9, 3, [text(tagged("note", "text"), "x")])])
    imported(log, target)
    assert barograph.open(target).keys() == [Key(Kind.CUSTOM, "note")]
