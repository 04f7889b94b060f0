"""The page with a catalog on a PostgreSQL server, which several machines share."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine

from barograph.experiments.database import CATALOG_VARIABLE
from barograph.experiments.handle import catalog_at
from barograph.web.app import application
from web_client import Client


@pytest.fixture
def shared(root: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    engine = create_engine(postgresql)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    engine.dispose()
    monkeypatch.setenv(CATALOG_VARIABLE, postgresql)
    return Client(application([str(root)], hosts=["127.0.0.1"]))


def test_runs_are_searched_edited_deleted_and_restored(shared: Client, root: Path) -> None:
    edited = shared.post("/api/edit", {"run": "0/first", "changes": {"name": "best", "note": "good", "starred": True}})
    shared.post("/api/delete", {"run": "0/group/second"})

    assert edited.json["notes"][0]["text"] == "good"
    assert [run["name"] for run in shared.get("/api/now").json["runs"]] == ["best"]
    assert shared.get("/api/search?q=starred").json["count"] == 1
    assert [item["name"] for item in shared.get("/api/deleted").json["items"]] == ["second"]
    shared.post("/api/restore", {"run": "0/group/second"})
    assert shared.get("/api/search").json["count"] == 2
    assert 'state="finished"} 2.0' in shared.get("/metrics").body.decode()
    assert shared.get("/api/lineage?run=0/first").status == 200
    assert shared.get("/api/differences?run=0/first&run=0/group/second").status == 200
    assert "postgresql" in catalog_at(str(root)).shown
    catalog_at(str(root)).close()
