"""Secrets come from the environment or a file, and are seen by nobody."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from barograph.errors import SettingsError
from barograph.watch.secrets import check_no_inline_secret, filled, has_reference

ENVIRONMENT = {"PASSWORD": "p@ss/word?", "URL": "slack://T1/B2/secret", "EMPTY": ""}


def test_a_variable_stands_for_one_part_and_is_quoted_as_a_url_wants_it() -> None:
    assert filled("mailto://me:$PASSWORD@host", ENVIRONMENT).text == "mailto://me:p%40ss%2Fword%3F@host"
    assert filled("mailto://me:${PASSWORD}@host", ENVIRONMENT).text == "mailto://me:p%40ss%2Fword%3F@host"


def test_a_variable_alone_is_the_whole_url() -> None:
    assert filled("$URL", ENVIRONMENT).text == filled("${URL}", ENVIRONMENT).text == "slack://T1/B2/secret"


def test_a_file_holds_one_part_or_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "my secret"
    path.write_text("hunter2\n")

    assert filled(f"mailto://me:${{file:{path}}}@host", {}).text == "mailto://me:hunter2@host"
    assert filled(f"file:{path}", {}).text == "hunter2"


@pytest.mark.parametrize(("template", "message"), [
    ("$NOPE", r"\$NOPE, used in a notify URL, is not set"),
    ("mailto://me:$EMPTY@host", "EMPTY.* is empty"),
    ("file:nowhere", r"notify URL: No such file or directory \(nowhere\)"),
    ("json://${file:nowhere}", "Cannot read the file"),
])
def test_what_is_missing_is_named(template: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        filled(template, ENVIRONMENT)


def test_an_empty_file_and_one_that_is_not_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")

    for name, message in (("empty", "is empty"), ("binary", "not text")):
        with pytest.raises(SettingsError, match=message):
            filled(f"file:{tmp_path / name}", {})


def test_a_secret_is_hidden_in_every_form_it_takes() -> None:
    secret = filled("mailto://me:$PASSWORD@host/path?token=abc123", ENVIRONMENT)
    said = "p@ss/word? p%40ss%2Fword%3F me:p%40ss%2Fword%3F abc123 mailto://me:p%40ss%2Fword%3F@host/path?token=abc123"

    hidden = secret.hide(said)

    assert not any(word in hidden for word in ("p@ss", "p%40", "abc123"))
    assert "p@ss" not in repr(secret)


def test_what_a_login_makes_of_a_password_is_hidden_too() -> None:
    secret = filled("mailto://me:$PASSWORD@host", ENVIRONMENT)
    logins = [base64.b64encode(said).decode() for said in (b"p@ss/word?", b"me:p@ss/word?", b"\0me\0p@ss/word?")]

    assert [secret.hide(f"535 you said AUTH {login}") for login in logins] == ["535 you said AUTH ***"] * 3


def test_a_secret_that_is_part_of_another_leaves_no_rest() -> None:
    secret = filled("json://$A/$B", {"A": "abc", "B": "abcdef"})

    assert "def" not in secret.hide("abcdef")


def test_what_is_no_secret_is_shown() -> None:
    assert filled("https://example.org/hook", {}).hide("example.org: connection refused") == \
        "example.org: connection refused"


@pytest.mark.parametrize("template", [
    "mailto://me:hunter2@host", "https://host/hook?token=x", "https://host/hook?api_key=x",
    "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "https://host/services/9f86d081884c7d659a2feaa0c55ad015",
    "tgram://123456789:AAFgd5ThisIsTheToken0/1", "https://host/?x=9f86d081884c7d659a2f", "mailto://me:a$PASSWORD@host",
])
def test_a_url_that_contains_a_secret_is_rejected_and_not_repeated(template: str) -> None:
    with pytest.raises(SettingsError, match=r"in plain text. Write it as \$NAME") as refusal:
        check_no_inline_secret(template, "notify 1")
    assert "hunter2" not in str(refusal.value)
    assert "TIiaj" not in str(refusal.value)


@pytest.mark.parametrize("template", [
    "mailto://me:$PASSWORD@host", "https://host/hook?token=$TOKEN", "slack://$A/$B/${C}/#channel", "$URL",
    "file:run/secrets/9f86d081884c7d659a2feaa0c55ad015", "https://hooks.example.org/barograph", "dbus://",
    "json://localhost:8080/findings", "https://host/${file:run/secrets/9f86d081884c7d65}", "mailto://localhost?to=me@x.org",
])
def test_a_url_without_one_passes(template: str) -> None:
    check_no_inline_secret(template, "notify 1")


def test_what_comes_from_elsewhere_is_known() -> None:
    assert [has_reference(text) for text in ("$URL", "a://${B}", "file:x", "a://${file:x}", "a://b", "file://x")] == \
        [True, True, True, True, False, False]
