"""Logs and stores of other trackers that no tracker has written: each is told of, and none ends an import."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from barograph.ingest.mlflow.database import _shown
from barograph.ingest.mlflow.opening import source_at
from barograph.ingest.trackers.foreign import ForeignSource
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.ingest.wandb.source import WandbSource
from barograph.runs.state.origins import read_origin
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
    ([RUN, field(3, item([b"a"] * 3000, b"1"))], '"a" nests more than 20 levels'),
    ([RUN, field(5, item([b"a"], DEEP))], '"a" nests more than 20 levels'),
    ([RUN, field(3, item([b"a"], DEEP))], '"a" nests more than 20 levels'),
    ([RUN, field(3, item([b"a"], b"9" * 400))], None),
    ([RUN, field(2, item([b"acc"], b"1") + item([b"_timestamp"], b"9" * 400))], "with invalid times"),
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
    (REFERENCES, "aliases are not allowed"), ("a: &a [*a]", "aliases are not allowed"),
    (f"a: 0x{'f' * 10_000}", "Cannot read"), ("a: " + "[" * 2000, "Cannot read"),
], ids=["references", "circle", "long number", "deep"])
def test_a_paper_of_mlflow(spoilt: str, told: str, tmp_path: Path) -> None:
    place = mlruns(tmp_path)
    (place.parent / "evil").mkdir()
    (place.parent / "evil" / "meta.yaml").write_text(spoilt)
    found = imported(source_at(str(tmp_path / "mlruns")), tmp_path / "runs")
    assert [run.name for run in found.runs] == ["good"]
    assert [told in sentence for sentence in found.damage] == [True]


def test_a_folder_of_texts_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "id_rsa").write_text("a secret")
    place = mlruns(tmp_path)
    for name in ("params", "tags", "metrics"):
        (place / name).symlink_to(tmp_path / "private")
    [run] = source_at(str(tmp_path / "mlruns")).runs()
    assert (run.parameters, run.tags, run.series()) == ({}, {}, {})


def test_a_secret_that_was_kept_there_is_none_here(tmp_path: Path) -> None:
    place = mlruns(tmp_path)
    said = {"params/api_key": "hunter2", "tags/mlflow.source.git.repoURL": "https://ann:hunter2@host/code.git",
            "tags/mlflow.source.name": "train.py --url=https://ann:hunter2@host/data",
            "inputs/d0/meta.yaml": "source_type: DATASET\nsource_id: d1\n",
            "../datasets/d1/meta.yaml": "name: digits\nsource: '{\"url\": \"https://ann:hunter2@host/d.csv\"}'\n"}
    for name, text in said.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    [run] = imported(source_at(str(tmp_path / "mlruns")), tmp_path / "runs").runs
    origin = read_origin(store_from_url(run.run))
    assert origin is not None
    assert origin.code is not None
    assert origin.parameters == {"api_key": "***"}
    assert origin.code.remote == "https://***@host/code.git"
    assert origin.program == "train.py --url=https://***@host/data"
    kept = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert [path for path in kept if b"hunter2" in path.read_bytes()] == []


def test_a_password_in_the_address_of_a_database_is_not_shown() -> None:
    assert _shown(make_url("postgresql://ann:pw1@host/name?password=pw2")) == \
        "postgresql://***@host/name?password=***"
