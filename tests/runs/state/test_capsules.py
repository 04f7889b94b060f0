"""Capsules on a store: whole or not there, and nothing in them is trusted."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from barograph.errors import BarographError, DamagedChunk, NewerFormat, StoreFull, UnknownName
from barograph.model.capsule import CapsuleHead, Held
from barograph.model.tensor import RawTensor
from barograph.runs.format.metadata import sealed
from barograph.runs.format.proof import checksum_of
from barograph.runs.state.capsules import (
    METADATA_FILE,
    capsule_names,
    read_capsule,
    read_head,
    withheld_steps,
    write_capsule,
)
from barograph.store.base import Store
from barograph.store.urls import store_from_url

HEAD = CapsuleHead(
    1, "r0", 40, 12, "G", Held.NOT_FINITE, "The gradient of fc.weight holds NaN.", 1.5e9, "run-1",
    numbers={"loss": math.inf, "norm": math.nan, "bound": 2.5},
)
WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
CONTENT = {"models": {"net": {"map": {"fc.weight": {"tensor": "models/net/fc.weight"}}}}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_from_url(str(tmp_path / "run"))


def write(store: Store, head: CapsuleHead = HEAD, content: Any = CONTENT, **more: Any) -> str:
    tensors = {"models/net/fc.weight": RawTensor("float32", (2, 3), WEIGHT.tobytes())}
    return write_capsule(store, head, content, tensors, **more)


def test_what_is_written_is_read(store: Store) -> None:
    assert write(store) == "capsules/0001-00000040-r0"
    assert capsule_names(store) == ["0001-00000040-r0"]
    capsule = read_capsule(store)
    numbers = capsule.head.numbers
    assert replace(capsule.head, numbers={}) == replace(HEAD, numbers={})
    assert (numbers["loss"], math.isnan(numbers["norm"]), numbers["bound"]) == (math.inf, True, 2.5)
    assert capsule.content == CONTENT
    assert capsule.tensors["models/net/fc.weight"].tobytes() == WEIGHT.tobytes()
    assert capsule.pickled is None
    assert read_head(store, "0001-00000040-r0").text == "The gradient of fc.weight holds NaN."


@pytest.mark.parametrize("threads", [True, False], ids=["beside", "no thread is left"])
def test_large_tensors_are_proved_as_small_ones_are(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: bool
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if not threads:
        monkeypatch.setattr(threading.Thread, "start", start)
    values = np.arange(2**19, dtype=np.float32)
    folder = write_capsule(store, HEAD, CONTENT, {"one": RawTensor("float32", values.shape, values.data)})
    assert (read_capsule(store).tensors["one"] == values).all()
    file = tmp_path / "run" / folder / "tensors.safetensors"
    metadata_file = json.loads((tmp_path / "run" / folder / "capsule.json").read_bytes())
    assert checksum_of(file.read_bytes()) in json.dumps(metadata_file)
    assert not [thread for thread in threading.enumerate() if thread.name == "barograph-checksum"]


def test_large_tensors_that_no_store_takes_are_let_go_of(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(name: str, data: Any) -> None:
        raise StoreFull("No room is left.")

    monkeypatch.setattr(store, "put", put)
    values = np.zeros(2**22, np.float32)
    with pytest.raises(StoreFull):
        write_capsule(store, HEAD, CONTENT, {"one": RawTensor("float32", values.shape, values.data)})
    assert not [thread for thread in threading.enumerate() if thread.name == "barograph-checksum"]


def test_a_capsule_that_was_copied_is_read_where_it_is(store: Store, tmp_path: Path) -> None:
    folder = write(store, pickled=b"any bytes")
    (tmp_path / "run" / folder).rename(tmp_path / "moved")
    capsule = read_capsule(store_from_url(str(tmp_path / "moved")))
    assert (capsule.head.step, capsule.pickled, capsule.where) == (12, b"any bytes", str(tmp_path / "moved"))


def test_of_several_capsules_one_is_named(store: Store) -> None:
    with pytest.raises(UnknownName, match=r"No capsule at .*barograph capsules RUN"):
        read_capsule(store)
    for tick in (3, 40):
        write(store, replace(HEAD, tick=tick, step=tick))
    assert capsule_names(store) == ["0001-00000003-r0", "0001-00000040-r0"]
    assert read_capsule(store, "0001-00000003-r0").head.step == 3
    with pytest.raises(UnknownName, match=r"has 2 capsules\. Name one of: 0001-00000003-r0, 0001-00000040-r0, as in"):
        read_capsule(store)
    with pytest.raises(UnknownName, match=r'no capsule "0001-00000004-r0"\. Did you mean "0001-00000040-r0"'):
        read_capsule(store, "0001-00000004-r0")


def test_a_capsule_that_was_copied_in_part_says_what_is_missing(store: Store) -> None:
    store.delete(f"{write(store)}/tensors.safetensors")
    with pytest.raises(DamagedChunk, match=r"incomplete: tensors\.safetensors is missing\. Copy the whole folder"):
        read_capsule(store)


def test_of_workers_that_saved_one_step_that_is_read_whose_loss_was_lost(store: Store) -> None:
    for worker, loss in (("r0", "0x1.0p+0"), ("r1", "nan"), ("r2", "nan")):
        write(store, replace(HEAD, worker=worker), content={"seen": {"losses": [loss]}})
    assert read_capsule(store).head.worker == "r1"


@pytest.mark.parametrize(("losses", "read"), [((1.0, 1.0, 1.0), "r0"), ((1.0, 3.0, 2.0), "r1")])
def test_of_workers_that_saved_one_step_with_sound_losses_that_of_the_greatest_is_read(
    store: Store, losses: tuple[float, ...], read: str
) -> None:
    for worker, loss in zip(("r0", "r1", "r2"), losses, strict=True):
        write(store, replace(HEAD, worker=worker), content={"seen": {"losses": [loss.hex()]}})
    assert read_capsule(store).head.worker == read


def test_held_steps_are_those_of_the_attempt_whose_update_was_withheld(store: Store) -> None:
    write(store, replace(HEAD, attempt=0, tick=2, step=2))
    write(store, replace(HEAD, tick=7, step=7, withheld=False))
    for worker in ("r0", "r1"):
        write(store, replace(HEAD, tick=12, step=12, worker=worker))
    store.put(f"{write(store, replace(HEAD, tick=30, step=30))}/{METADATA_FILE}", b"no paper")
    write(store, replace(HEAD, tick=40, step=40))

    assert [(head.step, head.worker) for head in withheld_steps(store, 1)] == [(12, "r0"), (40, "r0")]


class Full:
    """A store that has room for so many files."""

    def __init__(self, store: Store, room: int) -> None:
        self._store, self._room = store, room

    def put(self, name: str, data: bytes) -> None:
        if not self._room:
            raise StoreFull("No room is left.")
        self._room -= 1
        self._store.put(name, data)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_what_was_not_written_to_its_end_is_no_capsule(store: Store, room: int) -> None:
    with pytest.raises(StoreFull):
        write(Full(store, room), pickled=b"more")  # type: ignore[arg-type]
    assert capsule_names(store) == []
    with pytest.raises(UnknownName):
        read_capsule(store)


def test_a_newer_capsule_says_so(store: Store) -> None:
    write(store, replace(HEAD, format=2))
    with pytest.raises(NewerFormat, match="format 2; this Barograph reads formats up to 1"):
        read_capsule(store)
    with pytest.raises(NewerFormat):
        read_head(store, HEAD.name)


def test_a_format_that_never_was_is_damage(store: Store) -> None:
    write(store, replace(HEAD, format=0))
    with pytest.raises(DamagedChunk, match="invalid format: 0"):
        read_head(store, HEAD.name)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("damage", [
    lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
], ids=["cut", "emptied", "flipped"])
def test_damage_is_noticed(store: Store, tmp_path: Path, number: int, damage: Callable[[bytes], bytes]) -> None:
    write(store, pickled=b"0123456789 and more")
    path = files(tmp_path / "run")[number]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedChunk):
        read_capsule(store)


@pytest.mark.parametrize("name", ["../../secret.0.safetensors", "/etc/passwd", "a\\..\\b", "", ".", ".."])
def test_a_name_that_leads_out_is_refused(store: Store, name: str) -> None:
    folder = write(store)
    metadata_file = json.loads(bytes(store.get(f"{folder}/capsule.json")))
    del metadata_file["sha256"]
    metadata_file["files"]["tensors"]["name"] = name
    store.put(f"{folder}/capsule.json", sealed(metadata_file))
    with pytest.raises(DamagedChunk, match="outside of it"):
        read_capsule(store)


@pytest.mark.parametrize("change", [
    {"head": None}, {"head": {}}, {"head": []}, {"files": {}}, {"files": None}, {"files": {"tensors": 3}},
    {"files": {"tensors": {"name": "tensors.safetensors"}}},
    {"content": 3}, {"head": {"format": "x"}}, {"head": {"format": 1, "numbers": 3}},
], ids=json.dumps)
def test_a_paper_that_says_anything_else_is_damage(store: Store, change: dict[str, Any]) -> None:
    folder = write(store)
    metadata_file = json.loads(bytes(store.get(f"{folder}/capsule.json")))
    del metadata_file["sha256"]
    store.put(f"{folder}/capsule.json", sealed({**metadata_file, **change}))
    with pytest.raises(BarographError):
        read_capsule(store)


@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"__metadata__": [1]}', b"[1]", b"{"],
                         ids=["deep", "odd metadata", "a list", "cut"])
def test_a_file_of_tensors_whose_header_is_none_is_damage(store: Store, header: bytes) -> None:
    folder = write(store)
    data = len(header).to_bytes(8, "little") + header
    metadata_file = json.loads(bytes(store.get(f"{folder}/capsule.json")))
    del metadata_file["sha256"]
    metadata_file["files"]["tensors"]["checksum"] = checksum_of(data)
    store.put(f"{folder}/tensors.safetensors", data)
    store.put(f"{folder}/capsule.json", sealed(metadata_file))
    with pytest.raises(DamagedChunk, match="Not a safetensors file"):
        read_capsule(store)
