"""Damaged and foreign files in a run: they are named, the rest is read correctly, and nothing hangs or crashes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import barograph
from barograph.errors import BarographError, DamagedChunk, NewerFormat, RunFinished
from barograph.model.clock import SystemClock
from barograph.model.manifest import Manifest
from barograph.model.settings import Settings
from barograph.queries.summary import summary_of
from barograph.rules.registry import rules_from_settings
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.reading.doctor import Diagnosis, examine
from barograph.runs.reading.feed import Feed
from barograph.runs.state.claim import claim_run
from barograph.store.urls import store_from_url
from barograph.watch.closing import closing_text
from barograph.watch.loop import Watcher

STEPS = 12
DIGEST = "ab" * 16
CHUNK = f"records/p0/0000-00000090-00000090.{DIGEST}.parquet"
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished and watched run."""
    place = tmp_path_factory.mktemp("runs") / "good"
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with barograph.attach(to=place, budget=None, preset="exact", strict=True, watch=False, machine_hz=0) as run:
        for step in range(STEPS):
            run.save("values", torch.full((3,), float(step)))
            optimizer.zero_grad()
            model(torch.ones(8, 4)).square().mean().backward()
            optimizer.step()
            run.log({"step": step})
    watcher = Watcher(store_from_url(place), rules_from_settings(Settings()))
    while not watcher.poll().ended:
        pass
    return place


@pytest.fixture
def place(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "run"))


