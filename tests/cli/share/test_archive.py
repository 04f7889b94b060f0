"""`barograph export archive` and `barograph import archive`, as typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.run import Run
from barograph.store.urls import store_from_url

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with one run, which has an artifact, a checkpoint and something kept elsewhere."""
    (tmp_path / "model.bin").write_bytes(b"12345")
    with Run("first", to=str(tmp_path / "runs" / "first")) as run:
        run.log_artifact(str(tmp_path / "model.bin"))
        run.log_input("data", "s3://bucket/data")
        run.log_metric("loss", 1.0)
    store_from_url(tmp_path / "runs" / "first").put("checkpoints/0000-00000001-p0.json", bytes(2048))
    return tmp_path / "runs"


def test_what_is_packed_and_what_is_left_out_is_said(call: Call, root: Path, tmp_path: Path) -> None:
    said = call("export", "archive", root / "first", "-o", tmp_path / "a.zip")
    assert said.code == 0
    assert said.out.startswith("written: 1 run, 1 artifact, ")
    assert "checkpoints: 2.0 KiB (include with --checkpoints)" in said.out
    assert "1 inputs and outputs stored elsewhere; only names are included" in said.out
    with_them = call("export", "archive", root / "first", "-o", tmp_path / "b.zip", "--checkpoints", "--json").json
    assert (with_them["left_out_bytes"], with_them["file_bytes"]) == ({}, (tmp_path / "b.zip").stat().st_size)


def test_what_an_import_brought_is_said(call: Call, root: Path, tmp_path: Path) -> None:
    call("export", "archive", "first", "-o", tmp_path / "a.zip", "--root", root)
    assert call("import", "archive", tmp_path / "a.zip", "--check").out.startswith("intact: 1 run, 1 artifact")
    said = call("import", "archive", tmp_path / "a.zip", "--root", tmp_path / "other")
    assert said.out.startswith("imported: 1 new run, 1 artifact, ")
    assert f"{tmp_path / 'other' / 'first'}" in said.out
    again = call("import", "archive", tmp_path / "a.zip", "--root", tmp_path / "other")
    assert "0 new runs, 1 already present" in again.out
    assert call("import", "archive", tmp_path / "a.zip", "--root", tmp_path / "other", "--json").json["artifacts"] == 0


def test_the_word_archive_may_be_left_out_and_a_slip_of_another_word_is_said(
    call: Call, root: Path, tmp_path: Path
) -> None:
    assert call("export", root / "first", "-o", tmp_path / "a.zip").code == 0
    assert call("import", tmp_path / "a.zip", "--root", tmp_path / "other").code == 0
    wrong = call("export", "tensorbord", root / "first")
    assert wrong.code == 2
    assert "No such command" in wrong.err


def test_what_was_damaged_before_is_packed_named_and_an_exit_code(call: Call, root: Path, tmp_path: Path) -> None:
    [kept] = (root / ".catalog" / "artifacts").glob("*/*")
    kept.write_bytes(b"54321")
    said = call("export", "archive", "first", "-o", tmp_path / "a.zip", "--root", root)
    assert said.code == 1
    assert "differs: it was damaged before the export" in said.out
    kept.unlink()
    gone = call("export", "archive", "first", "-o", tmp_path / "a.zip", "--root", root)
    assert gone.code == 1
    assert 'artifact "model.bin" of "first": it no longer exists' in gone.out


def test_an_archive_that_fails_leaves_the_old_one(call: Call, root: Path, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("old")
    assert call("export", "archive", "nothing", "-o", tmp_path / "a.zip", "--root", root).code == 2
    (root / "first" / "records" / "p0").rename(root / "first" / "records" / "con")
    refused = call("export", "archive", "first", "-o", tmp_path / "a.zip", "--root", root)
    assert refused.code == 2
    assert "device on Windows" in refused.err
    assert (tmp_path / "a.zip").read_text() == "old"
    assert list(tmp_path.glob(".*.part")) == []


def test_runs_of_two_roots_are_told_apart_and_what_to_do_is_said(call: Call, root: Path, tmp_path: Path) -> None:
    with Run("second", to=str(tmp_path / "others" / "second")):
        pass
    other = tmp_path / "others" / "second"
    said = call("compare", root / "first", other)
    assert said.code == 2
    assert f"{root / 'first'} belongs to the runs in {root}, but {other} belongs to those in" in said.err
    assert "--root" in said.err


def test_a_run_deep_below_a_root_is_packed_with_what_its_catalog_knows(call: Call, root: Path, tmp_path: Path) -> None:
    with Run("deep", to=str(root / "group" / "deep"), root=root):
        pass
    call("search", "", "--root", root)
    assert call("export", root / "group" / "deep", "-o", tmp_path / "a.zip").code == 0
    assert not (root / "group" / ".catalog").exists()
