"""What was printed, in the run: whole where it is short, the beginning and the end where it is long."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.errors import DamagedChunk
from barograph.runs.state.origins import read_data
from barograph.runs.state.output import OutputWriter, read_output
from barograph.runs.writing.data_writer import DataWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_from_url(str(tmp_path / "run"))


def text_of(store: Store) -> str:
    (found,) = read_output(store)
    return "".join(text for stream, text in found.texts if stream in ("out", "err"))


def shelf(store: Store, **options: object) -> OutputWriter:
    return OutputWriter(store, 0, {"MY_TOKEN": "swordfish"}, **options)  # type: ignore[arg-type]


def test_streams_come_back_in_order(store: Store) -> None:
    made = shelf(store)
    made.add([("out", "one\n"), ("err", "two\n"), ("out", "three")])
    made.write("p0", last=True)
    (found,) = read_output(store)
    assert (found.worker, found.texts, found.left_out) == (
        "p0", [("out", "one\n"), ("err", "two\n"), ("out", "three")], 0)


def test_a_secret_is_hidden_though_it_was_printed_in_pieces(store: Store) -> None:
    now = [0.0]
    made = shelf(store, clock=lambda: now[0])
    made.add([("out", "first\nsaying sword")])
    now[0] = 100.0
    made.write("p0")
    made.add([("out", "fish\n")])
    now[0] = 200.0
    made.write("p0")
    assert text_of(store) == "first\nsaying ***\n"
    assert len(store.list("output")) == 2


def test_little_waits_and_much_is_written_at_once(store: Store) -> None:
    made = shelf(store, clock=lambda: 0.0)
    made.add([("out", "little\n")])
    made.write("p0")
    assert store.list("output") == []
    made.add([("out", "x" * 70_000 + "\n")])
    made.write("p0")
    assert len(store.list("output")) == 1


def test_of_much_the_beginning_and_the_end_are_kept_and_the_rest_is_counted(store: Store) -> None:
    made = shelf(store, end_chars=1000)
    lines = [f"line {number:04}\n" for number in range(1000)]
    for line in lines:
        made.add([("out", line)])
        made.write("p0", last=True)
    (found,) = read_output(store)
    text = text_of(store)
    assert text.startswith("line 0000\nline 0001\n")
    assert text.endswith("line 0998\nline 0999\n")
    assert 1900 <= len(text) <= 2000
    assert len(text) + found.left_out == 10_000
    assert len(store.list("output")) <= 200


def test_a_flood_within_one_turn_is_cut(store: Store) -> None:
    made = shelf(store, end_chars=1000)
    made.add([("out", "a" * 5000), ("err", "b" * 500)], left_out=7)
    made.write("p0", last=True)
    (found,) = read_output(store)
    assert (text_of(store), found.left_out) == ("a" * 500 + "b" * 500, 4507)


def test_a_part_that_was_changed_is_damage(store: Store, tmp_path: Path) -> None:
    made = shelf(store)
    made.add([("out", "one\n")])
    made.write("p0", last=True)
    next((tmp_path / "run" / "output").rglob("*.jsonl")).write_text('["out", "two"]\n')
    with pytest.raises(DamagedChunk):
        read_output(store)


def test_files_that_were_opened_come_back_with_fingerprints(store: Store, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text(path.name)
    made = DataWriter(store, 0)
    made.add([str(path) for path in (*paths, tmp_path / "gone", tmp_path / "run" / "run.json")], 5)
    made.finish("p0", 60.0)
    files, beyond = read_data(store, 0)
    assert [(Path(file.path).name, len(file.fingerprint), file.problem) for file in files] == [
        ("a", 32, ""), ("b", 32, "")]
    assert beyond == 5


def test_a_file_that_nobody_came_to_read_says_so(store: Store, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    made = DataWriter(store, 0)
    made._thread = made._thread or __import__("threading").Thread(target=lambda: None)
    made._thread.start()
    made.add([str(tmp_path / "a")], 0)
    made.finish("p0", 0.0)
    files, _ = read_data(store, 0)
    assert [file.problem for file in files] == ["the training ended before the file was read"]
