"""Secrets in the URLs of recipients: read from the environment or a file on use, and never shown.

In a URL, `$NAME` and `${NAME}` are replaced by an environment variable, and `${file:PATH}` by the contents of a file.
Each stands for one part (a password, a token) and is percent-encoded. A URL that consists of one reference is used
unchanged.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit

from barograph.errors import SettingsError

_REFERENCE = re.compile(r"\$(?:\{file:(?P<file>[^}]+)\}|\{(?P<braced>\w+)\}|(?P<plain>[A-Za-z_]\w*))")
_WHOLE_FILE = re.compile(r"file:(?!//)(?P<file>.+)", re.DOTALL)
_SAYS_SECRET = re.compile(r"pass|pwd|secret|token|key|sig|auth|credential", re.IGNORECASE)
_LONG_CHARS = 16
_HIDDEN = "***"
_SHORTEST = 3
"""Shorter secrets are not masked in texts, because they would match everywhere."""

HOW_TO_WRITE = ("Write it as $NAME and set NAME in the environment, or as ${file:PATH} with the secret in a file. "
                "The whole URL can be $NAME or file:PATH, too.")


class Secret:
    """A text with its references replaced.

    Attributes:
        text: Text with the secrets. Never show it.
        references: Whether it had references.
    """

    def __init__(self, text: str, values: Iterable[str]) -> None:
        self.text = text
        given = [value for value in values if len(value) >= _SHORTEST]
        self.references = bool(given)
        forms = {form for value in given for form in (value, quote(value, safe=""), quote_plus(value), unquote(value))}
        # The longest first, so that no part of one remains.
        self._hidden = sorted({*forms, *_inner(text), *_as_sent(text, given)}, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Secret(…)"

    def hide(self, text: str) -> str:
        """Return the text without the secrets and the parts that contain them.

        Example:
            >>> filled("https://me:$PASSWORD@ops.example", {"PASSWORD": "hunter2"}).hide("401 for me:hunter2")
            '401 for ***'
        """
        for value in self._hidden:
            text = text.replace(value, _HIDDEN)
        return text


def filled(template: str, environment: Mapping[str, str] | None = None) -> Secret:
    """Return the template with its references replaced.

    Args:
        template: Text from the user.
        environment: None: this process's.

    Raises:
        SettingsError: A variable is not set or empty, or a file cannot be read or is empty; the message names it.
    """
    known = os.environ if environment is None else environment
    whole = _WHOLE_FILE.fullmatch(template)
    if whole:
        value = _from_file(whole["file"])
        return Secret(value, [value])
    alone = _REFERENCE.fullmatch(template)
    if alone:
        value = _value_of(alone, known)
        return Secret(value, [value])
    values: list[str] = []

    def fill(match: re.Match[str]) -> str:
        values.append(_value_of(match, known))
        return quote(values[-1], safe="")

    return Secret(_REFERENCE.sub(fill, template), values)


def has_reference(template: str) -> bool:
    """Return whether the template refers to the environment or a file."""
    return bool(_WHOLE_FILE.fullmatch(template) or _REFERENCE.search(template))


def check_no_inline_secret(template: str, name: str) -> None:
    """Reject a URL that seems to contain a secret, which the settings file, the shell's history and the process list
    would expose.

    Args:
        template: URL from the user.
        name: Name of the URL in the message, which does not contain the URL.

    Raises:
        SettingsError: The URL has a password, a parameter named like a secret, or a long part of letters and digits; or
            it is not a URL.
    """
    if _WHOLE_FILE.fullmatch(template):
        return
    # References are not part of this text.
    parts = _split(_REFERENCE.sub("", template).replace("#", "%23"), name)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if password:
        raise _inline(name, "a password")
    for parameter, value in parse_qsl(parts.query):
        if _SAYS_SECRET.search(parameter) and value:
            raise _inline(name, f'the parameter "{parameter}"')
        if _looks_random(value):
            raise _inline(name, f'a possible secret in the parameter "{parameter}"')
    host = parts.netloc.rpartition("@")[2]
    for part in (user, *([] if "." in host else [host]), *parts.path.split("/")):
        if _looks_random(unquote(part)):
            raise _inline(name, f"a possible secret, {len(part)} letters and digits")


def _split(url: str, name: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise SettingsError(f"{name} is not a URL: {error}.") from None


def _inline(name: str, what: str) -> SettingsError:
    return SettingsError(f"{name}: the URL contains {what} in plain text. {HOW_TO_WRITE}")


def _looks_random(text: str) -> bool:
    words = re.findall(rf"[A-Za-z0-9_-]{{{_LONG_CHARS},}}", text)
    return any(re.search(r"\d", word) and re.search(r"[A-Za-z]", word) for word in words)


def _inner(text: str) -> set[str]:
    """Return the secret parts of a URL: user and path; the service's name and the host are not secret."""
    parts = _split(text, "The recipient")
    user_and_password = parts.netloc.rpartition("@")[0]
    password = user_and_password.partition(":")[2]
    found = {text, user_and_password, password, unquote(password), parts.query}
    if len(parts.path) > _LONG_CHARS:
        found.add(parts.path)
    found |= {value for name, value in parse_qsl(parts.query)
              if _SAYS_SECRET.search(name) or "@" in value or len(value) >= _LONG_CHARS}
    return {item for item in found if len(item) >= _SHORTEST}


def _as_sent(text: str, values: Iterable[str]) -> set[str]:
    """Return the encodings of secrets that a server may repeat in an error: they are readable in base64, too."""
    name = _split(text, "The recipient").netloc.rpartition("@")[0]
    user, _, password = (unquote(part) for part in name.partition(":"))
    forms = {*values, *((password, f"{user}:{password}", f"\0{user}\0{password}") if password else ())}
    return {base64.b64encode(item.encode()).decode() for item in forms if len(item) >= _SHORTEST}


def _value_of(match: re.Match[str], environment: Mapping[str, str]) -> str:
    if match["file"]:
        return _from_file(match["file"])
    name = match["braced"] or match["plain"]
    value = environment.get(name, "")
    if not value:
        what = "empty" if name in environment else "not set"
        raise SettingsError(f"The environment variable ${name}, used in a notify URL, is {what}.")
    return value


def _from_file(path: str) -> str:
    try:
        value = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SettingsError(f"Cannot read the file used in a notify URL: {why} ({path}).") from None
    if not value:
        raise SettingsError(f"The file used in a notify URL is empty ({path}).")
    return value
