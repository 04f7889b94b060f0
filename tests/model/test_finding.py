"""Findings cross processes as JSON, whole."""

from __future__ import annotations

import json
import math

from barograph.model.finding import Evidence, Finding, FindingState, Severity, finding_from_json
from barograph.model.key import Key, Kind
from barograph.model.step import Mode


def test_a_finding_comes_back_from_json_with_nan_and_infinities():
    finding = Finding(
        id="G101-r-3", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY, state=FindingState.OPEN,
        message="m", remedy="r", subject="", worker="r", optimizer="", mode=Mode.TRAIN, since_step=3, opened_step=5,
        last_step=9, closed_step=None, opened_unix=1.5,
        evidence=(
            Evidence(Key(Kind.GRADIENT, "a[b]:c"), 3, "mean_abs", math.inf, -math.inf, "text"),
            Evidence(None, 4, "share", math.nan, math.nan),
        ),
    )
    back = finding_from_json(json.loads(json.dumps(finding.to_json(), allow_nan=False)))
    assert repr(back) == repr(finding)
