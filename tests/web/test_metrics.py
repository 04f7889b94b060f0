"""Figures for Prometheus: runs, findings, requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barograph.model.finding import Severity
from barograph.runs.state.findings import write_event
from barograph.web.app import application
from barograph.web.tokens import Role, Token
from diary import finding_of
from web_client import Client, recorded


def figures(text: str) -> dict[tuple[str, ...], float]:
    return {(sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "root")): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


def test_runs_findings_and_requests_are_counted(client: Client, root: Path) -> None:
    client.post("/api/edit", {"run": "0/first", "changes": {"archived": True}})
    client.get("/api/now")
    client.get("/api/now", {"host": "evil.example"})
    for path in ("/invented/1", "/invented/2"):
        client.get(path)

    found = figures(client.get("/metrics").body.decode())

    assert found["barograph_runs", "finished"] == 1
    assert found["barograph_root_readable",] == 1
    counted = [("/api/now", "200"), ("/api/now", "403"), ("other", "404")]
    assert [found["barograph_requests_total", *labels] for labels in counted] == [1, 1, 2]
    assert found["barograph_request_seconds_count", "/api/now"] == 2
    assert not any("invented" in part for name in found for part in name)


def test_open_findings_are_counted_by_severity(client: Client, root: Path) -> None:
    write_event(recorded(root / "sick", [1.0]).store, finding_of(Severity.BREAKING))

    assert figures(client.get("/metrics").body.decode())["barograph_open_findings", "breaking"] == 1


def test_the_figures_need_the_token_of_a_reader(root: Path) -> None:
    client = Client(application([str(root)], hosts=[], tokens=[Token("a-reader", Role.READER)]))

    assert client.get("/metrics").status == 401
    assert client.get("/metrics", {"authorization": "Bearer a-reader"}).status == 200


def test_a_root_that_cannot_be_read_is_a_figure_and_no_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_CATALOG", "postgresql+psycopg://nobody@127.0.0.1:9/none")
    client = Client(application([str(root)], hosts=["127.0.0.1"]))

    assert figures(client.get("/metrics").body.decode())["barograph_root_readable",] == 0
    runs = client.get("/api/now").json
    assert "Cannot use the catalog" in runs["indexing"][0]["failure"]
    answer = client.get("/api/marks?run=0/first")
    assert (answer.status, answer.json["type"]) == (503, "CatalogUnavailable")
