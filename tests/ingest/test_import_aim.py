"""Runs made of a repository that the real Aim has kept, asked by a Python that has it."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from barograph.errors import ImportFailed
from barograph.experiments.catalog import Catalog
from barograph.ingest.aim.source import AimSource
from barograph.ingest.trackers.importing import Imported, import_runs
from barograph.model.key import Kind
from barograph.runs.histories import histories_of
from barograph.runs.reader import Run
from barograph.store.urls import store_from_url
from real_trackers import Unavailable, made_by, python_with_trackers


def imported(place: Path, root: Path, python: str) -> Imported:
    source = AimSource(place, python)
    try:
        return import_runs(source, store_from_url(root), lambda folder: store_from_url(root / folder), None)
    finally:
        source.close()


def test_what_aim_has_kept_becomes_a_run_once(tmp_path: Path) -> None:
    try:
        made = made_by("aim_script.py", tmp_path / "made")
    except Unavailable as error:
        pytest.skip(str(error))
    root, python = tmp_path / "runs", str(python_with_trackers())
    truth = json.loads((made / "truth.json").read_text())
    (run,) = imported(made, root, python).runs
    assert (run.uid, run.of_steps) == (truth["uid"], {
        "train/loss": "train loss:total", "val/loss": "eval loss:total"})
    found = {history.metric.key.path: history for history in histories_of(Run(store_from_url(run.run)), Kind.SCALAR)}
    assert [value.hex() for value in found["train/loss"].values.tolist()] == truth["loss"]
    assert found["seen {fold=2}"].steps.tolist() == list(range(30))
    assert math.isnan(found["odd"].values[0])
    again = imported(made / ".aim", root, python)
    assert (again.runs, again.unchanged) == ([], 1)
    with Catalog(root) as catalog:
        catalog.feed()
        (item,) = catalog.find("")
    assert item.parameters == {"hparams.lr": 0.001, "hparams.width": 64, "hparams.betas": [0.9, 0.999]}
    assert (item.name, item.tags["keep"], [note.text for note in item.notes]) == ("first", "true", ["the best"])


def test_a_python_without_aim_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / ".aim").mkdir()
    with pytest.raises(ImportFailed, match=r"which .* does not have: pip install aim"):
        AimSource(tmp_path, sys.executable)
    with pytest.raises(ImportFailed, match="nopython cannot be run: No such file"):
        AimSource(tmp_path, str(tmp_path / "nopython"))
    with pytest.raises(ImportFailed, match=r"no repository of Aim at .*: no folder \.aim"):
        AimSource(tmp_path / "nothing", sys.executable)
