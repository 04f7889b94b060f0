"""Access tokens for readers and writers."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from barograph.errors import SettingsError

_LEAST_CHARS = 8


class Role(StrEnum):
    """Permissions of a token."""

    READER = "reader"
    WRITER = "writer"
    """Also edit names, notes and tags, and delete."""


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that gives access.

    Attributes:
        secret: The secret.
        role: Its permissions.
        name: Author of the edits made with it; "": the user who runs the server.
    """

    secret: str
    role: Role = Role.WRITER
    name: str = ""

    @property
    def may_write(self) -> bool:
        """Whether it allows edits."""
        return self.role is Role.WRITER


ANYBODY = Token("")
"""Stands for a visitor of a server without tokens."""


class Tokens:
    """The tokens of a server.

    Args:
        tokens: All of them; none: everybody may read and edit.
    """

    def __init__(self, tokens: Sequence[Token] = ()) -> None:
        self._tokens = tuple(tokens)
        digest = hashlib.sha256("\n".join(sorted(token.secret for token in tokens)).encode()).hexdigest()
        # Two servers on one machine share their cookies, whatever their ports.
        self.cookie = f"barograph-token-{digest[:8]}"

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def of(self, secret: str) -> Token | None:
        """Return the token with a secret; None if there is none."""
        if not self._tokens:
            return ANYBODY
        # All are compared, so that the time tells nothing.
        found = [token for token in self._tokens if secrets.compare_digest(token.secret.encode(), secret.encode())]
        return found[0] if found else None


def new_tokens() -> tuple[Token, Token]:
    """Return a new token for writers, and one for readers."""
    return Token(secrets.token_urlsafe(24)), Token(secrets.token_urlsafe(24), Role.READER)


def tokens_from_file(path: Path) -> list[Token]:
    """Return the tokens of a file. Each line has a role, a name and a token, separated by spaces; `#` begins a comment.

    Raises:
        SettingsError: The file cannot be read, or a line is invalid.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Cannot read the tokens: {getattr(error, 'strerror', '') or error} ({path}).") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or words[0] not in tuple(Role):
            raise SettingsError(f"Line {number} is no token. Write a role, a name and a token, such as "
                                f"`writer ann TOKEN` or `reader bob TOKEN` ({path}).")
        found.append(Token(checked_secret(words[2]), Role(words[0]), words[1]))
    if not found:
        raise SettingsError(f"The file has no tokens ({path}).")
    return found


def checked_secret(secret: str) -> str:
    """Return a secret that is long enough.

    Raises:
        SettingsError: It is too short.
    """
    if len(secret) < _LEAST_CHARS:
        raise SettingsError(f"A token has {len(secret)} characters; use at least {_LEAST_CHARS}, better 32 random "
                            "ones.")
    return secret
