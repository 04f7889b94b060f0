"""What is ours draws itself: escaped, bounded, short as text."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.experiments.catalog import Catalog
from barograph.experiments.comparing import compared
from barograph.experiments.curves import curve_of
from barograph.experiments.tabulating import component_table
from barograph.experiments.verdict import verdict
from barograph.tracking import Component, Experiment, Run, list_runs, load_run
from barograph.tune.study import Study
from drawn import drawn


class Tags(HTMLParser):
    """Which elements a page has, and that each is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(html: str) -> str:
    """Return HTML that is well formed and in which nothing runs; without its style."""
    tags = Tags(html)
    assert tags.open == []
    assert "script" not in tags.seen
    assert html.startswith('<div class="barograph"><style>')
    return html.partition("</style>")[2]


@pytest.fixture
def root(small_run: str, tmp_path: Path) -> Path:
    return tmp_path / "barograph-runs"


def test_a_component_draws_what_is_known_of_it(root: Path) -> None:
    [run] = list_runs(root=root)
    run.log_table("answers", {"x": [1, 2]})
    run.note("it <i>works</i>")
    html = checked(drawn(run))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "it &lt;i&gt;works&lt;/i&gt;" in html
    assert all(text in html for text in ("small", "finished", "scalar:acc", "<svg", "answers", "digits / small"))
    assert repr(run) == "Component('small')"


def test_an_experiment_and_its_trials_are_tables(root: Path) -> None:
    experiment = Experiment.load("digits", root=root)
    html = checked(drawn(experiment))
    assert "1 trials" in html
    assert "small" in checked(drawn(experiment.trials()[0]))
    assert "small" in checked(drawn(experiment.trials()))
    assert repr(experiment) == "Experiment('digits')"


def test_a_long_table_is_cut(tmp_path: Path) -> None:
    for number in range(40):
        Component.create(f"component {number}", root=tmp_path).log_parameters({f"p{number}": 1})
    listing = Component.list(root=tmp_path)
    html = checked(drawn(listing))
    assert html.count("<tr>") == 31
    assert "And 10 more rows." in html
    assert len(html) < 20_000


def test_the_table_of_an_experiment_is_one(root: Path) -> None:
    html = checked(drawn(Experiment.load("digits", root=root).table()))
    assert "metrics.acc.max" in html


def test_comparisons_verdicts_lineages_and_curves_draw_themselves(root: Path) -> None:
    with Run("other", root=root) as run:
        run.log_parameters({"lr": 0.2})
    first, second = list_runs("name in ('small', 'other') order by name desc", root=root)
    second.relate("derived_from", first)
    assert "params" not in checked(drawn(compared([first.item, second.item])))
    assert "0.2" in drawn(compared([first.item, second.item]))
    assert "accepted" in checked(drawn(verdict([3.0, 3.1, 3.2], [1.0, 1.1, 1.2])))
    assert "One independent result" in checked(drawn(verdict([3.0], [1.0])))
    lineage = checked(drawn(second.lineage()))
    assert "run other" in lineage
    assert "derived from" in lineage
    assert "<svg" in checked(drawn(curve_of(barograph.open(first.place), "acc")))


def test_a_run_that_is_gone_says_so_and_the_rest_is_drawn(root: Path, small_run: str) -> None:
    [run] = list_runs(root=root)
    for path in Path(small_run).glob("*.json"):
        path.unlink()
    html = checked(drawn(run))
    assert "Cannot show its curves." in html
    assert "lr" in html


def test_a_run_under_way_draws_itself_and_is_short_as_text(tmp_path: Path) -> None:
    with Run("mine", root=tmp_path) as run:
        run.log_roc_curve([0, 1], [0.1, 0.9])
        html = checked(drawn(run))
        assert "running" in html
        assert "ROC" in html
        assert repr(run) == "Run('mine')"
    assert repr(load_run("mine", root=tmp_path)) == "TrackedRun('mine')"


def test_a_shell_draws_runs_and_findings_by_name(shell: Any, small_run: str) -> None:
    run = barograph.open(small_run)
    for thing in (run, run.findings):
        data, _ = shell.display_formatter.format(thing)
        checked(data["text/html"])
    assert data["text/html"].endswith("<p>No findings.</p></div>")


def test_the_style_holds_below_its_own_class_alone() -> None:
    from barograph.report.style import fragment

    style = fragment().partition("<style>")[2].partition("</style>")[0]
    selectors = [part for rule in re.findall(r"([^{}]+)\{", style) for part in rule.split(",")
                 if not part.strip().startswith("@media")]
    assert [part for part in selectors if ".barograph" not in part] == []


def test_matrices_of_many_classes_and_curves_of_many_points_stay_small() -> None:
    from barograph.experiments.scoring import confusion_matrix_of, roc_curves_of

    random = np.random.default_rng(0)
    labels = random.integers(0, 200, 5000)
    matrix = confusion_matrix_of(labels, labels, "m", labels=None, normalize=None, sample_weight=None)
    assert len(checked(drawn(matrix))) < 200_000
    curve = roc_curves_of(random.random(20_000) < 0.5, random.random(20_000), "r", positive_label=None, labels=None,
                          sample_weight=None)
    assert len(curve.curves[0].thresholds) <= 5000
    assert len(checked(drawn(curve))) < 20_000
    assert math.isclose(curve.area, 0.5, abs_tol=0.02)


def test_numbers_of_a_table_stand_to_the_right_and_columns_are_as_wide_as_they_need(tmp_path: Path) -> None:
    with Run("mine", root=tmp_path) as run:
        run.log_parameters({"lr": 0.5, "model": "wide"})
    with Catalog(tmp_path) as catalog:
        catalog.feed()
        with catalog.reading() as connection:
            html = drawn(component_table(connection, catalog.ids("", connection)))
    assert re.search(r'<td[^>]*class="number"[^>]*>0\.5</td>', html)
    assert "<td>wide</td>" in html
    assert "table-layout:auto" in html


def test_a_study_draws_its_best_trial_and_all_others() -> None:
    study = Study.create(None, {"lr": (0.0, 1.0)}, strategy="random", seed=1, minimize="<b>loss</b>")
    for value in (3.0, 1.0, 2.0, 2.5):
        study.tell(study.ask(), value)

    html = checked(drawn(study))

    assert "Trial 1 is the best of 4: &lt;b&gt;loss&lt;/b&gt; 1 with lr=" in html
    assert html.count("<tr>") == 5
    assert "<svg" in html
