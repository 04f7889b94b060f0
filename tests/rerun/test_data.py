"""Whether the data of a run are the same."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from barograph.model.origin import Code, Origin
from barograph.rerun.data import DataCheck, checked_data, link_data
from barograph.runs.format.fingerprints import END_BYTES, fingerprint_of, fingerprinted


def test_what_changed_or_went_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("same", "changed", "gone")]
    for path in paths:
        path.write_bytes(b"as it was")
    origin = Origin(data=tuple(fingerprint_of(str(path)) for path in paths))
    paths[1].write_bytes(b"as it isn")
    paths[2].unlink()
    check = checked_data(origin)
    assert (check.same, check.unknown) == (1, 0)
    assert check.changed == (f"{paths[1]} (its content has changed)", f"{paths[2]} (No such file or directory)")


def test_what_the_run_has_written_itself_is_not_looked_for(tmp_path: Path) -> None:
    given, made = tmp_path / "given", tmp_path / "made"
    for path, seconds in ((given, 99), (made, 101)):
        path.write_bytes(b"as it was")
        os.utime(path, (seconds, seconds))
    origin = Origin(code=Code(str(tmp_path)), data=tuple(fingerprint_of(str(path)) for path in (given, made)),
                    started_unix=100.0)
    made.unlink()
    assert checked_data(origin) == DataCheck(same=1, changed=(), unknown=0)
    made.write_bytes(b"the first run's")
    copy = tmp_path / "copy"
    copy.mkdir()
    assert link_data(origin, copy) == 1
    assert [path.name for path in copy.iterdir()] == ["given"]


def test_a_large_file_is_told_by_its_ends_and_its_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    data = bytearray(3 * END_BYTES)
    path.write_bytes(data)
    before = fingerprint_of(str(path), whole_bytes=END_BYTES)
    assert (before.whole, before.sha256) == (False, "")
    assert fingerprint_of(str(path)).sha256 == hashlib.sha256(data).hexdigest()
    assert not before.whole
    data[-1] = 1
    path.write_bytes(data)
    assert fingerprint_of(str(path), whole_bytes=END_BYTES).fingerprint != before.fingerprint
    path.write_bytes(bytes(3 * END_BYTES + 1))
    assert fingerprint_of(str(path), whole_bytes=END_BYTES).fingerprint != before.fingerprint


def test_a_file_that_changed_after_it_was_opened_has_no_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    opened = fingerprint_of(str(path))
    path.write_bytes(b"three")
    assert fingerprinted(opened).problem == "changed after it was opened"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert fingerprint_of(str(tmp_path)).problem


def test_data_beside_the_code_that_git_does_not_keep_is_linked(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "copy"
    (root / "data").mkdir(parents=True)
    folder.mkdir()
    for name in ("data/x.csv", "kept.txt"):
        (root / name).write_text("here")
    (folder / "kept.txt").write_text("the copy's own")
    (tmp_path / "elsewhere").write_text("here")
    files = [root / "data/x.csv", root / "kept.txt", tmp_path / "elsewhere"]
    origin = Origin(code=Code(str(root)), data=tuple(fingerprint_of(str(path)) for path in files))
    assert link_data(origin, folder) == 1
    assert (folder / "data" / "x.csv").read_text() == "here"
    assert (folder / "kept.txt").read_text() == "the copy's own"
