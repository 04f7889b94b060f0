"""What is damaged, newer or somewhere else is named, and everything else is drawn."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.metadata import sealed, unsealed
from barograph.web.app import application
from web_client import Client


def test_a_run_of_a_newer_barograph_is_named_and_the_others_are_shown(client: Client, root: Path) -> None:
    path = root / "first" / MANIFEST
    path.write_bytes(sealed({**unsealed(path.read_bytes(), MANIFEST), "format": 99}))

    answer = client.get("/api/run?run=0/first")
    found = client.get("/api/now").json

    assert (answer.status, answer.json["type"]) == (501, "NewerFormat"), answer.json
    assert [run["key"] for run in found["runs"]] == ["0/group/second"]
    (problem,) = found["indexing"][0]["problems"]
    assert "newer" in problem
    assert "first" in problem
    assert client.get("/api/run?run=0/group/second").status == 200


def test_a_damaged_chunk_is_named_and_the_rest_of_the_run_is_drawn(client: Client, root: Path) -> None:
    chunk = next(path for path in sorted((root / "first").rglob("*")) if path.suffix == ".parquet")
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 0xFF
    chunk.write_bytes(bytes(data))

    run = client.get("/api/run?run=0/first")
    together = client.get("/api/curves?run=0/group/second&name=loss")

    assert run.status == 200
    assert "damaged" in json.dumps(run.json)
    assert together.status == 200
    assert client.get("/api/marks?run=0/first").status == 200


def as_served(client: Client, error: type[Exception]) -> Client:
    async def logging(*scope: Any) -> None:
        with contextlib.suppress(error):  # the server logs it
            await client.app(*scope)

    return Client(logging)


def test_a_module_that_cannot_be_imported_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "barograph.experiments.run_groups", None)
    answer = as_served(client, ImportError).get("/api/search?group=16")

    assert answer.status == 500
    assert "barograph.experiments.run_groups" in answer.json["error"]


def test_a_defect_is_named_by_its_type_alone_under_the_usual_headers(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: Any, **named: Any) -> None:
        raise KeyError("s3://user:secret@host")
    monkeypatch.setattr("barograph.web.searching.usual_columns", failing)
    answer, healthy = (as_served(client, KeyError).get(url) for url in ("/api/search", "/api/roots"))

    assert answer.status == 500
    assert "KeyError" in answer.json["error"]
    assert "secret" not in answer.json["error"]
    assert set(healthy.headers) <= set(answer.headers)
    assert answer.headers["content-security-policy"] == healthy.headers["content-security-policy"]


def test_two_studios_on_one_place_see_each_others_edits(client: Client, root: Path) -> None:
    other = Client(application([str(root)], hosts=["127.0.0.1"]))
    seen = other.get("/api/marks?run=0/first").json["version"]
    client.post("/api/edit", {"run": "0/first", "changes": {"name": "best"}})

    assert other.get("/api/marks?run=0/first").json["name"] == "best"
    late = other.post("/api/edit", {"run": "0/first", "changes": {"name": "mine"}, "version": seen})
    assert late.status == 409
