"""What `FORMAT.md` promises, and that DuckDB reads a run without us."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import barograph.runs.format.layout
from barograph.errors import StoreUnavailable
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.runs.format.schema import SCHEMA

MakeRecords = Callable[..., StepRecords]
PAGE = Path(barograph.runs.format.layout.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")
PLAIN, EXACT, COMPLETE = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def ask(query: str, workshop: Any) -> list[tuple[Any, ...]]:
    return duckdb.sql(query.replace("RUN", workshop.store.url)).fetchall()


def steps_and_values(query: str, workshop: Any) -> list[tuple[int, float]]:
    wrapped = f"SELECT step, value FROM ({query}) WHERE kind = 'loss' AND mode = 'train' ORDER BY step, chunk"
    return ask(wrapped, workshop)


def test_a_plain_glob_reads_a_finished_run(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick, loss=tick / 2) for tick in range(5)))
    assert ask(PLAIN, workshop) == [(tick, tick / 2) for tick in range(5)]


def test_every_column_can_be_selected(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    writer.log("accuracy", 0.5, 0, Mode.TRAIN, 0.0)
    workshop.publish(writer)
    workshop.publish(writer, make_records(0))
    relation = duckdb.sql(f"SELECT * FROM '{workshop.store.url}/**/*.parquet'")
    assert relation.columns == SCHEMA.names
    assert len(relation.fetchall()) == 3


def test_the_exact_query_agrees_with_our_reader(workshop: Any, make_records: MakeRecords) -> None:
    """Two attempts, two optimizers, evaluations, and files made one of which the old ones are still there."""
    writer = workshop.writer()
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    for tick in range(40):
        optimizer = "dg"[tick % 2]
        writer.log("accuracy", tick / 40, tick // 2, Mode.TRAIN, 0.0)
        workshop.publish(writer, make_records(tick, tick // 2, optimizer=optimizer, loss=tick / 4))
    workshop.publish(writer, make_records(40, 15, mode=Mode.EVAL, optimizer="d", loss=7.0))
    workshop.store.error = None
    writer.close(EndState.FAILED)
    workshop.store.error = StoreUnavailable("away")
    second = workshop.writer(workshop.worker(attempt=workshop.claim()))
    second.log("startup_secs", 1.0, 0, Mode.TRAIN, 0.0)
    workshop.publish(second, make_records(0, 0, mode=Mode.EVAL))
    for tick in range(34):
        workshop.publish(second, make_records(tick, tick + 15, optimizer="d", loss=100.0 + tick))
    workshop.publish(second, make_records(34, 18, optimizer="g", loss=200.0))
    assert len(workshop.names("records")) > len(workshop.run()._records._files.survey.files((1, "p0"))) + 1

    columns = ["attempt", "chunk", "tick", "step", "optimizer", "mode", "kind", "path", "value", "count"]
    ours = workshop.run().arrow(columns=columns).to_pylist()
    theirs = ask(f"SELECT {', '.join(columns)} FROM ({EXACT})", workshop)
    assert sorted(map(repr, theirs)) == sorted(repr(tuple(row.values())) for row in ours)
    assert any(row["mode"] == "eval" for row in ours)
    assert sum(row["path"] == "accuracy" for row in ours) == 36


def test_the_exact_query_counts_no_row_twice_while_files_are_made_one(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), {"delete"}
    for tick in range(32):
        workshop.publish(writer, make_records(tick, loss=tick / 2))
    assert len(workshop.names("records")) == 33
    assert len(ask(PLAIN, workshop)) == 64
    assert steps_and_values(EXACT, workshop) == [(tick, tick / 2) for tick in range(32)]


def test_the_exact_query_and_our_reader_choose_the_same_of_two_files_of_one_chunk(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    for loss in range(8):
        workshop.publish(workshop.writer(worker), make_records(0, loss=float(loss)))
    assert len(workshop.names("records")) == 8
    assert steps_and_values(EXACT, workshop) == [(0, workshop.run().series("loss:loss").values[0])]


def test_a_missing_chunk_shows(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    assert ask(COMPLETE, workshop) == [("p0", 0, True)]
    workshop.store.inner.delete(workshop.names("records")[1])
    assert ask(COMPLETE, workshop) == [("p0", 0, False)]


def test_the_page_names_every_column() -> None:
    rows = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(SCHEMA.names) <= set(re.findall(r"`(\w+)`", rows))


def test_the_digest_in_a_name_is_that_of_the_whole_file(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    (name,) = workshop.names("records")
    data = Path(workshop.store.url, name).read_bytes()
    assert name.split(".")[-2] == hashlib.sha256(data).hexdigest()[:32]


def test_the_digest_in_a_paper_is_made_as_the_page_says(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    for item in workshop.store.inner.list():
        if item.name.endswith(".json"):
            body = json.loads(bytes(workshop.store.get(item.name)))
            claimed = body.pop("sha256")
            text = json.dumps(body, sort_keys=True, separators=(",", ":"))
            assert hashlib.sha256(text.encode("ascii")).hexdigest() == claimed, item.name


@pytest.mark.parametrize("folder", ["attempts", "workers", "heartbeats", "endings", "records", "tensors", "retention",
                                    "findings", "control", "watch"])
def test_the_page_names_every_folder(folder: str) -> None:
    assert f"`{folder}/" in PAGE
