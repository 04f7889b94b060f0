"""What `barograph studio` prints: links with tokens where they are new, and no token of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.inspect import studio_page
from barograph.errors import SettingsError
from barograph.web.server import Links, links_of
from barograph.web.tokens import Role, Token


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Token]]:
    """The tokens that the server gets."""
    given: list[Sequence[Token]] = []

    def serve(roots: Sequence[str], *, host: str, tokens: Sequence[Token], on_ready: Callable[[Links], object],
              **_: Any) -> None:
        given.append(tokens)
        on_ready(links_of(host, 8642, tokens))

    monkeypatch.setattr(studio_page, "serve", serve)
    monkeypatch.setattr("socket.gethostname", lambda: "devbox")
    return given


def show(root: Path, *, host: str = "0.0.0.0", tokens: Path | None = None, as_json: bool = False) -> None:
    studio_page.show_studio([str(root)], host=host, port=None, tokens=tokens, open_browser=False, as_json=as_json)


def test_links_with_the_tokens_of_the_environment_are_printed(
    tmp_path: Path, given: list[Sequence[Token]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BAROGRAPH_STUDIO_TOKEN", "write/secret")
    monkeypatch.setenv("BAROGRAPH_STUDIO_READER_TOKEN", "read-secret")
    show(tmp_path)

    assert capsys.readouterr().out.splitlines() == [
        "barograph: studio at http://127.0.0.1:8642/?token=write%2Fsecret (Ctrl-C ends it)",
        "barograph: read only at http://127.0.0.1:8642/?token=read-secret",
        "barograph: studio at http://devbox:8642/?token=write%2Fsecret from other machines",
        "barograph: read only at http://devbox:8642/?token=read-secret from other machines"]
    assert given[0] == [Token("write/secret", Role.WRITER), Token("read-secret", Role.READER)]


def test_the_links_are_also_json(
    tmp_path: Path, given: list[Sequence[Token]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BAROGRAPH_STUDIO_TOKEN", "write-secret")
    monkeypatch.setenv("BAROGRAPH_STUDIO_READER_TOKEN", "read-secret")
    show(tmp_path, as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "url": "http://127.0.0.1:8642/?token=write-secret", "reader_url": "http://127.0.0.1:8642/?token=read-secret",
        "network_url": "http://devbox:8642/?token=write-secret", "network_reader_url": "http://devbox:8642/?token=read-secret"}


@pytest.mark.parametrize(("host", "network"), [("127.0.0.1", None), ("devbox", "http://devbox:8642/")])
def test_the_address_for_other_machines_is_null_if_they_cannot_connect(
    host: str, network: str | None, tmp_path: Path, given: list[Sequence[Token]], capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, host=host, as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "url": f"http://{host}:8642/", "reader_url": None, "network_url": network, "network_reader_url": None}


def test_tokens_of_a_file_are_not_in_the_json(
    tmp_path: Path, given: list[Sequence[Token]], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.txt"
    file.write_text("writer ann ann-secret-1\n")
    show(tmp_path, tokens=file, as_json=True)

    assert json.loads(capsys.readouterr().out)["network_url"] == "http://devbox:8642/"


def test_tokens_of_a_file_are_not_printed(
    tmp_path: Path, given: list[Sequence[Token]], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "team.txt"
    file.write_text("writer ann ann-secret-1\n")
    show(tmp_path, tokens=file)

    printed = capsys.readouterr().out
    assert (given[0], "secret" in printed) == ([Token("ann-secret-1", Role.WRITER, "ann")], False)
    assert printed.splitlines() == [
        f"barograph: studio at http://127.0.0.1:8642/ for the tokens of {file} (Ctrl-C ends it)",
        f"barograph: studio at http://devbox:8642/ from other machines for the tokens of {file}"]


def test_an_address_that_others_can_open_is_the_only_one() -> None:
    assert links_of("10.0.0.7", 8642, []) == Links("http://10.0.0.7:8642/", "http://10.0.0.7:8642/")


def test_a_short_token_is_refused(tmp_path: Path, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_STUDIO_TOKEN", "1234")
    with pytest.raises(SettingsError, match="at least 8"):
        show(tmp_path)
