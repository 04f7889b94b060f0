"""Scalars that are read as columns are those that are read one by one."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from barograph.ingest.tensorboard.reading import FolderContent, content_of
from barograph.store.urls import store_from_url
from barograph.wire.events import Event, event_from_message
from barograph.wire.framing import framed_all
from barograph.wire.writing import first_event, restart_event, scalar, summary_event, tagged, text


def plain(tag: str, step: int, number: float) -> bytes:
    """An event as `add_scalar` of PyTorch writes it."""
    name = tag.encode()
    value = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", number)
    return summary_event(1e9 + step, step, [value])


def short_tensor(tag: str, step: int, number: float) -> bytes:
    """An event as tf.summary writes it: a tensor of one float, by its bytes."""
    tensor = b"\x08\x01\x12\x00\x22\x04" + struct.pack("<f", number)
    return summary_event(1e9 + step, step, [tagged(tag, "scalars") + b"\x42" + bytes([len(tensor)]) + tensor])


def mixed() -> list[bytes]:
    random = np.random.default_rng(7)
    events = [first_event(1e9)]
    for step in range(400):
        number = [0.5, float("nan"), float("inf"), float(random.normal())][step % 4]
        events += [plain("loss", step, number), plain("lr", 3 * step, -number), short_tensor("acc", step, number),
                   summary_event(1e9, step, [scalar(tagged("exact", "scalars"), number)])]
        if step % 50 == 20:
            events.append(plain("loss", step - 10, 7.0))
            events.append(summary_event(1e9, step, [text(tagged("note", "text"), "x")]))
            events.append(summary_event(1e9, step, [scalar(tagged(name, "scalars"), 8.0) for name in ("loss", "lr")]))
        if step == 333:
            events.append(restart_event(1e9, 300))
        if step == 350:
            events.append(plain("loss", -1, 1.0))
    return events


def read(folder: Path, name: str) -> FolderContent:
    return content_of(store_from_url(folder), (name,))


@pytest.mark.parametrize("at_once", [65536, 97])
def test_columns_say_what_single_records_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    data = bytearray(framed_all(mixed()))
    data[len(data) // 2] ^= 4
    (tmp_path / "tfevents").write_bytes(data)
    monkeypatch.setattr("barograph.wire.framing._SWEEP_RECORDS", at_once)
    columns = read(tmp_path, "tfevents")
    monkeypatch.setattr("barograph.ingest.tensorboard.alike._FEWEST", 1 << 30)
    single = read(tmp_path, "tfevents")
    assert columns.damage == single.damage
    assert len(single.damage) == 2
    assert columns.again == single.again > 0
    assert columns.curves.keys() == single.curves.keys() == {"loss", "lr", "acc", "exact"}
    for tag, curve in single.curves.items():
        assert columns.curves[tag].steps == curve.steps
        assert columns.curves[tag].times == curve.times
        assert columns.curves[tag].values.tobytes() == curve.values.tobytes()
    assert columns.texts.keys() == single.texts.keys()


def test_nearly_all_scalars_are_read_as_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tfevents").write_bytes(framed_all(mixed()))
    count = 0

    def counted(message: memoryview) -> Event:
        nonlocal count
        count += 1
        return event_from_message(message)

    monkeypatch.setattr("barograph.ingest.tensorboard.reading.event_from_message", counted)
    assert len(read(tmp_path, "tfevents").curves["loss"]) > 300
    assert count < 150
