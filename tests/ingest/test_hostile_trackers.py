"""Logs and stores of other trackers that no tracker has written: each is told of, and none ends an import."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.ingest.mlflow.opening import source_at
from barograph.ingest.trackers.foreign import ForeignSource
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.ingest.wandb.source import WandbSource
from barograph.store.urls import store_from_url
from barograph.wire.leveldb_log import logged


def imported(source: ForeignSource, root: Path) -> Imported:
    return import_runs(source, store_from_url(root), lambda folder: store_from_url(root / folder), None)


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def item(path: list[bytes], text: bytes) -> bytes:
    return field(1, b"".join(field(2, part) for part in path) + field(16, text))


RUN = field(17, field(1, b"abc") + field(8, b"first"))
DEEP = b"[" * 900 + b"]" * 900


@pytest.mark.parametrize(("records", "told"), [
    ([field(17, field(1, b"abc") + field(17, b"\x08" + varint(10**18)))], None),
    ([field(17, field(1, b"abc") + field(17, b"\x08" + varint((1 << 64) - 10**17)))], None),
    ([RUN, field(3, item([b"a"] * 3000, b"1"))], '"a" is more than 20 tables deep'),
    ([RUN, field(5, item([b"a"], DEEP))], '"a" is more than 20 tables deep'),
    ([RUN, field(3, item([b"a"], DEEP))], '"a" is more than 20 tables deep'),
    ([RUN, field(3, item([b"a"], b"9" * 400))], None),
    ([RUN, field(2, item([b"acc"], b"1") + item([b"_timestamp"], b"9" * 400))], "at times that can be none"),
], ids=["far", "before", "deep name", "deep config", "deep summary", "large", "large time"])
def test_a_log_of_weights_and_biases(records: list[bytes], told: str | None, tmp_path: Path) -> None:
    log = tmp_path / "run-abc.wandb"
    log.write_bytes(logged(records))
    found = imported(WandbSource(log), tmp_path / "runs")
    assert [run.uid for run in found.runs] == ["uncategorized.abc"]
    assert [told is not None and told in sentence for sentence in found.damage] == [True] * (told is not None)


REFERENCES = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 12))


def mlruns(tmp_path: Path) -> Path:
    """A store with one experiment and one run in it."""
    place = tmp_path / "mlruns" / "1" / "0a1b"
    place.mkdir(parents=True)
    (place.parent / "meta.yaml").write_text("name: digits\n")
    (place / "meta.yaml").write_text("run_id: 0a1b\nrun_name: good\nstatus: 3\n")
    return place


@pytest.mark.parametrize(("spoilt", "told"), [
    (REFERENCES, "refers to a part of itself"), ("a: &a [*a]", "refers to a part of itself"),
    (f"a: 0x{'f' * 10_000}", "cannot be read"), ("a: " + "[" * 2000, "cannot be read"),
], ids=["references", "circle", "long number", "deep"])
def test_a_paper_of_mlflow(spoilt: str, told: str, tmp_path: Path) -> None:
    place = mlruns(tmp_path)
    (place.parent / "evil").mkdir()
    (place.parent / "evil" / "meta.yaml").write_text(spoilt)
    found = imported(source_at(str(tmp_path / "mlruns")), tmp_path / "runs")
    assert [run.name for run in found.runs] == ["good"]
    assert [told in sentence for sentence in found.damage] == [True]
