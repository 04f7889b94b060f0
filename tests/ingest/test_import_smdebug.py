"""Runs made of what smdebug has written: to the last bit where it is whole, and with names for what is not."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import barograph
from barograph.errors import ImportFailed
from barograph.ingest.smdebug.book import book_in
from barograph.runs.reading.doctor import examine
from barograph.store.urls import store_from_url
from smdebug_data import FIRST, FIRST_INDEX, SAVED, SECOND, imported


def test_every_value_is_there_to_the_last_bit(target: Path) -> None:
    imported(SAVED, target)
    run = barograph.open(target)
    for worker, shift in (("r0", 0), ("r1", 10)):
        weight = run.tensor("weight:fc.weight", 1, worker=worker)
        assert weight.tobytes() == (np.arange(6, dtype=np.float32).reshape(2, 3) / 7 + 1 + shift).tobytes()
        gradient = run.tensor("gradient:fc.weight", 0, worker=worker)
        assert gradient.tobytes() == np.array([[np.nan, np.inf, 0.0], [1e-40, 1.5, -2.5]], np.float32).tobytes()
        mean = run.series("weight:fc.weight[abs_mean]", mode=None, worker=worker)
        assert mean.values.tolist() == [float(np.float32(1 / 3)), float(np.float32(1 / 4)), float(np.float32(1 / 5))]
    assert run.series("loss:total", worker="r1").values.tolist() == [float(np.float32(1.1)), float(np.float32(1.2))]
    assert run.series("scalar:accuracy", "value", worker="r0").values.tolist() == [0.0, 0.1]


def test_modes_steps_workers_and_times_are_kept(target: Path) -> None:
    made = imported(SAVED, target)
    run = barograph.open(target)
    assert made.workers == {"r0": "worker_0", "r1": "worker_1"}
    assert (made.steps, made.values, made.proved, made.unproved) == (6, 30, 0, 30)
    assert (made.damage, made.foreign, made.custom, made.beside) == ((), (), (), 1)
    assert run.steps("train").tolist() == [0, 1]
    assert run.steps("eval").tolist() == [0]
    assert run.arrow("loss", mode="eval", worker="r0", columns="tick")["tick"].to_pylist() == [2]
    assert run.series("loss:total").times.tolist() == [1_600_000_000.5, 1_600_000_001.5]
    assert run.manifest.created_unix == 1_600_000_000.5


def test_the_run_is_whole_and_rules_see_it(target: Path) -> None:
    imported(SAVED, target)
    assert examine(store_from_url(target)).intact
    assert examine(store_from_url(target)).foreign == []
    first, second, evaluation = barograph.open(target).views()
    assert [str(view.step.mode) for view in (first, second, evaluation)] == ["train", "train", "eval"]
    summary = first.summary(barograph.Key(barograph.Kind.GRADIENT, "fc.weight"))
    assert summary is not None
    assert (summary.count, summary.nan, summary.posinf, summary.zeros, summary.max) == (6, 1, 1, 1, 1.5)


def test_one_worker_is_no_rank(saved: Path, target: Path) -> None:
    for path in [*saved.rglob("*worker_1*")]:
        path.unlink()
    assert imported(saved, target).workers == {"p0": "worker_0"}


def test_devices_of_tensorflow_are_workers(saved: Path, target: Path) -> None:
    for path in [*saved.rglob("*worker_1*")]:
        path.rename(path.with_name(path.name.replace("worker_1", "_job-worker_replica-0")))
    assert set(imported(saved, target).workers.values()) == {"worker_0", "/job:worker/replica:0"}


def test_a_bucket_is_read_like_a_directory(target: Path) -> None:
    bucket = store_from_url("memory://smdebug-bucket")
    for path in SAVED.rglob("*.*"):
        if path.is_file():
            bucket.put(str(path.relative_to(SAVED)), path.read_bytes())
    assert imported("memory://smdebug-bucket", target).damage == ()


# What is refused


def test_a_run_that_is_there_stays_as_it_is(target: Path) -> None:
    imported(SAVED, target)
    before = {path: path.stat().st_mtime_ns for path in target.rglob("*")}
    with pytest.raises(ImportFailed, match="not empty"):
        imported(SAVED, target)
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*")} == before


@pytest.mark.parametrize("make", [
    pytest.param(lambda place: None, id="not there"),
    pytest.param(lambda place: place.mkdir(), id="empty"),
    pytest.param(lambda place: shutil.copytree(SAVED / "collections", place / "collections"), id="collections alone"),
    pytest.param(lambda place: (place.mkdir(), (place / "train.py").write_text("print()")), id="another's"),
])
def test_what_is_nothing_of_smdebugs_is_refused_and_no_run_is_begun(tmp_path: Path, target: Path, make: object) -> None:
    make(tmp_path / "other")  # type: ignore[operator]
    with pytest.raises(ImportFailed):
        imported(tmp_path / "other", target)
    assert not target.exists()


def test_where_nothing_can_be_read_no_run_is_begun(saved: Path, target: Path) -> None:
    for path in saved.rglob("*.tfevents"):
        path.write_bytes(b"no record")
    with pytest.raises(ImportFailed, match=r"^Nothing to import"):
        imported(saved, target)
    assert not target.exists()


# What is damaged is named, and the rest is imported


def damage_of(saved: Path, target: Path) -> str:
    made = imported(saved, target)
    book = book_in(store_from_url(target))
    assert book is not None
    assert book.damage == list(made.damage)
    assert examine(store_from_url(target)).intact
    assert len(barograph.open(target).series("loss:total", worker="r1")) == 2
    return "\n".join(made.damage)


def test_a_truncated_file_keeps_what_stands_before_its_end(saved: Path, target: Path) -> None:
    (saved / FIRST).write_bytes((saved / FIRST).read_bytes()[:-150])
    damage = damage_of(saved, target)
    assert re.search(rf"{FIRST}: at byte \d+ a record of \d+ bytes is longer than the rest of the file", damage)
    assert "scalar/accuracy is lost" in damage
    assert len(barograph.open(target).tensor("gradient:fc.weight", 0, worker="r0")) == 2


def test_a_wrong_length_costs_one_record_where_there_is_an_index(saved: Path, target: Path) -> None:
    data = bytearray((saved / FIRST).read_bytes())
    data[0] ^= 1
    (saved / FIRST).write_bytes(data)
    damage = damage_of(saved, target)
    assert f"{FIRST}: at byte 0 the length of a record does not match its checksum (Net_fc.weight)." in damage
    assert damage.count("is lost") == 1
    assert barograph.open(target).series("loss:total", worker="r0").steps.tolist() == [0, 1]


def test_without_index_the_values_tell_their_mode(saved: Path, target: Path) -> None:
    (saved / FIRST_INDEX).unlink()
    assert f"{FIRST}: the index of this step is missing" in damage_of(saved, target)
    assert barograph.open(target).series("loss:total", worker="r0").steps.tolist() == [0, 1]


def test_an_index_that_is_none_is_named(saved: Path, target: Path) -> None:
    (saved / FIRST_INDEX).write_text("[" * 100_000)
    assert FIRST_INDEX in damage_of(saved, target)


@pytest.mark.parametrize("text", [
    '{"meta": {"mode": "FLY", "mode_step": 0}}', '{"meta": {"mode": "TRAIN", "mode_step": -1}}', "{}", "null", "[]",
    '{"meta": {"mode": "TRAIN", "mode_step": 1e999}}', '{"meta": {"mode": "TRAIN", "mode_step": 1.5}}',
    '{"meta": {"mode": "TRAIN", "mode_step": 0}, "tensor_payload": 7}',
])
def test_an_index_of_nonsense_is_named(saved: Path, target: Path, text: str) -> None:
    (saved / FIRST_INDEX).write_text(text)
    assert FIRST_INDEX in damage_of(saved, target)


def test_a_file_of_values_that_is_gone_is_named(saved: Path, target: Path) -> None:
    (saved / FIRST).unlink()
    assert "the file with its 5 values is missing" in damage_of(saved, target)


def test_a_file_that_is_of_another_step_is_named(saved: Path, target: Path) -> None:
    (saved / FIRST).write_bytes((saved / SECOND).read_bytes())
    assert "an event has step 1, but the file step 0" in damage_of(saved, target)


def test_collections_that_are_none_are_named(saved: Path, target: Path) -> None:
    (saved / "collections/000000000/worker_0_collections.json").write_text("{]")
    assert "worker_0_collections.json" in damage_of(saved, target)


def test_a_worker_of_which_only_collections_are_there_is_named(saved: Path, target: Path) -> None:
    source = saved / "collections/000000000/worker_1_collections.json"
    shutil.copy(source, source.with_name("worker_2_collections.json"))
    assert "worker_2 has no files" in damage_of(saved, target)


def test_foreign_files_are_told_and_passed_over(saved: Path, target: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    (saved / "events/000000000000/odd.tfevents").write_bytes(b"odd")
    made = imported(saved, target)
    assert made.foreign == ("events/000000000000/odd.tfevents", "notes.txt")
    assert made.damage == ()


def test_its_profilers_files_are_no_values(saved: Path, target: Path) -> None:
    os.makedirs(saved / "framework/pevents/2021010100")
    (saved / "framework/pevents/2021010100/1_model_timeline.json").write_text("[]")
    made = imported(saved, target)
    assert (made.foreign, made.damage, made.beside) == ((), (), 2)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_bits_are_flipped_the_other_worker_is_imported_whole(saved: Path, target: Path, seed: int) -> None:
    chance = random.Random(seed)
    for path in sorted(saved.rglob("*worker_0*")):
        if path.is_file():
            data = bytearray(path.read_bytes())
            for _ in range(chance.randint(1, 8)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data[: chance.randint(len(data) // 2, len(data))])
    damage_of(saved, target)


def test_names_that_no_path_should_hold_do_no_harm(saved: Path, target: Path) -> None:
    index = json.loads((saved / FIRST_INDEX).read_text())
    (saved / FIRST_INDEX).write_text(json.dumps({**index, "shape_payload": [
        {"tensorname": "../../\x00odd\ud800", "originalname": "x:0", "shape": [2, 3]}]}))
    imported(saved, target)
    assert not (target.parent / "odd").exists()
    shape = barograph.open(target).tensor("custom:../../\x00odd?[shape]", 0)
    assert shape.tolist() == [2, 3]


# The command


def test_the_command_tells_what_it_did_and_ends_with_1_where_something_is_damaged(
    saved: Path, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from barograph.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["import", "smdebug", str(saved), "-o", str(target), "--json"])
    assert ended.value.code in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert (told["steps"], told["values"], told["damage"]) == (6, 30, [])
    (saved / FIRST).write_bytes(b"")
    with pytest.raises(SystemExit) as ended:
        main(["import", "smdebug", str(saved), "-o", str(tmp_path / "second")])
    assert ended.value.code == 1
    assert f"{FIRST}: the file is empty" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["import", "smdebug", str(saved), "-o", str(target)])
    assert ended.value.code == 2
