"""Secrets in what says whom to tell: taken from the environment or a file when they are needed, and shown to nobody.

In a URL, `$NAME` and `${NAME}` stand for what the environment holds and `${file:PATH}` for what a file holds; each
for one part (a password, a token), which is quoted as a URL wants it. A URL that is nothing but one of these
is taken whole, as it is there.
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

HOW_TO_WRITE = ("write it as $NAME and set NAME in the environment, or as ${file:PATH} with the secret in a file; "
                "or give the whole URL so: $NAME, or file:PATH")


class Secret:
    """A text whose secrets were filled in.

    Attributes:
        text: With the secrets. Not to be shown.
        references: Whether anything was filled in.
    """

    def __init__(self, text: str, values: Iterable[str]) -> None:
        self.text = text
        given = [value for value in values if len(value) >= _SHORTEST]
        self.references = bool(given)
        forms = {form for value in given for form in (value, quote(value, safe=""), quote_plus(value), unquote(value))}
        # The longest first, so that no rest of one is left standing.
        self._hidden = sorted({*forms, *_inner(text), *_as_sent(text, given)}, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Secret(…)"

    def hide(self, text: str) -> str:
        """Return the text without the secrets, nor the whole of what they are part of.

        Example:
            >>> filled("https://me:$PASSWORD@ops.example", {"PASSWORD": "hunter2"}).hide("401 for me:hunter2")
            '401 for ***'
        """
        for value in self._hidden:
            text = text.replace(value, _HIDDEN)
        return text


def filled(template: str, environment: Mapping[str, str] | None = None) -> Secret:
    """Return the template with the environment's and the files' values in place of its references.

    Args:
        template: As the user wrote it.
        environment: None: that of this process.

    Raises:
        SettingsError: A variable is not set or empty, or a file cannot be read or is empty; it is named.
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
    """Return whether anything of the template comes from the environment or a file."""
    return bool(_WHOLE_FILE.fullmatch(template) or _REFERENCE.search(template))


def check_no_inline_secret(template: str, name: str) -> None:
    """Refuse a URL that holds what looks like a secret itself: it would stand in the settings' file, in the shell's
    history and in the list of processes.

    Args:
        template: A URL, as the user wrote it.
        name: What it is called in the message, which does not hold the URL.

    Raises:
        SettingsError: A password, a parameter that is called like a secret, or a long part of letters and digits; or it
            is no URL.
    """
    if _WHOLE_FILE.fullmatch(template):
        return
    # What comes from elsewhere is no part of this text: it is taken out first.
    parts = _split(_REFERENCE.sub("", template).replace("#", "%23"), name)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    if password:
        raise _inline(name, "a password")
    for parameter, value in parse_qsl(parts.query):
        if _SAYS_SECRET.search(parameter) and value:
            raise _inline(name, f'the parameter "{parameter}"')
        if _looks_random(value):
            raise _inline(name, f'what looks like a secret, the parameter "{parameter}"')
    host = parts.netloc.rpartition("@")[2]
    for part in (user, *([] if "." in host else [host]), *parts.path.split("/")):
        if _looks_random(unquote(part)):
            raise _inline(name, f"what looks like a secret, a part of {len(part)} letters and digits")


def _split(url: str, name: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise SettingsError(f"{name} is no URL: {error}.") from None


def _inline(name: str, what: str) -> SettingsError:
    return SettingsError(f"{name} holds {what} in the settings themselves; {HOW_TO_WRITE}.")


def _looks_random(text: str) -> bool:
    words = re.findall(rf"[A-Za-z0-9_-]{{{_LONG_CHARS},}}", text)
    return any(re.search(r"\d", word) and re.search(r"[A-Za-z]", word) for word in words)


def _inner(text: str) -> set[str]:
    """Return what of a URL tells where it leads and as whom; the service's name and the host are no secret."""
    parts = _split(text, "What says whom to notify")
    user_and_password = parts.netloc.rpartition("@")[0]
    password = user_and_password.partition(":")[2]
    found = {text, user_and_password, password, unquote(password), parts.query}
    if len(parts.path) > _LONG_CHARS:
        found.add(parts.path)
    found |= {value for name, value in parse_qsl(parts.query)
              if _SAYS_SECRET.search(name) or "@" in value or len(value) >= _LONG_CHARS}
    return {item for item in found if len(item) >= _SHORTEST}


def _as_sent(text: str, values: Iterable[str]) -> set[str]:
    """Return what a login makes of secrets on the way, which a server may repeat where it refuses: they are no less
    readable in base64."""
    name = _split(text, "What says whom to notify").netloc.rpartition("@")[0]
    user, _, password = (unquote(part) for part in name.partition(":"))
    said = {*values, *((password, f"{user}:{password}", f"\0{user}\0{password}") if password else ())}
    return {base64.b64encode(item.encode()).decode() for item in said if len(item) >= _SHORTEST}


def _value_of(match: re.Match[str], environment: Mapping[str, str]) -> str:
    if match["file"]:
        return _from_file(match["file"])
    name = match["braced"] or match["plain"]
    value = environment.get(name, "")
    if not value:
        what = "empty" if name in environment else "not set"
        raise SettingsError(f"${name}, which says whom to notify, is {what} in the environment.")
    return value


def _from_file(path: str) -> str:
    try:
        value = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"The file that says whom to notify cannot be read: {why} ({path}).") from None
    if not value:
        raise SettingsError(f"The file that says whom to notify is empty ({path}).")
    return value
