"""Files of a run are listed, shown and downloaded, and never become a page or a path."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from barograph.experiments.artifacts import artifact_from_bytes, place_of
from barograph.experiments.handle import catalog_at
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from web_client import Client

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='parent.hacked=1'/>"
HTML = b"<script>parent.hacked=1</script>"
HOSTILE = '../../"><img src=x onerror=hacked>'


@pytest.fixture
def log(client: Client, root: Path) -> Any:
    catalog = catalog_at(str(root))
    uid = client.get("/api/marks?run=0/first").json["uid"]

    def log(name: str, data: bytes, media_type: str = "", *, role: Verb = Verb.OUTPUT, **said: Any) -> None:
        link = artifact_from_bytes(store_from_url(str(root)), data, name, media_type)
        catalog.tell([Entry(uid, role, {**asdict(link), **said})])

    return log


def content(client: Client, name: str, view: str = "", role: str = "output") -> Any:
    return client.get(f"/api/file?run=0/first&role={role}&name={quote(name)}&view={view}")


def test_files_are_listed_with_sizes_and_downloaded_byte_for_byte(client: Client, log: Any) -> None:
    log("model/weights.bin", bytes(range(256)) * 100)
    log("data.csv", b"a,b\n", role=Verb.INPUT)

    found = client.get("/api/files?run=0/first").json
    assert [(file["role"], file["name"], file["size_bytes"], file["kept"]) for file in found] == [
        ("output", "model/weights.bin", 25600, True), ("input", "data.csv", 4, True)]
    answer = content(client, "model/weights.bin")
    assert answer.body == bytes(range(256)) * 100
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''weights.bin"


@pytest.mark.parametrize(("name", "data", "kind"), [
    ("x.svg", SVG, "image/svg+xml"), ("x.html", HTML, "text/html"), ("x.png", HTML, "image/png"),
    (HOSTILE, SVG, "text/html"),
])
def test_what_a_browser_would_run_is_a_sandboxed_attachment(
    client: Client, log: Any, name: str, data: bytes, kind: str
) -> None:
    log(name, data, kind)
    answer = content(client, name)

    assert (answer.status, answer.body) == (200, data)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert '"' not in answer.headers["content-disposition"]
    assert "/" not in answer.headers["content-disposition"].partition(";")[2]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    refused = content(client, name, "picture")
    assert (refused.status, "not an image" in refused.json["error"]) == (400, True)


def test_pictures_and_texts_are_previewed(client: Client, log: Any) -> None:
    log("picture", PNG)
    log("text", "ä".encode() * 40_000)
    log("binary", b"\xff\xfe\0\1")

    picture = content(client, "picture", "picture")
    assert (picture.headers["content-type"], picture.body) == ("image/png", PNG)
    assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox"
    text = content(client, "text", "text").json
    assert (text["text"], text["more"]) == ("ä" * 32_768, True)
    assert content(client, "binary", "text").json == {"text": None, "more": False}


def test_a_file_outside_of_what_is_served_is_named_and_not_opened(client: Client, log: Any, tmp_path: Path) -> None:
    outside, inside = tmp_path / "secret", tmp_path / "runs" / "given.txt"
    outside.write_text("secret")
    inside.write_text("given")
    (tmp_path / "runs" / "link").symlink_to(outside)
    for name, uri in {"out": outside.as_uri(), "link": (tmp_path / "runs" / "link").as_uri(),
                      "dots": f"file://{tmp_path}/runs/../secret", "encoded": f"file://{tmp_path}/runs/%2e%2e/secret",
                      "digest": "artifact:sha256:../../../../secret", "bucket": "s3://other/secret"}.items():
        log(name, b"secret", uri=uri)
    log("in", b"given", uri=inside.as_uri())

    assert {file["name"] for file in client.get("/api/files?run=0/first").json if file["kept"]} == {"in"}
    for name in ("out", "link", "dots", "encoded", "digest", "bucket"):
        answer = content(client, name)
        assert (answer.status, "is not stored with the runs" in answer.json["error"]) == (400, True)
    assert content(client, "in").body == b"given"


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "/assets/..%2f..%2fsecret", "/api/file/../../secret",
                                  "/..%5csecret", "//etc/passwd"])
def test_no_path_leads_out_of_the_page(client: Client, path: str) -> None:
    answer = client.get(path)

    assert (answer.status, b"secret" in answer.body) == (404, False)


def test_a_file_that_is_gone_is_named(client: Client, log: Any, root: Path) -> None:
    log("model", b"weights")
    digest = client.get("/api/files?run=0/first").json[0]["digest"]
    (root / place_of(digest)).unlink()

    answer = content(client, "model")

    assert (answer.status, answer.json["type"]) == (404, "ObjectNotFound")
    assert content(client, "other").status == 404
    assert content(client, "model", role="owner").status == 404
