"""Checkpoint files of a script: what the next attempt finds when something happens while they are stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from barograph.errors import StoreUnavailable
from barograph.jobs.uploads import CheckpointSync
from barograph.store.base import Store
from barograph.store.urls import store_from_url


class Watched:
    """A store that calls something before it writes an object."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before_put: Callable[[str], object] = lambda name: None

        self.url, self.get, self.list, self.delete = store.url, store.get, store.list, store.delete
        self.create = store.create

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        self.before_put(name)
        self._store.put(name, data)


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    return Watched(store_from_url(str(tmp_path / "job")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints"
    path.mkdir()
    return path


def write(folder: Path, text: str) -> None:
    """Write a checkpoint of two files, as a script does: beside them, then renamed."""
    for name in ("model.pt", "optimizer.pt"):
        (folder / f"{name}.part").write_text(text)
        os.replace(folder / f"{name}.part", folder / name)


def found(store: Watched, tmp_path: Path) -> dict[str, str]:
    """Return the files that the next attempt finds."""
    target = tmp_path / "next"
    target.mkdir()
    CheckpointSync(store, target, 0).download()
    return {path.name: path.read_text() for path in sorted(target.iterdir())}


def test_a_checkpoint_whose_storing_a_notice_broke_off_is_stored_at_the_end(
    store: Watched, folder: Path, tmp_path: Path
) -> None:
    sync = CheckpointSync(store, folder, 0)
    write(folder, "1")
    assert not sync.upload(is_stopping=lambda: True)
    assert sync.upload()
    assert found(store, tmp_path) == {"model.pt": "1", "optimizer.pt": "1"}


def test_an_instance_that_is_lost_while_it_stores_a_checkpoint_leaves_the_one_before(
    store: Watched, folder: Path, tmp_path: Path
) -> None:
    sync = CheckpointSync(store, folder, 0)
    write(folder, "1")
    sync.upload()
    write(folder, "2")

    def lose(name: str) -> None:
        if name.endswith("optimizer.pt"):
            raise StoreUnavailable("The store cannot be reached.")

    store.before_put = lose
    with pytest.raises(StoreUnavailable):
        sync.upload()
    assert found(store, tmp_path) == {"model.pt": "1", "optimizer.pt": "1"}
    # What was stored of the second one is removed, so that nothing is left behind.
    assert len(store.list("job/checkpoints")) == 3


def test_a_store_that_was_unreachable_gets_the_checkpoint_once_it_is_back(
    store: Watched, folder: Path, tmp_path: Path
) -> None:
    sync, tries = CheckpointSync(store, folder, 0), []

    def fail_once(name: str) -> None:
        tries.append(name)
        if len(tries) == 2:
            raise StoreUnavailable("The store cannot be reached.")

    store.before_put = fail_once
    write(folder, "1")
    with pytest.raises(StoreUnavailable):
        sync.upload()
    assert sync.upload()
    assert found(store, tmp_path) == {"model.pt": "1", "optimizer.pt": "1"}
    assert sum(name.endswith("model.pt") for name in tries) == 1  # what had arrived was not sent again


def test_a_file_that_is_written_meanwhile_is_stored_whole_at_the_next_time(
    store: Watched, folder: Path, tmp_path: Path
) -> None:
    sync = CheckpointSync(store, folder, 0)
    write(folder, "1")
    sync.upload()
    write(folder, "2")
    store.before_put = lambda name: (folder / "model.pt").write_text("half")
    assert not sync.upload()
    assert found(store, tmp_path) == {"model.pt": "1", "optimizer.pt": "1"}


def test_a_temporary_file_that_is_renamed_meanwhile_is_no_error(store: Watched, folder: Path, tmp_path: Path) -> None:
    sync = CheckpointSync(store, folder, 0)
    (folder / "a.pt").write_text("1")
    (folder / "b.part").write_text("1")
    store.before_put = lambda name: os.replace(folder / "b.part", folder / "b.pt") if "a.pt" in name else None
    assert not sync.upload()
    store.before_put = lambda name: None
    assert sync.upload()
    assert found(store, tmp_path) == {"a.pt": "1", "b.pt": "1"}


@pytest.mark.parametrize("name", ["new\nline", "step#100", "\udcff", "esc\x1b[31m", "a" * 255, "界" * 85, "-rf", "a b"])
def test_a_file_may_have_any_name(name: str, store: Watched, folder: Path, tmp_path: Path) -> None:
    (folder / name).write_text("1")
    assert CheckpointSync(store, folder, 0).upload()
    assert found(store, tmp_path) == {name: "1"}


def test_a_file_that_cannot_be_read_is_named_once_and_does_not_keep_back_the_others(
    store: Watched, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "1")
    for name in ("secret", "back\\slash"):
        (folder / name).write_text("1")
    access = os.access
    # As root, these tests may read every file.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "secret" and access(path, mode))
    said: list[str] = []
    sync = CheckpointSync(store, folder, 0, say=said.append)
    assert sync.upload()
    assert sync.upload()
    assert sorted(said) == [
        "The checkpoint file back%5Cslash is not stored: its name has a backslash.",
        "The checkpoint file secret is not stored: it cannot be read."]
    assert found(store, tmp_path) == {"model.pt": "1", "optimizer.pt": "1"}


def test_what_is_no_file_is_passed_over(store: Watched, folder: Path, tmp_path: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "gone").symlink_to("nowhere")
    (folder / "a.pt").write_text("1")
    assert CheckpointSync(store, folder, 0).upload()
    assert found(store, tmp_path) == {"a.pt": "1"}
