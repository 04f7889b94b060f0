"""Other web sites and people without a token are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.errors import SettingsError
from barograph.web.app import application
from barograph.web.server import hosts_of
from barograph.web.tokens import Role, Token, tokens_from_file
from web_client import Client


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost", "LOCALHOST:1", "[::1]:8642"])
def test_this_machine_may_ask_under_its_own_names(client: Any, host: str) -> None:
    assert client.get("/api/now", {"host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]:8642"])
def test_a_foreign_host_is_refused(client: Any, host: str) -> None:
    answer = client.get("/api/now", {"host": host})

    assert answer.status == 403
    assert b"first" not in answer.body


EDIT = {"run": "0/first", "changes": {"starred": True}}


@pytest.mark.parametrize("headers", [
    {"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8642"},
])
def test_edits_from_another_origin_are_refused(client: Any, headers: dict[str, str]) -> None:
    assert client.post("/api/edit", EDIT, headers).status == 403
    assert client.get("/api/marks?run=0/first").json["starred"] is False


@pytest.mark.parametrize("headers", [
    {}, {"origin": "http://127.0.0.1:8642"}, {"sec-fetch-site": "same-origin"},
    # A proxy may address the server by another name than the browser.
    {"origin": "https://runs.example", "x-forwarded-host": "runs.example"},
    {"origin": "https://runs.example", "sec-fetch-site": "same-origin"},
])
def test_edits_from_the_page_itself_are_accepted(client: Any, headers: dict[str, str]) -> None:
    assert client.post("/api/edit", EDIT, headers).status == 200
    assert client.get("/api/marks?run=0/first").json["starred"] is True


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_edits_that_are_no_json_are_refused(client: Any, kind: str) -> None:
    assert client.post("/api/edit", EDIT, {"content-type": kind}).status == 415
    assert client.get("/api/marks?run=0/first").json["starred"] is False


READ, WRITE = "read-secret", "write-secret"


@pytest.fixture
def guarded(root: Path) -> Client:
    tokens = [Token(WRITE, Role.WRITER, "ann"), Token(READ, Role.READER, "bob")]
    return Client(application([str(root)], hosts=hosts_of("0.0.0.0"), tokens=tokens))


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", ["/api/now", "/api/run?run=0/first", "/api/search", "/api/jobs", "/api/roots",
                                  "/api/marks?run=0/first", "/api/deleted"])
def test_without_the_token_nothing_is_told(guarded: Client, path: str) -> None:
    for headers in ({}, bearer("wrong"), {"cookie": "barograph-token=wrong"}):
        answer = guarded.get(path, headers)
        assert answer.status == 401
        assert "needs a token" in answer.json["error"]
    assert guarded.get(path, bearer(READ)).status == 200


def test_only_writers_edit_and_notes_have_their_names(guarded: Client) -> None:
    note = {"run": "0/first", "changes": {"note": "good"}}

    assert guarded.post("/api/edit", note).status == 401
    refused = guarded.post("/api/edit", note, bearer(READ))
    assert (refused.status, "read-only" in refused.json["error"]) == (403, True)
    assert guarded.get("/api/marks?run=0/first", bearer(READ)).json["may_edit"] is False

    assert guarded.post("/api/edit", note, bearer(WRITE)).json["notes"][0]["by"] == "ann"


def cookie_of(answer: Any) -> str:
    text = answer.headers["set-cookie"]
    assert "httponly" in text.lower()
    assert "samesite=strict" in text.lower()
    assert "path=" not in text.lower(), "below a proxy, other servers must not get it"
    return text.partition(";")[0]


def test_the_token_in_a_link_becomes_a_cookie_and_leaves_the_address(guarded: Client) -> None:
    answer = guarded.get(f"/?token={WRITE}")

    assert (answer.status, answer.headers["location"]) == (303, "./")
    assert guarded.get("/api/now", {"cookie": cookie_of(answer), "host": "any.example"}).status == 200
    wrong = guarded.get("/?token=wrong")
    assert (wrong.status, wrong.headers["location"], "set-cookie" in wrong.headers) == (303, "./", False)


def test_a_typed_token_becomes_a_cookie(guarded: Client) -> None:
    answer = guarded.post("/login", {"token": READ}, {"x-forwarded-proto": "https"})

    assert answer.status == 204
    assert "secure" in answer.headers["set-cookie"].lower()
    assert guarded.get("/api/now", {"cookie": cookie_of(answer)}).status == 200
    assert guarded.post("/login", {"token": "wrong"}).status == 401
    assert guarded.post("/login", {"token": READ}, {"origin": "http://evil.example"}).status == 403


def test_the_page_itself_needs_no_token_so_that_it_can_ask_for_one(guarded: Client) -> None:
    assert guarded.get("/").status == 200
    for path in ("/other", "/api", "/metrics", "/assets/../api/now", "/Login", "//"):
        assert guarded.get(path).status == 401, "everything else needs a token, also what does not exist"


def test_tokens_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# the team\nwriter ann ann-secret-1\n\nreader bob bob-secret-1  # until May\n")

    assert tokens_from_file(file) == [Token("ann-secret-1", Role.WRITER, "ann"),
                                      Token("bob-secret-1", Role.READER, "bob")]


@pytest.mark.parametrize(("text", "says"), [
    ("", "has no tokens"), ("owner ann ann-secret-1", "Line 1 is no token"), ("writer ann short", "at least 8"),
    ("\nwriter secret-of-ann", "Line 2 is no token"),
])
def test_a_wrong_file_of_tokens_is_refused_without_telling_the_tokens(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)

    with pytest.raises(SettingsError, match=says) as caught:
        tokens_from_file(file)
    assert "secret" not in str(caught.value)
