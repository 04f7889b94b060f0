"""The section of the report on the inside of the model."""

from __future__ import annotations

import secrets

from barograph.model.clock import ManualClock
from barograph.report.page import page_of
from barograph.report.reading import report_of
from probed import probed


def test_the_report_shows_learning_curves_and_the_latent_space():
    run = probed(f"memory://{secrets.token_hex(8)}").ended()
    report = report_of(run, clock=ManualClock())
    page = str(page_of(report))

    assert "Inside the model" in page
    assert "Learning curves: not enough data." in page
    assert "7 samples of the evaluation data by the 4 features of “input of fc”" in page
    assert page.count('class="point s') == 3 * 7
    data = report.to_json()
    assert [frame["step"] for frame in data["latent"]["frames"]] == [1, 2, 3]
    assert data["learning_curves"]["diagnosis"] == "not enough data"


def test_a_damaged_file_of_the_probe_is_named_and_the_rest_is_drawn():
    run = probed(f"memory://{secrets.token_hex(8)}").ended()
    for entry in run.store.list("tensors"):
        run.store.delete(entry.name)
    report = report_of(run, clock=ManualClock())

    assert report.latent is None
    assert any("is lost" in line for line in report.damage)
    assert "Learning curves" in str(page_of(report))


def test_a_regression_has_a_latent_space_without_classes():
    run = probed(f"memory://{secrets.token_hex(8)}", classes=False).ended()
    report = report_of(run, clock=ManualClock())

    assert report.latent is not None
    assert not report.latent.is_classes
    assert str(page_of(report)).count('class="point s0"') == 3 * 7
    assert report.to_json()["latent"]["targets"][-2:] == [5.0, None]
    assert report.to_json()["latent"]["frames"][0]["neighbor_accuracy"] is None
