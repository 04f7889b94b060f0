"""Archives that are damaged, cut off or made to do harm: refused by name, and nothing is left behind."""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from archives import brought, members_of, remade
from barograph.errors import BadArchive, ImportFailed, NewerFormat, StoreDenied
from barograph.experiments.catalog import Catalog
from barograph.model.items import Entry, Verb
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.state.journal import metadata_of
from barograph.share.container import ArchiveReader, ArchiveWriter
from barograph.share.members import ARCHIVE_MANIFEST, member_from_name


def refused(path: Path, target: Catalog, message: str, error: type[Exception] = BadArchive) -> None:
    with pytest.raises(error, match=message):
        brought(path, target)
    assert sorted(os.listdir(target.store.url)) == [".catalog"]
    assert not {info.name.partition("/")[2].partition("/")[0] for info in target.store.list(".catalog")} & {
        "artifacts", "journal"}


@pytest.mark.parametrize(("name", "why"), [
    ("../outside", "leaves the directory"), ("a/../../outside", "leaves the directory"), ("/etc/passwd", "absolute"),
    ("C:/windows", "absolute"), ("..\\outside", "characters"), ("first/records/a:stream", "characters"),
    ("first/records/\x00", "characters"), ("first/records/\x1b[2J", "characters"), ("first/records//a", "empty part"),
    ("first/records/./a", "empty part"), ("first/records/", "empty part"), ("con/run.json", "device"),
    ("first/records/AUX.parquet", "device"), ("first/records/a.", "dot or a space"),
    ("first/records/" + "a" * 300, "too long"), ("first/" + "records/" * 200 + "a", "too long"),
    (".ssh/authorized_keys", "not part of a run"), ("first/evil.py", "not part of a run"),
    ("first", "not part of a run"),
    (".catalog/catalog.sqlite", "not part of a run"), (".catalog/journal/evil.json", "not part of a run"),
    (".catalog/artifacts/00/sha256-" + "f" * 64, "not part of a run"), (".hidden/run.json", "not part of a run"),
    ("", "empty part"),
])
def test_a_name_that_no_archive_of_ours_holds_is_refused(name: str, why: str) -> None:
    with pytest.raises(BadArchive, match=why):
        member_from_name(name)


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "w64/evil.py", "con/run.json"])
def test_nothing_is_written_outside(name: str, archive: Path, target: Catalog) -> None:
    remade(archive, {**members_of(archive), name: b"evil"})
    refused(archive, target, re.escape(f'Forbidden member of the archive, "{name}"'))


def test_a_member_whose_bytes_differ_is_named(archive: Path, target: Catalog) -> None:
    data = bytearray(archive.read_bytes())
    at = data.index(b"PAR1") + 2
    data[at] ^= 1
    archive.write_bytes(data)
    refused(archive, target, r'damaged: "w16/records/.*parquet"')


