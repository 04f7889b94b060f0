"""Layers and their health: "ok" is only said of what was recorded and judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Kind
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.queries.layers import LayerRow, health_of, layer_row, layer_rows
from barograph.runs.reading.layers import Layer, Trend
from barograph.runs.reading.reader import RunReader

Training = Any  # of watched.py


def finding(severity: Severity, state: FindingState = FindingState.OPEN) -> Finding:
    return Finding("id", "X901", "x", severity, state, "m", "r", (), "", "p0", "", Mode.TRAIN, 0, 0, 0, None, 0.0)


def layer(*findings: Finding, recorded: bool = True, judged: bool = True, nan: int = 0) -> LayerRow:
    figures = {Kind.WEIGHT: Summary(count=4, nan=nan)} if recorded else {}
    found = Layer("fc", "Linear", figures, dict.fromkeys(figures, 3), Trend((1, 3), (0.5, 0.25)), findings)
    return layer_row(found, judged=judged)


@pytest.mark.parametrize(
    ("row", "health"),
    [
        (layer(finding(Severity.BREAKING), finding(Severity.NOTE)), "breaking"),
        (layer(finding(Severity.COSTLY), judged=False), "costly"),
        (layer(finding(Severity.COSTLY, FindingState.CLOSED)), "ok"),
        (layer(), "ok"),
        (layer(judged=False), "not judged"),
        (layer(recorded=False), "not judged"),
    ],
)
def test_the_worst_open_finding_is_the_health_of_a_layer(row: LayerRow, health: str) -> None:
    assert row.health == health


def test_layers_are_counted_by_health() -> None:
    assert health_of([layer(finding(Severity.COSTLY)), layer(), layer(judged=False)]) == {"costly": 1, "ok": 2}


def test_a_layer_that_holds_nan_is_not_finite() -> None:
    assert (layer().health, layer(nan=1).health, layer(nan=1, judged=False).health) == (
        "ok", "not finite", "not finite")
    assert layer(finding(Severity.NOTE), nan=1).health == "note"
    assert health_of([layer(nan=1), layer()]) == {"not finite": 1, "ok": 1}


def test_json_has_figures_by_kind() -> None:
    data = layer(finding(Severity.NOTE)).to_json()

    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["path"], data["class"], data["health"], data["findings"]) == ("fc", "Linear", "note", ["id"])
    assert data["figures"]["weight"]["step"] == 3
    assert data["figures"]["weight"]["count"] == 4
    assert data["gradient_norms"] == {"steps": [1, 3], "values": [0.5, 0.25]}


def test_the_layers_of_a_run_are_read(training: Training) -> None:
    training.steps(2.0, 3.0)
    training.end()

    (fc,) = layer_rows(RunReader(training.store), judged=True)

    assert (fc.path, fc.layer, fc.health, fc.steps) == ("fc", "Linear", "ok", {Kind.WEIGHT: 1})