def within_a_minute(act: Callable[[], Any]) -> Any:
    """Return the result of `act`; fail the test if it hangs."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(act())
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(600)
    assert result, "it hangs"
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def look_everywhere(place: Path) -> tuple[Any, Diagnosis, int, str]:
    """Read a run with the API, the doctor, a feed and a watcher."""
    store = store_from_url(place)
    run = barograph.open(place)
    values = [run.series(key).values.tolist() for key in ("loss:total", "scalar:step")]
    feed, views = Feed(store), 0
    result = feed.poll()
    for _ in range(30):
        views += len(result.views)
        if result.drained:
            break
        result = feed.poll()
    watcher = Watcher(store, rules_from_settings(Settings()))
    for _ in range(30):
        if watcher.poll().drained:
            break
    summary = closing_text(summary_of(store, watcher.judged))
    run.keys(), run.workers, run.findings, run.arrow()
    return values, examine(store), views, summary


def write(name: str, data: bytes) -> Callable[[Path], None]:
    def act(place: Path) -> None:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return act


def link(name: str, target: str) -> Callable[[Path], None]:
    return lambda place: os.symlink(target, place / name)


def copy(source: str, name: str) -> Callable[[Path], None]:
    return lambda place: write(name, (place / source).read_bytes())(place)


def change(name: str, **changes: Any) -> Callable[[Path], None]:
    """Write a valid metadata file with another content."""
    def act(place: Path) -> None:
        (place / name).write_bytes(sealed({**unsealed((place / name).read_bytes(), name), **changes}))

    return act


BESIDE: dict[str, Callable[[Path], None]] = {
    "a pipe": lambda place: os.mkfifo(place / "records" / "p0" / "pipe"),
    "a pipe with a chunk's name": lambda place: os.mkfifo(place / CHUNK),
    "a pipe for a paper": lambda place: os.mkfifo(place / "workers" / "p7-0000.json"),
    "a link to itself": link("records/self", "self"),
    "a link around": link("records/around", ".."),
    "a link to nowhere": link(CHUNK, "nowhere"),
    "a link to a device": link(CHUNK, "/dev/zero"),
    "a directory with a chunk's name": lambda place: (place / CHUNK).mkdir(),
    "a name with line feeds": write("records/p0/a\nb\"'; x.parquet", b"x"),
    "a name that is long": write("records/p0/" + "x" * 250, b"x"),
    "a name with escapes": write("records/p0/%2e%2e%2f..parquet", b"x"),
    "a name that is no text": lambda place: os.mknod(os.fsencode(place) + b"/records/p0/\xff\xfe.parquet"),
    "what another program left": write("records/p0/notes.parquet", b"PAR1 something else PAR1"),
    "a torn upload": copy("run.json", "run.json#1"),
    "a paper for nobody": write("heartbeats/p9-0003.json", DEEP),
    "a worker that is another": copy("workers/p0-0000.json", "workers/p1-0000.json"),
    "a worker that says nothing": write("workers/p1-0000.json", sealed({})),
    "a worker of other types": write("workers/p1-0000.json", sealed({"name": 5, "attempt": "x", "pid": []})),
    "a finding in depth": write("findings/x.json", DEEP),
    "a finding that says nothing": write("findings/N101-3-abc-opened.json", sealed({"x": 1})),
    "a stop that says nothing": write("control/stop-0000-x.json", sealed({"finding_id": 3})),
    "a state that says nothing": write("watch/state.json", sealed({})),
    "a state of other types": write("watch/state.json", sealed({"cursor": 5, "judges": 7})),
    "a state in depth": write("watch/state.json", DEEP),
    "a note of removal that says nothing": write("retention/p0-0000.json", sealed({"removed_through_chunk": "x"})),
    "an attempt that says nothing": write("attempts/0000.json", sealed({"attempt": 0})),
    "a heartbeat in depth": write("heartbeats/p0-0000.json", DEEP),
    "a heartbeat of other types": change("heartbeats/p0-0000.json", beat="x", cost=7),
}


@pytest.mark.parametrize("what", BESIDE)
def test_files_next_to_the_records_change_no_value(place: Path, what: str) -> None:
    BESIDE[what](place)
    values, diagnosis, views, summary = within_a_minute(lambda: look_everywhere(place))
    assert values[1] == [float(step) for step in range(STEPS)]
    # The last number was logged after the last step, and is one of its own.
    assert (len(values[0]), views) == (STEPS, STEPS + 1)
    assert diagnosis.missing == []
    assert summary
    with pytest.raises(RunFinished):
        within_a_minute(lambda: claim_run(store_from_url(place), _OTHER, clock=SystemClock(), dead_secs=1))


_OTHER = Manifest("other", "other", 0.0)


@pytest.mark.parametrize("damage", [
    write("endings/p0-0000.json", DEEP), write("endings/p0-0000.json", sealed({})),
    change("endings/p0-0000.json", state="odd"), change("endings/p0-0000.json", last=[], last_chunk="x"),
])
def test_an_unreadable_end_file_is_named_and_the_records_are_read(
    place: Path, damage: Callable[[Path], None]
) -> None:
    damage(place)
    values, diagnosis, _, _ = within_a_minute(lambda: look_everywhere(place))
    assert values[1] == [float(step) for step in range(STEPS)]
    assert any("endings/p0-0000.json" in text for text in diagnosis.damaged)


@pytest.mark.parametrize("damage", [
    write("run.json", b""), write("run.json", bytes(range(256))), write("run.json", DEEP), write("run.json", b"[1,2]"),
    write("run.json", sealed({"format": 1})), change("run.json", command=7), change("run.json", format=99),
])
def test_every_reader_rejects_an_unreadable_manifest(
    place: Path, damage: Callable[[Path], None]
) -> None:
    damage(place)
    store = store_from_url(place)
    for ask in (
        lambda: barograph.open(place), lambda: Feed(store).poll(),
        lambda: claim_run(store, _OTHER, clock=SystemClock()),
        lambda: Watcher(store, rules_from_settings(Settings())).poll(),
    ):
        with pytest.raises((DamagedChunk, NewerFormat), match=r"run\.json"):
            within_a_minute(ask)


def test_a_flipped_bit_or_a_truncated_file_never_gives_a_wrong_value(good: Path, tmp_path: Path) -> None:
    chance = np.random.default_rng(20261120)
    names = sorted(str(path.relative_to(good)) for path in good.rglob("*") if path.is_file())
    assert len({name.partition("/")[0] for name in names}) >= 8
    for name in names:
        for torn in (False, True):
            place = tmp_path / "run"
            shutil.copytree(good, place)
            data = bytearray((place / name).read_bytes())
            position = int(chance.integers(len(data)))
            if torn:
                del data[position:]
            else:
                data[position] ^= 1 << int(chance.integers(8))
            (place / name).write_bytes(data)
            told = within_a_minute(lambda place=place: _check_values(place))
            if not name.startswith(("watch/", "findings/", "attempts/")):
                assert name in told, (name, torn, position)
            shutil.rmtree(place)


def _check_values(place: Path) -> str:
    """Compare everything readable with what was recorded; return what is reported about the rest."""
    try:
        run = barograph.open(place)
        for key in ("scalar:step",):
            series = run.series(key)
            assert series.values.tolist() == [float(step - 1) for step in series.steps.tolist()]
        for step in range(STEPS):
            assert run.tensor("custom:values", step).tolist() == [float(step)] * 3
    except BarographError as error:
        return f"{error} {' '.join(examine(store_from_url(place)).damaged)}"
    return " ".join((*run.damage, *examine(run.store).damaged))
