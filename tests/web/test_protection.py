"""Other web sites and people without a token are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.web.app import application
from barograph.web.server import hosts_of
from web_client import Client


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost", "LOCALHOST:1", "[::1]:8642"])
def test_this_machine_may_ask_under_its_own_names(client: Any, host: str) -> None:
    assert client.get("/api/runs", {"host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]:8642"])
def test_a_foreign_host_is_refused(client: Any, host: str) -> None:
    answer = client.get("/api/runs", {"host": host})

    assert answer.status == 403
    assert b"first" not in answer.body


def test_writing_from_another_origin_is_refused(client: Any) -> None:
    assert client.get("/api/runs", {"origin": "http://evil.example"}, method="POST").status == 403
    assert client.get("/api/runs", {"origin": "http://127.0.0.1:8642"}, method="POST").status == 405


@pytest.fixture
def guarded(root: Path) -> Client:
    return Client(application([str(root)], hosts=hosts_of("0.0.0.0"), token="a-secret"))


def test_without_the_token_nothing_is_told(guarded: Client) -> None:
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "barograph-token=wrong"}):
        answer = guarded.get("/api/runs", headers)
        assert answer.status == 403
        assert b"first" not in answer.body


def test_the_token_is_taken_from_the_header_and_from_the_cookie(guarded: Client) -> None:
    assert guarded.get("/api/runs", {"authorization": "Bearer a-secret"}).status == 200
    assert guarded.get("/api/runs", {"cookie": "barograph-token=a-secret"}).status == 200
    assert guarded.get("/api/runs", {"cookie": "barograph-token=a-secret", "host": "any.example"}).status == 200


def test_the_token_in_a_link_becomes_a_cookie_and_leaves_the_address(guarded: Client) -> None:
    answer = guarded.get("/?token=a-secret")

    assert (answer.status, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
