"""What a run or a component has to show: kept in open formats, read back, refused where it makes no sense."""

from __future__ import annotations

import io
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barograph.errors import DamagedChunk, NewerFormat, SessionClosed, SettingsError, UnknownName
from barograph.experiments.artifacts import ARTIFACTS
from barograph.experiments.shown import exhibits_of_run
from barograph.model.exhibit_json import exhibit_from_bytes, exhibit_to_bytes
from barograph.model.exhibits import ConfusionMatrix, NotShown, Picture, PrecisionRecallCurves, RocCurves, Sheet
from barograph.store.urls import store_from_url
from barograph.tracking import Component, Run, list_runs, load_run

metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed here")

PNG = b"\x89PNG\r\n\x1a\n and more"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def component(tmp_path: Path) -> Component:
    return Component.create("data", root=tmp_path)


def answers() -> tuple[np.ndarray, np.ndarray]:
    """Labels of three classes, and a row of scores for each."""
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 150)
    scores = random.dirichlet([1.0, 1.0, 1.0], 150).round(2)
    scores[np.arange(150), truth] += 0.2
    return truth, scores


# Tables


@pytest.mark.parametrize("table", [
    {"x": [1, 2], "y": ["a", None]}, [{"x": 1, "y": "a"}, {"x": 2}], pd.DataFrame({"x": [1, 2], "y": ["a", None]}),
    pl.DataFrame({"x": [1, 2], "y": ["a", None]}), pa.table({"x": [1, 2], "y": ["a", None]}),
    {"x": np.array([1, 2]), "y": ("a", None)},
], ids=["columns", "rows", "pandas", "polars", "arrow", "arrays"])
def test_a_table_comes_back_whatever_it_came_in(component: Component, table: Any) -> None:
    component.log_table("answers", table)
    assert component.table("answers").to_pylist() == [{"x": 1, "y": "a"}, {"x": 2, "y": None}]


def test_a_table_is_an_artifact_that_others_can_read(component: Component, tmp_path: Path) -> None:
    link = component.log_table("answers", data_frame=pd.DataFrame({"x": [math.nan, math.inf]}))
    [file] = [path for path in (tmp_path / ARTIFACTS).rglob("*") if path.is_file()]
    assert pq.read_table(io.BytesIO(file.read_bytes())).num_rows == 2
    assert (link.name, link.media_type) == ("answers", "application/vnd.apache.parquet")
    assert [item.name for item in component.refresh().outputs] == ["answers"]


