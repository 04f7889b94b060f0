"""Runs made of what the real Weights & Biases writes offline: whole, resumed, killed, damaged, hostile."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from barograph.cli.share.trackers_import import _keeper
from barograph.errors import ImportFailed
from barograph.experiments.artifacts import bytes_of
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.ingest.wandb.source import WandbSource
from barograph.model.key import Kind
from barograph.runs.reading.histories import histories_of
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.wire.leveldb_log import logged
from real_trackers import Unavailable, made_by


def imported(place: Path, root: Path) -> Imported:
    store = store_from_url(root)
    return import_runs(WandbSource(place), store, lambda folder: store_from_url(root / folder), _keeper(store))


def only_run(root: Path) -> Item:
    with Catalog(root) as catalog:
        catalog.feed(thorough=True)
        (found,) = catalog.find("")
        return found


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return made_by("wandb_script.py", tmp_path_factory.mktemp("wandb"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def made(_made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(_made, tmp_path / "made", symlinks=True))


@pytest.fixture
def log(made: Path) -> Path:
    (found,) = made.glob("wandb/offline-run-*/run-abc123.wandb")
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_every_number_of_the_history_is_the_one_that_was_logged(made: Path, root: Path) -> None:
    (run,) = imported(made, root).runs
    histories = histories_of(RunReader(store_from_url(run.run)), Kind.SCALAR)
    found = {history.metric.key.path: history for history in histories}
    truth = json.loads((made / "truth.json").read_text())
    assert {str(step): value.hex() for step, value in zip(
        found["train/loss"].steps.tolist(), found["train/loss"].values.tolist(), strict=True)} == truth
    assert found["nested.x"].values.tolist() == list(range(400))
    assert (found["third"].steps.tolist(), found["third"].values.tolist()) == ([450], [1 / 3])
    assert math.isnan(found["odd"].values[0])
    assert math.isinf(found["more"].values[0])
    assert found.keys() == {"train/loss", "acc", "nested.x", "odd", "more", "third"}
    assert run.of_steps == {"train/loss": "train loss:total"}


def test_what_was_said_of_the_run_comes_along(made: Path, root: Path) -> None:
    imported(made / "wandb", root)
    run = only_run(root)
    assert run.name == "first"
    assert run.parameters == {"lr": 0.001, "net.width": 64, "net.act": "relu", "seeds": [1, 2], "late": True}
    assert run.tags == {"a": "true", "b": "true", "group": "sweep", "job_type": "train",
                        "wandb.run_id": "digits.abc123"}
    assert [note.text for note in run.notes] == ["the best"]
    assert [(trial.experiment, trial.name) for trial in run.trials] == [("digits", "sweep")]
    assert run.metrics["best"].last == 0.98
    assert run.facts["state"] == "finished"
    assert any(link.name == "model model" and link.uri == "wandb-artifact:///digits/model" for link in run.outputs)


def test_files_beside_the_log_are_kept(made: Path, root: Path) -> None:
    imported(made, root)
    (image,) = [link for link in only_run(root).outputs if link.name.startswith("media/images/")]
    assert bytes_of(store_from_url(root), image).startswith(b"\x89PNG")


def test_imported_twice_nothing_is_there_twice(made: Path, log: Path, root: Path) -> None:
    imported(made, root)
    for place in (made, made / "wandb", log.parent, log):
        again = imported(place, root)
        assert (again.runs, again.unchanged) == ([], 1)


def test_a_run_that_was_killed_is_imported_to_its_last_whole_record(log: Path, root: Path) -> None:
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    found = imported(log, root)
    assert found.damage == []
    run = only_run(root)
    assert run.facts["state"] == "stopped"
    assert 100 < run.metrics["acc"].count < 300


def test_a_run_that_goes_on_is_made_anew(log: Path, root: Path) -> None:
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    imported(log, root)
    log.write_bytes(whole)
    assert [run.again for run in imported(log, root).runs] == [True]
    assert only_run(root).metrics["acc"].count == 400


def test_damage_is_named_and_the_rest_imported(log: Path, root: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    found = imported(log, root)
    assert len(found.damage) == 1
    assert "the checksum of a record does not match" in found.damage[0]
    assert 300 < only_run(root).metrics["acc"].count < 400


def test_logs_of_one_run_that_was_resumed_are_one_run(log: Path, root: Path) -> None:
    later = log.parent.with_name("offline-run-20990101_000000-abc123")
    later.mkdir()
    # A history of one number at step 500, as wandb writes it: run, then history.
    run = bytes([0x8A, 0x01, 8, 0x0A, 6, *b"abc123"])
    item = b"\x12\x03acc\x82\x01\x019"
    step = b"\x12\x05_step\x82\x01\x03500"
    body = bytes([0x0A, len(item)]) + item + bytes([0x0A, len(step)]) + step
    history = bytes([0x12, len(body)]) + body
    (later / log.name).write_bytes(logged([run, history]))
    (found,) = imported(log.parent.parent, root).runs
    assert found.name == "first"
    acc = only_run(root).metrics["acc"]
    assert (acc.count, acc.last_step, acc.last) == (401, 500, 9.0)


@pytest.mark.parametrize(("content", "said"), [
    (b"hello, I am a text\n", "the header is wrong"), (b"", "the header is wrong"),
])
def test_a_file_that_is_no_log_is_told(content: bytes, said: str, tmp_path: Path, root: Path) -> None:
    (tmp_path / "run-x.wandb").write_bytes(content)
    with pytest.raises(ImportFailed, match=said):
        imported(tmp_path / "run-x.wandb", root)
    with pytest.raises(ImportFailed, match="no wandb/offline-run"):
        imported(tmp_path / "..", root)


def test_records_that_are_no_messages_are_named(tmp_path: Path, root: Path) -> None:
    run = bytes([0x8A, 0x01, 5, 0x0A, 3, *b"one"])
    huge = b"\x12\xff\xff\xff\xff\x0f"
    deep = b"[" * 60_000
    nested = b"\x12\x01x\x82\x01" + b"\xe0\xd4\x03" + deep
    body = b"\x0a" + bytes([0x80 | len(nested) & 0x7F, 0x80 | (len(nested) >> 7) & 0x7F, len(nested) >> 14]) + nested
    history = b"\x12" + bytes([0x80 | len(body) & 0x7F, 0x80 | (len(body) >> 7) & 0x7F, len(body) >> 14]) + body
    (tmp_path / "run-one.wandb").write_bytes(logged([run, b"\xff" * 30, huge, history]))
    found = imported(tmp_path, root)
    assert [run.name for run in found.runs] == ["one"]
    assert sum("a record is invalid" in line for line in found.damage) == 3
