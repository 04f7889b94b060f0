"""Files whose names somebody else chose are written inside one folder, and nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from barograph.errors import StoreDenied
from barograph.store import inside as module
from barograph.store.inside import Inside


@pytest.fixture(params=[True, False], ids=["by handle", "by name"])
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    monkeypatch.setattr(module, "_BY_HANDLE", request.param)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("original")
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


def outside(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder.parent / "outside").iterdir()}


def test_a_file_is_written_with_the_directories_above_it(folder: Path) -> None:
    Inside(folder).write("a/b/run.sh", b"echo", executable=True)
    assert (folder / "a/b/run.sh").read_bytes() == b"echo"
    assert stat.S_IMODE((folder / "a/b/run.sh").stat().st_mode) & 0o100
    assert sorted(os.listdir(folder / "a/b")) == ["run.sh"]


def test_a_file_that_is_there_is_replaced(folder: Path) -> None:
    (folder / "file").write_text("old")
    Inside(folder).write("file", b"new")
    assert (folder / "file").read_text() == "new"


@pytest.mark.parametrize("target", ["../outside/kept", "../outside/new"])
def test_a_link_at_the_place_of_a_file_is_replaced_and_what_it_leads_to_stays(folder: Path, target: str) -> None:
    (folder / "file").symlink_to(target)
    Inside(folder).write("file", b"new")
    assert not (folder / "file").is_symlink()
    assert (folder / "file").read_text() == "new"
    assert outside(folder) == {"kept": "original"}


@pytest.mark.parametrize("path", ["link/kept", "link/new", "link/deep/new", "a/link/new"])
def test_nothing_is_written_removed_linked_or_made_through_a_linked_directory(folder: Path, path: str) -> None:
    (folder / "a").mkdir()
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder / "a" / "link").symlink_to(folder.parent / "outside")
    inside = Inside(folder)
    for attempt in (lambda: inside.write(path, b"evil"), lambda: inside.link(path, "x"), lambda: inside.remove(path),
                    lambda: inside.make_directory(path)):
        with pytest.raises(StoreDenied, match="leads through a link"):
            attempt()
    assert outside(folder) == {"kept": "original"}


@pytest.mark.parametrize("path", ["../outside/kept", "a/../../outside/kept", "/tmp/kept", "..\\kept", "C:kept", "a\0b"])
def test_a_path_that_leads_out_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(StoreDenied, match="leads out of the folder"):
        Inside(folder).write(path, b"evil")
    assert outside(folder) == {"kept": "original"}


def test_the_folder_itself_may_be_reached_through_a_link(folder: Path) -> None:
    (folder.parent / "shortcut").symlink_to(folder)
    Inside(folder.parent / "shortcut").write("a/file", b"1")
    assert (folder / "a/file").read_bytes() == b"1"


def test_a_name_with_a_line_break_is_told_on_one_line(folder: Path) -> None:
    (folder / "a\nb").symlink_to("/")
    with pytest.raises(StoreDenied) as raised:
        Inside(folder).write("a\nb/\x1b[2J", b"")
    assert str(raised.value).startswith('"a\\nb/\\x1b[2J" leads through a link')


def test_a_link_takes_no_place_that_is_taken(folder: Path) -> None:
    (folder / "file").write_text("mine")
    with pytest.raises(StoreDenied, match="exists"):
        Inside(folder).link("file", "elsewhere")
    assert (folder / "file").read_text() == "mine"


def test_what_is_not_there_is_removed_already(folder: Path) -> None:
    Inside(folder).remove("a/b/nothing")
    assert list(folder.iterdir()) == []