def test_a_table_is_read_by_no_thread_of_arrow_that_may_outlive_python() -> None:
    script = """
import psutil
from barograph.experiments.table_artifact import table_from_parquet, table_to_parquet
data = table_to_parquet({"sample": list(range(5000)), "answer": ["cat"] * 5000})
before = psutil.Process().num_threads()
assert table_from_parquet(data).num_rows == 5000
print(psutil.Process().num_threads() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout.strip() == "0"


def test_a_later_table_of_the_same_title_takes_its_place(component: Component) -> None:
    component.log_table("t", {"x": [1]})
    component.log_table("t", {"x": [2]})
    assert component.table("t").to_pylist() == [{"x": 2}]


@pytest.mark.parametrize(("values", "said"), [
    ({"x": [1], "y": [1, 2]}, "different lengths"), ("text", "a str as a table"), ({"x": "text"}, 'Column "x"'),
    (3, "Cannot log a int"), ({}, "no column"), ([1, 2], "a list as a table"),
])
def test_what_is_no_table_is_refused(component: Component, values: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        component.log_table("t", values)


def test_one_table_is_one(component: Component) -> None:
    with pytest.raises(SettingsError, match="exactly one of values and data_frame"):
        component.log_table("t")
    with pytest.raises(UnknownName, match='No table "preds"'):
        component.table("preds")


# Matrices and curves: the values are scikit-learn's


def test_a_confusion_matrix_is_that_of_scikit_learn(component: Component) -> None:
    truth = ["cat", "dog", "cat", "bird", "dog"]
    said = ["cat", "cat", "cat", "bird", "fox"]
    made = component.log_confusion_matrix(truth, said)
    assert made.labels == ("bird", "cat", "dog", "fox")
    assert np.array_equal(made.counts, metrics.confusion_matrix(truth, said))
    chosen = component.log_confusion_matrix(truth, said, "chosen", labels=["dog", "cat"], normalize="true",
                                            sample_weight=[1, 2, 3, 4, 5])
    np.testing.assert_allclose(chosen.counts, metrics.confusion_matrix(
        truth, said, labels=["dog", "cat"], normalize="true", sample_weight=[1, 2, 3, 4, 5]))


def test_roc_curves_are_those_of_scikit_learn(component: Component) -> None:
    truth, scores = answers()
    made = component.log_roc_curve(truth, scores)
    assert [curve.label for curve in made.curves] == ["0", "1", "2"]
    for label, curve in enumerate(made.curves):
        false, true, thresholds = metrics.roc_curve(truth == label, scores[:, label])
        np.testing.assert_allclose(curve.false_positives, false, atol=1e-12)
        np.testing.assert_allclose(curve.true_positives, true, atol=1e-12)
        np.testing.assert_allclose(curve.thresholds, thresholds)
    every = [metrics.roc_auc_score(truth == label, scores[:, label]) for label in range(3)]
    assert made.area == pytest.approx(np.mean(every))


def test_curves_of_precision_and_recall_are_those_of_scikit_learn(component: Component) -> None:
    truth, scores = answers()
    named = np.array(["no", "yes"])[(truth == 2).astype(int)]
    made = component.log_precision_recall(named, scores[:, 2], "yes", "pr", no_skill=0.3)
    precision, recall, thresholds = metrics.precision_recall_curve(named, scores[:, 2], pos_label="yes")
    [curve] = made.curves
    np.testing.assert_allclose(curve.precision, precision)
    np.testing.assert_allclose(curve.recall, recall)
    np.testing.assert_allclose(curve.thresholds, thresholds)
    assert made.average_precision == pytest.approx(
        metrics.average_precision_score(named, scores[:, 2], pos_label="yes"))


def test_of_two_columns_the_second_is_the_positive_class(component: Component) -> None:
    made = component.log_roc_curve(["no", "yes"], [[0.9, 0.1], [0.2, 0.8]])
    assert [(curve.label, curve.area) for curve in made.curves] == [("yes", 1.0)]


def test_columns_may_be_of_classes_that_do_not_occur(component: Component) -> None:
    made = component.log_roc_curve([0, 1], np.eye(3)[:2], labels=[0, 1, 2])
    assert [curve.area for curve in made.curves][:2] == [1.0, 1.0]
    assert math.isnan(made.curves[2].area)
    assert exhibit_from_bytes(exhibit_to_bytes(made)).curves[1] == made.curves[1]


def test_tensors_are_taken(component: Component) -> None:
    torch = pytest.importorskip("torch")
    scores = torch.tensor([0.1, 0.9], requires_grad=True)
    assert component.log_roc_curve(torch.tensor([0, 1]), scores).area == 1.0


@pytest.mark.parametrize(("truth", "scores", "more", "said"), [
    ([0, 1], [0.1, math.nan], {}, "1 NaN or infinite scores"),
    ([0, math.nan], [0.1, 0.2], {}, "y_true contains 1 NaN"),
    ([0, None], [0.1, 0.2], {}, "None or NaN"),
    ([0, 1, 1], [0.1, 0.2], {}, "y_true has 3 samples but y_score has 2"),
    ([], [], {}, "at least one sample"),
    (["a", "b"], [0.1, 0.2], {}, "Choose the positive class"),
    ([0, 1, 2], [0.1, 0.2, 0.3], {}, "column of scores per class"),
    ([0, 1], [0.1, 0.2], {"positive_label": 7}, "not one of the classes 0, 1"),
    ([0, 1, 2], [[0.1, 0.2]] * 3, {}, "2 columns, but y_true has the classes 0, 1, 2"),
    ([0, 1, 5], np.eye(3), {"labels": [0, 1, 2]}, "y_true has 5, missing"),
    ([0, 1], [0.1, 0.2], {"sample_weight": [0, 0]}, "not all 0"),
    ([0, 1], [0.1, 0.2], {"sample_weight": [1]}, "one number >= 0 for each of the 2"),
    ([0, 1], ["a", "b"], {}, "must be numbers"),
    ([0, "a"], [0.1, 0.2], {}, "Choose the positive class"),
    ([0, 1], [0.1, 0.2], {"labels": [0, 0]}, "no duplicates"),
])
def test_what_does_not_fit_together_is_refused(
    component: Component, truth: Any, scores: Any, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        component.log_roc_curve(truth, scores, **more)
    assert component.refresh().outputs == []


@pytest.mark.parametrize(("truth", "said_", "more", "said"), [
    ([0, 1], np.eye(2), {}, "numpy.argmax"), ([0, 1], [0, 1], {"normalize": "rows"}, "one of true, pred, all"),
    ([0, 1], [0, 1], {"labels": [7]}, "None of the labels 7"), (range(1001), range(1001), {}, "If these are classes"),
])
def test_what_makes_no_confusion_matrix_is_refused(
    component: Component, truth: Any, said_: Any, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        component.log_confusion_matrix(truth, said_, **more)


# Figures


def test_figures_of_matplotlib_and_pillow_are_pictures(component: Component) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="matplotlib is not installed here")
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed here")
    figure = figures.Figure()
    axes = figure.subplots()
    axes.plot([1, 2])
    assert component.log_figure(figure).media_type == "image/png"
    assert component.log_figure(axes, "axes", drawn_as="svg").media_type == "image/svg+xml"
    assert component.log_figure(images.new("RGB", (2, 2)), "image").media_type == "image/png"
    assert [type(item) for item in component.exhibits()] == [Picture] * 3


@pytest.mark.parametrize(("figure", "media_type"), [
    (PNG, "image/png"), (SVG, "image/svg+xml"), (SVG.encode(), "image/svg+xml"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF89a", "image/gif"), (b"RIFF0000WEBP", "image/webp"),
])
def test_bytes_of_pictures_are_known_by_what_they_are(component: Component, figure: Any, media_type: str) -> None:
    assert component.log_figure(figure).media_type == media_type


@pytest.mark.parametrize(("figure", "said"), [
    (b"text", "Unknown image format"), ("nowhere.png", "No figure at nowhere.png"),
    (3, "Cannot log a builtins.int"), (Path("."), "No figure at"),
])
def test_what_is_no_figure_is_refused(component: Component, figure: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        component.log_figure(figure)


# Runs, and what they have to show


def test_a_run_and_who_speaks_of_it_from_outside_have_the_same_verbs(tmp_path: Path) -> None:
    with Run("mine", root=tmp_path) as run:
        run.log_table("inside", {"x": [1]})
        assert run.table("inside").num_rows == 1
        assert [item.title for item in run.exhibits()] == ["inside"]
    assert [item.title for item in exhibits_of_run(run.store, run.uid)] == ["inside"]
    [component] = list_runs(root=tmp_path)
    component.log_confusion_matrix([0, 1], [0, 1], "outside")
    with load_run("mine", root=tmp_path) as again:
        again.log_figure(PNG, "a picture")
    shown = exhibits_of_run(run.store, run.uid)
    assert [type(item) for item in shown] == [Picture, Sheet, ConfusionMatrix]
    assert shown == list_runs(root=tmp_path)[0].exhibits()
    with pytest.raises(SessionClosed):
        run.log_table("late", {"x": [1]})


def test_to_look_at_a_run_makes_no_catalog(tmp_path: Path) -> None:
    with Run("mine", root=tmp_path / "here") as run:
        run.log_table("inside", {"x": [1]})
    shutil.copytree(tmp_path / "here", tmp_path / "there", ignore=shutil.ignore_patterns("catalog.sqlite*"))
    place = tmp_path / "there" / Path(run.url).name
    assert [item.title for item in exhibits_of_run(store_from_url(place), run.uid)] == ["inside"]
    assert [path.name for path in (tmp_path / "there" / ".catalog").glob("*.sqlite")] == []


def test_verbs_of_sagemaker_experiments_are_there_under_their_names(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"1")
    with Run("mine", root=tmp_path / "runs") as run:
        run.log_file(tmp_path / "model.bin", name="model", is_output=True)
        run.log_table(title="table", values={"x": [1]}, is_output=False)
        run.log_precision_recall([0, 1], [0.1, 0.9], positive_label=1, title="pr", is_output=True, no_skill=0.5)
        run.log_roc_curve([0, 1], [0.1, 0.9], title="roc", is_output=True)
        run.log_confusion_matrix([0, 1], [0, 1], title="matrix", is_output=True)
    [found] = list_runs(root=tmp_path / "runs")
    assert [link.name for link in found.inputs] == ["table"]
    assert [link.name for link in found.outputs] == ["matrix", "model", "pr", "roc"]
    assert [type(item) for item in found.exhibits()] == [ConfusionMatrix, PrecisionRecallCurves, RocCurves, Sheet]


def test_what_was_damaged_says_so_and_the_rest_is_shown(component: Component, tmp_path: Path) -> None:
    component.log_table("table", {"x": [1]})
    component.log_confusion_matrix([0], [0], "matrix")
    broken = next(path for path in (tmp_path / ARTIFACTS).rglob("*")
                  if path.is_file() and path.read_bytes()[:4] == b"PAR1")
    broken.write_bytes(b"PAR1 nonsense")
    matrix, table = component.exhibits()
    assert isinstance(matrix, ConfusionMatrix)
    assert isinstance(table, NotShown)
    assert "has changed since it was logged" in table.reason


@pytest.mark.parametrize("change", [
    {"counts": [[1.0]]}, {"counts": "x"}, {"kind": "other"}, {"labels": 3}, {"version": "x"},
    {"counts": [["x", 1]] * 2},
])
def test_what_is_no_matrix_is_damage(change: dict[str, Any]) -> None:
    data = json.loads(exhibit_to_bytes(ConfusionMatrix("m", ("a", "b"), ((1.0, 0.0), (0.0, 1.0)))))
    with pytest.raises(DamagedChunk):
        exhibit_from_bytes(json.dumps({**data, **change}).encode())
    with pytest.raises(DamagedChunk):
        exhibit_from_bytes(b"\xff{")


def test_what_a_newer_barograph_wrote_is_not_guessed_at() -> None:
    with pytest.raises(NewerFormat):
        exhibit_from_bytes(b'{"version": 2, "kind": "roc"}')


def test_as_text_they_are_short() -> None:
    made = ConfusionMatrix("m", ("a", "b"), ((1.0, 0.0), (1.0, 2.0)))
    assert repr(made) == "ConfusionMatrix('m', 2 classes, accuracy=0.75)"
    assert repr(Picture("p", "image/png", PNG * 1000)) == "Picture('p')"
