"""Archives that a program writes, looks through and brings in; on a disk, and in a bucket."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from archives import packed
from barograph.errors import (
    BadArchive,
    ImportFailed,
    RunInUse,
    SettingsError,
    StoreDenied,
    StoreUnavailable,
    UnknownItem,
)
from barograph.experiments.catalog import Catalog
from barograph.share import drained_file
from barograph.share.container import ArchiveReader
from barograph.store.urls import store_from_url
from barograph.tracking import Component, Experiment, Run, check_archive, export_archive, import_archive, list_runs


def test_what_a_program_packs_is_what_the_command_packs(root: Path, archive: Path, tmp_path: Path) -> None:
    exported = export_archive(Experiment.load("digits", root=root), tmp_path / "mine.zip")
    assert (tmp_path / "mine.zip").read_bytes() == archive.read_bytes()
    assert (exported.complete, len(exported.manifest.runs)) == (True, 2)


def test_names_places_and_what_was_found_may_be_named(root: Path, tmp_path: Path) -> None:
    for number, what in enumerate((["w16", "w64"], list_runs(root=root), [root / "w64", str(root / "w16")])):
        exported = export_archive(what, tmp_path / f"{number}.zip", root=root if number == 0 else None)
        assert sorted(item.name for item in exported.manifest.items) == ["w16", "w64"]


def test_progress_is_told_to_the_end(root: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    export_archive("digits", tmp_path / "a.zip", root=root, on_progress=lambda *it: told.append(it))
    assert told[-1][0] == told[-1][1] > 1_000_000
    for name in ("on_check", "on_progress"):
        told.clear()
        import_archive(tmp_path / "a.zip", root=tmp_path / f"other {name}", **{name: lambda *it: told.append(it)})
        assert told[-1][0] == told[-1][1] > 1_000_000


def test_into_a_bucket_and_out_of_it(
    root: Path, archive: Path, s3_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drained_file, "HELD_BYTES", 100_000)
    exported = export_archive("digits", f"{s3_url}/kept/digits.zip", root=root)
    assert exported.file_bytes == archive.stat().st_size
    assert bytes(store_from_url(f"{s3_url}/kept").get("digits.zip")) == archive.read_bytes()
    assert len(check_archive(f"{s3_url}/kept/digits.zip").runs) == 2
    imported = import_archive(f"{s3_url}/kept/digits.zip", root=tmp_path / "other")
    assert [(run.name, run.new) for run in sorted(imported.runs)] == [("w16", True), ("w64", True)]
    with Catalog(tmp_path / "other") as catalog:
        assert packed(catalog, "digits") == archive.read_bytes()


def test_where_packing_fails_the_object_that_was_there_stays(root: Path, tmp_path: Path, s3_url: str) -> None:
    there = store_from_url(s3_url)
    there.put("a.zip", b"old")
    with Run("going on", root=tmp_path / "runs"), pytest.raises(RunInUse, match="still being written"):
        export_archive("going on", f"{s3_url}/a.zip", root=tmp_path / "runs")
    Run("odd", root=tmp_path / "runs", to=tmp_path / "runs" / "odd").close()
    (tmp_path / "runs" / "odd" / "output").mkdir()
    (tmp_path / "runs" / "odd" / "output" / "con").write_text("")
    with pytest.raises(BadArchive, match="device on Windows"):
        export_archive("odd", f"{s3_url}/a.zip", root=tmp_path / "runs")
    assert bytes(there.get("a.zip")) == b"old"


def test_an_object_that_is_replaced_while_it_is_read_is_no_damage(archive: Path, s3_url: str) -> None:
    store = store_from_url(s3_url)
    store.put("a.zip", bytes(20_000_000) + archive.read_bytes())
    with ArchiveReader(f"{s3_url}/a.zip") as reader:
        store.put("a.zip", bytes(20_000_001) + archive.read_bytes())
        with pytest.raises(StoreUnavailable, match="replaced while it was read"):
            b"".join(part for name in reader.names for part in reader.parts(name))


def test_what_is_no_archive_in_a_bucket_is_said(s3_url: str, s3_environment: str) -> None:
    store_from_url(s3_url).put("a.zip", b"no archive at all")
    with pytest.raises(ImportFailed, match=r"Not an archive of barograph export archive .*a\.zip"):
        check_archive(f"{s3_url}/a.zip")
    with pytest.raises(ImportFailed, match=r"No archive: the object does not exist .*nothing\.zip"):
        check_archive(f"{s3_url}/nothing.zip")
    with pytest.raises(SettingsError, match="is not an object in a bucket"):
        check_archive(f"{s3_environment}/")
    with pytest.raises(StoreUnavailable, match="bucket does not exist"):
        check_archive("s3://no-such-bucket-here/a.zip")


def test_wrong_words_of_a_program_are_said(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownItem, match=r'"digit".*digits'):
        export_archive("digit", tmp_path / "a.zip", root=root)
    with pytest.raises(SettingsError, match="Nothing to export"):
        export_archive([], tmp_path / "a.zip", root=root)
    with pytest.raises(StoreDenied, match=r"is a directory\. Name a file in it, such as .*runs\.zip"):
        export_archive("digits", tmp_path, root=root)
    other = Component.create("elsewhere", root=tmp_path / "other")
    with pytest.raises(SettingsError, match="in several roots"):
        export_archive([Experiment.load("digits", root=root), other], tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_no_way_back_before_what_was_let_through() -> None:
    with drained_file.DrainedFile() as held:
        held.write(b"abc")
        assert b"".join(held.let_through()) == b"abc"
        held.write(b"de")
        held.seek(3)
        held.write(b"D")
        assert (b"".join(held.let_through()), held.tell()) == (b"De", 5)
        with pytest.raises(io.UnsupportedOperation):
            held.seek(0)
