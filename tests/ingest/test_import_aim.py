"""Runs made of a repository that the real Aim has kept, asked by a Python that has it."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import pytest
from PIL import Image

from barograph.errors import ImportFailed
from barograph.experiments.artifacts import artifact_of, bytes_of
from barograph.experiments.catalog import Catalog
from barograph.ingest.aim.source import AimSource
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.model.key import Kind
from barograph.runs.reading.histories import histories_of
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from real_trackers import Unavailable, made_by, python_with_trackers


def imported(place: Path, root: Path, python: str) -> Imported:
    source = AimSource(place, python)
    try:
        store = store_from_url(root)
        return import_runs(source, store, lambda folder: store_from_url(root / folder),
                           lambda path, name: artifact_of(store, path, name, media_type="", copy=True))
    finally:
        source.close()


def test_what_aim_has_kept_becomes_a_run_once(tmp_path: Path) -> None:
    try:
        made = made_by("aim_script.py", tmp_path / "made")
    except Unavailable as error:
        pytest.skip(str(error))
    root, python = tmp_path / "runs", str(python_with_trackers())
    truth = json.loads((made / "truth.json").read_text())
    first = imported(made, root, python)
    (run,) = first.runs
    assert (first.passed_over, first.damage, run.copied) == ({"distribution": 1}, [], 7)
    assert (run.uid, run.of_steps) == (truth["uid"], {
        "train/loss": "train loss:total", "val/loss": "eval loss:total"})
    histories = histories_of(RunReader(store_from_url(run.run)), Kind.SCALAR)
    found = {history.metric.key.path: history for history in histories}
    assert [value.hex() for value in found["train/loss"].values.tolist()] == truth["loss"]
    assert found["seen {fold=2}"].steps.tolist() == list(range(30))
    assert math.isnan(found["odd"].values[0])
    again = imported(made / ".aim", root, python)
    assert (again.runs, again.unchanged) == ([], 1)
    with Catalog(root) as catalog:
        catalog.feed()
        (item,) = catalog.find("")
    assert item.parameters == {"hparams.lr": 0.001, "hparams.width": 64, "hparams.betas": [0.9, 0.999]}
    files = {link.name: link for link in item.outputs}
    assert sorted(files) == [
        "audios/sound/1.wav", "images/../odd/name/0.png",
        *(f"images/val/samples/{which}.png" for which in ("0-0", "0-1", "5-0", "5-1")), "texts/said.csv"]
    picture = Image.open(io.BytesIO(bytes_of(store_from_url(root), files["images/val/samples/5-1.png"])))
    assert (picture.size, picture.getpixel((5, 3))) == ((6, 4), (6, 6, 6))
    assert files["images/val/samples/5-1.png"].media_type == "image/png"
    texts = bytes_of(store_from_url(root), files["texts/said.csv"]).decode()
    assert list(csv.reader(io.StringIO(texts, newline=""))) == [
        ["step", "place", "text"], ["3", "0", 'one "line"\nand another'], ["4", "0", "∇ more"]]
    assert (item.name, item.tags["keep"], [note.text for note in item.notes]) == ("first", "true", ["the best"])


def test_a_python_without_aim_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".aim").mkdir()
    with pytest.raises(ImportFailed, match=r"not installed in .* pip install aim"):
        AimSource(tmp_path, sys.executable)
    with pytest.raises(ImportFailed, match=r"Cannot run .*nopython: No such file"):
        AimSource(tmp_path, str(tmp_path / "nopython"))
    with pytest.raises(ImportFailed, match=r"No Aim repository: there is no \.aim"):
        AimSource(tmp_path / "nothing", sys.executable)
