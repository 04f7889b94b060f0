"""A study as one HTML file, and as a picture in a notebook."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from barograph.jobs.home import JobsHome
from barograph.tune.confirmation import judged
from barograph.tune.overview import overview_of
from barograph.tune.studies import study_at
from barograph.tune.study import Study
from barograph.tune.study_home import StudyHome
from barograph.tune.study_page import study_document, study_fragment
from barograph.tune.trial import Cause

HOSTILE = "<img src=x onerror='window.hacked=1'>"


def filled(where: Path | None = None, objective: str = "loss") -> Study:
    study = Study.create(where, {"lr": "1e-4..1:log", "kind": ["a", HOSTILE]}, strategy="random", seed=1,
                         minimize=objective, trials=8)
    for number in range(6):
        trial = study.ask()
        if number == 4:
            study.stop(trial, f"diverged: {HOSTILE}", cause=Cause.FINDING)
            study.tell(trial)
        elif number == 5:
            study.tell(trial, failed="no data")
        else:
            study.tell(trial, float(4 - number))
    study.confirm(judged(study.objective, {3: [1.0, 1.1, 0.9], 2: [2.0, 2.1, 1.9]}))
    return study


def test_a_report_has_the_verdict_the_charts_and_all_trials() -> None:
    page = study_document(overview_of(filled(), "digits"), made_unix=0.0)

    assert "Trial 3 is the best of 6: loss 1 with lr=" in page
    assert re.findall(r'<h2 id="([\w-]+)-title">', page) == [
        "confirmation", "so-far", "slices", "trials", "search"]
    assert "Trial 3 is better than trial 2: by 1" in page
    assert page.count('<th scope="row">★ 3</th>') == 1
    assert len(re.findall(r"<title>trial 0 finished: loss 4</title>", page)) == 4, "by trial, by time, two slices"
    assert "<td>no data</td>" in page


@pytest.mark.parametrize("values", [(), (1.0,)])
def test_repetitions_without_an_interval_are_shown_with_their_failures(values: tuple[float, ...]) -> None:
    study = filled()
    study.confirm(judged(study.objective, {3: values, 2: ()}, {3: ["no memory"], 2: ["no memory"]}))
    page = study_document(overview_of(study, "digits"), made_unix=0.0)
    mean = "1" if values else ""
    assert f'<td>{"1, " if values else ""}no memory</td><td class="number">{mean}</td>' in page


def test_ten_finished_trials_have_importance() -> None:
    study = Study.create(None, {"lr": "1e-4..1:log"}, strategy="random", seed=1, minimize="loss", trials=10)
    for number in range(10):
        assert '"importance-title"' not in study_document(overview_of(study, "digits"), made_unix=0.0)
        study.tell(study.ask(), float(number))
    assert '"importance-title"' in study_document(overview_of(study, "digits"), made_unix=0.0)


def test_the_line_of_the_best_goes_down_and_then_on_to_the_last_trial() -> None:
    page = study_document(overview_of(filled(), "digits"), made_unix=0.0)
    path = re.search(r'<path d="(M[^"]+)" class="line s2"/>', page)
    assert path is not None
    points = [tuple(map(float, part.split())) for part in re.split("[ML]", path[1]) if part]

    # The axes of a chart: 54 to 410 for trials 0 to 5, and 12 to 188 for values 4 to 1.
    assert points[0] == (54.0, 12.0)
    assert points[-1] == (410.0, 188.0)
    assert points[-2] == (pytest.approx(54 + 3 / 5 * 356, abs=0.1), 188.0)


def test_nothing_in_it_is_markup_that_a_name_brought() -> None:
    found = overview_of(filled(objective=HOSTILE), HOSTILE)

    for page in (study_document(found, made_unix=0.0), study_fragment(found)):
        assert "<img" not in page
        assert "&lt;img src=x" in page


def test_a_study_without_values_has_no_empty_charts() -> None:
    study = Study.create(None, {"lr": (0.0, 1.0)}, strategy="random", seed=1, minimize="loss")
    page = study_document(overview_of(study, "empty"), made_unix=0.0)
    assert "No trial has started yet." in page
    assert "<svg" not in page
    study.tell(study.ask(), failed="no data")
    page = study_document(overview_of(study, "empty"), made_unix=0.0)
    assert "<svg" not in page
    assert "<td>no data</td>" in page


def test_several_objectives_show_their_front() -> None:
    study = Study.create(None, {"x": [1, 2, 3]}, strategy="grid", maximize="accuracy", minimize="latency")
    for values in ((0.9, 5.0), (0.8, 2.0), (0.7, 3.0)):
        study.tell(study.ask(), values)
    page = study_document(overview_of(study, "front"), made_unix=0.0)

    assert "2 trials on the front: " in page
    assert page.count('class="dot s2"') - page.count("r=\"4\"") == 0
    assert math.isclose(page.count("latency by accuracy"), 3)


def test_a_study_is_found_by_its_name_and_by_its_place(tmp_path: Path) -> None:
    home = JobsHome(tmp_path / "home")
    filled(tmp_path / "digits")
    StudyHome(home).add("mine", f"file://{tmp_path}/digits")

    assert [study is not None and len(study.trials) for study in (
        study_at("mine", home), study_at(str(tmp_path / "digits"), home))] == [6, 6]
    assert study_at("other", home) is None
    assert study_at(str(tmp_path), home) is None