def test_a_member_that_was_exchanged_is_named_though_the_zip_is_whole(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    ours = next(name for name in members if name.startswith("w64/records"))
    with zipfile.ZipFile(archive, "w") as exchanged:
        for name, data in {**members, ours: members[ours][:-1] + b"x"}.items():
            exchanged.writestr(name, data)
    refused(archive, target, f'"{ours}" differs')


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_an_archive_that_is_cut_off_is_refused(share: float, archive: Path, target: Catalog) -> None:
    archive.write_bytes(archive.read_bytes()[: int(len(archive.read_bytes()) * share)])
    refused(archive, target, "truncated" if share else "Not an archive", ImportFailed)


def test_every_bit_that_is_flipped_is_noticed_or_means_nothing(archive: Path, target: Catalog) -> None:
    data = archive.read_bytes()
    whole = members_of(archive)
    tail = data.index(b"PK\x01\x02")
    for at in [*range(0, 400, 7), *range(tail, len(data), 41)]:
        broken = bytearray(data)
        broken[at] ^= 1 << (at % 8)
        archive.write_bytes(broken)
        try:
            with ArchiveReader(archive) as opened:
                assert {name: b"".join(opened.parts(name)) for name in opened.names} == whole
        except (BadArchive, ImportFailed):
            continue


def test_a_member_that_is_missing_or_not_named_is_said(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    ours = next(name for name in members if name.startswith("w64/records"))
    with zipfile.ZipFile(archive, "w") as lacking:
        for name, data in members.items():
            if name != ours:
                lacking.writestr(name, data)
    refused(archive, target, f'"{ours}" is missing')
    with zipfile.ZipFile(archive, "w") as more:
        for name, data in {**members, "w64/records/more": b"1"}.items():
            more.writestr(name, data)
    refused(archive, target, '"w64/records/more" is not in its manifest')


def test_what_is_compressed_is_refused_before_a_byte_of_it_is_made(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as bomb:
        for name, data in {**members, "w64/records/zeros": bytes(10_000_000)}.items():
            bomb.writestr(name, data)
    refused(archive, target, "is compressed")


def test_members_that_lie_over_one_another_are_refused(archive: Path, target: Catalog) -> None:
    with zipfile.ZipFile(archive, "w") as folded:
        folded.writestr("w64/records/a", bytes(1000))
        for name in ("w64/records/b", "w64/records/c"):
            info = zipfile.ZipInfo(name)
            info.header_offset, info.file_size, info.compress_size, info.CRC = 0, 1000, 1000, 0
            info.external_attr = 0o644 << 16
            folded.filelist.append(info)
        folded._didModify = True  # type: ignore[attr-defined]
    refused(archive, target, "overlaps another member|Overlapped")


def test_a_member_that_is_there_twice_is_refused(archive: Path, target: Catalog) -> None:
    with zipfile.ZipFile(archive, "a") as twice, pytest.warns(UserWarning, match="Duplicate name"):
        twice.writestr("w64/run.json", b"{}")
    refused(archive, target, '"w64/run.json" twice')


@pytest.mark.parametrize(("kind", "said"), [
    (stat.S_IFLNK, "a link"), (stat.S_IFIFO, "a pipe"), (stat.S_IFCHR, "device"),
])
def test_links_and_devices_are_refused(kind: int, said: str, archive: Path, target: Catalog) -> None:
    info = zipfile.ZipInfo("w64/records/link")
    info.create_system = 3
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(archive, "a") as linked:
        linked.writestr(info, "/etc/passwd")
    refused(archive, target, f'"w64/records/link" .*{said}')


def test_an_encrypted_member_is_refused(archive: Path, target: Catalog) -> None:
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(data)
    refused(archive, target, "is encrypted")


def test_a_list_of_members_that_is_too_long_is_not_read(
    archive: Path, target: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.share.container.MOST_DIRECTORY_BYTES", 100)
    refused(archive, target, "too many members")


def test_a_newer_format_says_to_update(archive: Path, target: Catalog) -> None:
    remade(archive, members_of(archive), format=2, barograph="9.0")
    refused(archive, target, "format 2, written by Barograph 9.0; .* Update", NewerFormat)


def test_a_newer_run_says_to_update(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    body = unsealed(members["w64/run.json"], "")
    remade(archive, {**members, "w64/run.json": sealed({**body, "format": 99})})
    refused(archive, target, "format", NewerFormat)


@pytest.mark.parametrize("make", [
    lambda body: {**body, "members": [1]}, lambda body: {**body, "runs": 3}, lambda body: {**body, "items": [{}]},
])
def test_a_manifest_that_makes_no_sense_is_refused(
    make: Callable[[dict[str, object]], dict[str, object]], archive: Path, target: Catalog
) -> None:
    members = members_of(archive)
    members[ARCHIVE_MANIFEST] = sealed(make(unsealed(members[ARCHIVE_MANIFEST], "")))
    with zipfile.ZipFile(archive, "w") as changed:
        for name, data in members.items():
            changed.writestr(name, data)
    refused(archive, target, "manifest is invalid")


def test_a_run_that_claims_to_be_another_is_refused(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    runs = unsealed(members[ARCHIVE_MANIFEST], "")["runs"]
    remade(archive, members, runs=[{**run, "run_id": "another"} for run in runs])
    refused(archive, target, "manifest says another")


def test_bytes_under_the_name_of_another_artifact_are_refused(archive: Path, target: Catalog) -> None:
    members = members_of(archive)
    artifact = next(name for name in members if "artifacts" in name)
    remade(archive, {**members, artifact: b"evil"})
    refused(archive, target, "differs from its name")


@pytest.mark.parametrize(("entry", "why"), [
    (Entry("w16", Verb.DELETE, {}, 1.0), "forbidden entry: delete"),
    (Entry("w16", Verb.NOTE, {}, 1.0), "invalid journal entries"),
    (Entry("w16", Verb.SET, {"place": "/srv/ann/private"}, 4e9), "moves .* to another place"),
    (Entry("w16", Verb.CREATE, {"kind": "run", "name": "w16", "fields": {"place": "/home"}}, 1.0), "to another place"),
    (Entry("w16", Verb.METRICS, {"a": {"b": 1}}, 1.0), "invalid journal entries"),
])
def test_entries_that_delete_or_make_no_sense_are_refused(
    entry: Entry, why: str, archive: Path, target: Catalog
) -> None:
    name, data = metadata_of([entry])
    remade(archive, {**members_of(archive), f".catalog/journal/{name}": data})
    refused(archive, target, why)


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 100, b"PK\x03\x04" + bytes(500), b"PK\x05\x06" + bytes(18),
                                  b"PK\x05\x06" + b"\xff" * 18])
def test_a_file_that_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    path.write_bytes(data)
    with pytest.raises(ImportFailed):
        ArchiveReader(path)


def test_a_zip_of_something_else_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as photos:
        photos.writestr("run/records/1.jpg", b"1")
    with pytest.raises(BadArchive, match=r"not a Barograph archive: it has no barograph\.json"):
        ArchiveReader(path)


def test_no_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="file does not exist"):
        ArchiveReader(tmp_path / "nothing.zip")
    with pytest.raises(OSError, match="Cannot read the archive"):
        ArchiveReader(tmp_path)


def test_members_beyond_four_gigabytes_are_declared_so() -> None:
    stream = io.BytesIO()
    with ArchiveWriter(stream) as writer:
        writer.add("first/records/a", [b"a"], 5 * 2**30)
    with zipfile.ZipFile(stream) as archive:
        assert (archive.read("first/records/a"), archive.infolist()[0].file_size) == (b"a", 1)


@pytest.mark.parametrize("name", ["w64/capsules/.git/config", "w64/records/.GIT/hooks/post-checkout"])
def test_a_repository_of_git_is_refused(name: str, archive: Path, target: Catalog) -> None:
    remade(archive, {**members_of(archive), name: b"evil"})
    refused(archive, target, "git would treat the directory as a repository")


@pytest.mark.parametrize("link", ["w64/records", ".catalog/artifacts"])
def test_nothing_is_written_through_a_link_in_the_root(
    link: str, archive: Path, target: Catalog, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    place = Path(target.store.url) / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreDenied, match="leads through a link"):
        brought(archive, target)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_takes_another_name_where_a_link_has_its_own(archive: Path, target: Catalog, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (Path(target.store.url) / "w64").symlink_to(tmp_path / "elsewhere")
    places = {run.name: run.place for run in brought(archive, target).runs}
    assert Path(places["w64"]).name.startswith("w64-")
    assert list((tmp_path / "elsewhere").iterdir()) == []
