"""What a page tells of a run beside its records."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from barograph.experiments.component import Component
from barograph.experiments.experiment import Experiment
from barograph.experiments.handle import Handle
from barograph.experiments.run import Run as TrackedRun
from barograph.model.clock import ManualClock
from barograph.model.origin import Code, DataFile, LeftOut, Origin, Package
from barograph.provenance.gathering import Gathered
from barograph.report.page import page_of
from barograph.report.reading import report_of
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.origins import write_origin
from barograph.share.background import background_of
from barograph.store.urls import store_from_url

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
DIFF = b"diff --git a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A run with all that is to be told of one."""
    root = tmp_path / "runs"
    trial = Experiment.create("digits", root=root).create_trial("wide")
    (tmp_path / "model.bin").write_bytes(b"12345")
    with TrackedRun("first", to=str(root / "first"), root=root, tags={"team": EVIL}) as run:
        run.log_parameters({"lr": 0.1, EVIL: EVIL})
        run.log_artifact(str(tmp_path / "model.bin"))
        run.log_input("data", "s3://bucket/data")
        run.log_metric("loss", math.nan)
        run.note(f"**by the run** {EVIL}")
    said: Handle = Component.load("first", root=root).note("by hand").describe("what it is")
    trial.add_component(said)
    write_origin(store_from_url(root / "first"), 0, Gathered(
        Origin(command=("python", "train.py"), directory="/srv/a", interpreter="/bin/python", python_version="3.12",
               code=Code("/srv/a", "https://git.example/a", "main", "abc123", dirty=True,
                         left_out=(LeftOut("big.bin", "too large"),)),
               packages={"numpy": Package("2.0"), EVIL: Package(EVIL)}, environment={"OMP_NUM_THREADS": "1"},
               seeds={"seed": 3}, host="here", user="me", data=(DataFile("/data/a.csv", 7, 3, "f00d"),)), diff=DIFF))
    return str(root / "first")


def test_what_made_it_and_what_was_said_is_told(place: str) -> None:
    known = background_of(RunReader(store_from_url(place)))
    assert known.made is not None
    assert known.made.code is not None
    assert (known.made.code.commit, known.made.code.changed, known.made.code.left_out) == (
        "abc123", ("train.py",), ("big.bin (too large)",))
    assert (known.made.packages["numpy"], known.made.python) == ("2.0", "3.12 (/bin/python)")
    assert known.trials == (("digits", "wide"),)
    assert [note.text for note in known.notes][1:] == ["by hand"]
    assert (known.description, known.tags, known.parameters["lr"]) == ("what it is", {"team": EVIL}, 0.1)
    assert [(it.role, it.name, it.size_bytes) for it in known.artifacts] == [
        ("input", "data", -1), ("output", "model.bin", 5)]
    assert known.damage == ()


def test_the_page_tells_it_and_nothing_breaks_out(place: str) -> None:
    run = RunReader(store_from_url(place))
    page = page_of(report_of(run, background=background_of(run), clock=ManualClock()))
    for anchor in ("notes", "origin", "artifacts"):
        assert f'<section id="{anchor}"' in page
    assert "<strong>by the run</strong>" in page
    assert "abc123 with uncommitted changes" in page
    assert "<script" not in page
    assert "<img" not in page


def test_no_catalog_is_made_by_looking(place: str) -> None:
    catalog = Path(place).parent / ".catalog" / "catalog.sqlite"
    catalog.unlink()
    background_of(RunReader(store_from_url(place)))
    assert not catalog.exists()


def test_what_cannot_be_read_is_said_and_the_rest_is_told(place: str) -> None:
    for metadata_file in (*Path(place).glob("journal/*.json"), *Path(place).glob("origin/*.diff")):
        metadata_file.write_bytes(metadata_file.read_bytes().replace(b"train", b"brain").replace(b"note", b"nope"))
    known = background_of(RunReader(store_from_url(place)))
    assert len(known.damage) == 2
    assert [note.text for note in known.notes] == ["by hand"]


def test_a_run_without_an_origin_says_so_on_the_page(tmp_path: Path) -> None:
    with TrackedRun("bare", to=str(tmp_path / "bare")) as made:
        made.log_metric("loss", 1.0)
    run = RunReader(store_from_url(tmp_path / "bare"))
    page = page_of(report_of(run, background=background_of(run), clock=ManualClock()))
    assert "Provenance</b>: not recorded." in page
