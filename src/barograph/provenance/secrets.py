"""Finds secrets in the origin of a run by their names and formats, and replaces them with a mark.

Detection is best effort: variables and options with names of secrets, credentials in URLs, and key formats of common
services.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

from barograph.model.origin import Parameter

MARK = "***"
"""Replaces a secret."""

class _Late:
    """A lazily compiled pattern: most commands need none, and compiling delays their start."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    def __call__(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)


_NAMES = re.compile(
    r"(?:^|[_\-.])(?:token|secret|passw(?:or)?d|passwd|passphrase|pwd|api_?-?key|apikey|access_?-?key(?:_?-?id)?|"
    r"private_?-?key|secret_?-?key|key|credentials?|auth|authorization|cookie|dsn|signature|sas|bearer|connection_?string)"
    r"s?(?:$|[_\-.])", re.IGNORECASE)
_INNOCENT = re.compile(
    r"(?:max|min|num|n|pad|eos|bos|unk|mask|sep|cls|special|new|per|vocab|image|stop|next|total)[_\-.]?(?:new[_\-.])?tokens?"
    r"(?:$|[_\-.])|tokens?[_\-.](?:per|len|count|num|id)|key[_\-.](?:dim|size|bias|padding|dims)|token(?:s|izers?|ization)",
    re.IGNORECASE)
"""Names that look like secrets but are common in training scripts."""

_FOLDERS = ("PWD", "OLDPWD")
"""The shell's working directories: not passwords, although named like one."""

_SURE = re.compile(r"passw|passphrase|pwd|secret|api_?-?key|access_?-?key|private_?-?key|credential|connection_?string",
                   re.IGNORECASE)
"""Names of secrets that have no other meaning in code."""

_SHAPES = _Late("|".join((
    r"-----BEGIN[A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S]){0,20000}(?:-----END[A-Z ]*PRIVATE KEY-----)?",
    r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}",
    r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}",
    r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_\-]{16,}",
    r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}",
    r"(?<![A-Za-z0-9])sk-(?:[a-z]{1,12}-){0,3}[A-Za-z0-9_\-]{20,}",
    r"(?<![A-Za-z0-9])(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9\-]{10,}",
    r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_\-]{35}",
    r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_\-]{20,}",
    r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}",
    r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_\-]{30,}",
    r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}",
)))
_KEY_BEGINS = "-----BEGIN"
_SHAPES_BEGIN = ("AKIA", "ASIA", "ABIA", "ACCA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_",
                 "sk-", "k_live_", "k_test_", "xox", "AIza", "ya29.", "npm_", "pypi-", "eyJ")
"""Every one-line match of `_SHAPES` contains one of these: searching for them is far faster than the pattern."""
_IN_URL = _Late(r"(?P<scheme>(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.\-]{0,20}://)(?P<user>[^\s/@:'\"]{0,256})"
               r"(?P<password>:[^\s/@'\"]{1,1024})?@")
_ASSIGNED = _Late(
    r"(?<![A-Za-z0-9_\-.])(?P<name>[A-Za-z_][A-Za-z0-9_\-.]{0,80})"
    r"(?P<between>[\"']?\]?[ \t]{0,8}(?::|=)[ \t]{0,8})(?P<quote>[\"'])"
    r"(?P<value>[^\"'\n]{6,4096})(?P=quote)")
_PARAMETER = _Late(r"(?P<lead>[?&](?P<name>[A-Za-z_\-]{1,80})=)(?P<value>[^\s&#'\"]+)")
_LINE_ASSIGNED = _Late(
    r"(?P<lead>(?:^|[\s;,+])(?:export[ \t]{1,8})?(?P<name>[A-Z][A-Z0-9_]{0,80})=)"
    r"(?P<value>(?![A-Za-z_]\w*\.[A-Za-z_])[^\s'\"$(){}]{6,})", re.MULTILINE)
_BEARER = _Late(r"(?P<lead>\b(?:Bearer|Basic)[ \t]+)(?P<value>[A-Za-z0-9+/_.=\-]{16,})")

_SHORTEST_VALUE = 6
"""Shorter values are not searched for: they would match everywhere."""

_SHORTEST_LINE = 12
_SHORTEST_SHAPE = 14

_SECRET_FILES = _Late(
    r"(?:^|/)(?:\.env(?:\..+)?|\.netrc|_netrc|\.pgpass|\.pypirc|\.npmrc|\.htpasswd|id_(?:rsa|dsa|ecdsa|ed25519)|credentials"
    r"(?:\.\w+)?|secrets?\.\w+|service[_\-]account[^/]*\.json|kaggle\.json|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx))$",
    re.IGNORECASE)


class Secrets:
    """Finds secrets, including the values of an environment's secret variables.

    Args:
        environment: Environment of the training.
        named: Variables whose values are secrets whatever their names are, unless they are absolute paths.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, named: Iterable[str] = ()) -> None:
        given = environment or {}
        values = {value for name, value in given.items() if names_secret(name)}
        values |= {given[name] for name in named if name in given and not given[name].startswith("/")}
        # A secret of several lines may be printed in parts, and one in a URL is quoted.
        values |= {line for value in values for line in value.splitlines() if len(line) >= _SHORTEST_LINE}
        values |= {quote(value, safe="") for value in values}
        # Also in the encoding used for bytes, such as those of a patch.
        values |= {value.encode("utf-8", "surrogateescape").decode("latin-1") for value in values}
        # Longest first, so that no part of a secret is left.
        self._values = sorted((value for value in values if len(value) >= _SHORTEST_VALUE), key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return the text with every secret replaced by the mark; line breaks stay.

        Example:
            >>> Secrets({"API_TOKEN": "hunter2hunter2"}).hide("login as hunter2hunter2 at https://me:pass@host/x")
            'login as *** at https://***@host/x'
        """
        for value in self._values:
            text = text.replace(value, _mark(value))
        if len(text) < _SHORTEST_SHAPE and not any(sign in text for sign in "@=:"):
            return text
        if _KEY_BEGINS in text:
            text = _SHAPES().sub(lambda match: _mark(match[0]), text)
        for signs, pattern, replacement in _ON_LINES:
            text = _on_lines(text, signs, functools.partial(pattern().sub, replacement))
        return text

    def hide_certain(self, text: str) -> str:
        """Return the text without what is certainly a secret; what only looks like one in code stays.

        Hides the environment's secrets, keys in the formats of common services, and credentials in URLs. Fast, and
        meant for code that still has to run.

        Example:
            >>> Secrets().hide_certain('password = "changeme"; index = "https://me:pass@host/simple"')
            'password = "changeme"; index = "https://***@host/simple"'
        """
        for value in self._values:
            text = text.replace(value, _mark(value))
        if _KEY_BEGINS in text:
            text = _SHAPES().sub(lambda match: _mark(match[0]), text)
        text = _on_lines(text, _SHAPES_BEGIN, lambda line: _SHAPES().sub(MARK, line))
        return _on_lines(text, ("://",), lambda line: _IN_URL().sub(_hide_user, line))

    def holds(self, text: str) -> bool:
        """Return whether the text has a secret."""
        return self.hide(text) != text

    def hide_parameter(self, name: str, value: Parameter) -> Parameter:
        """Return the value of a parameter without secrets; a parameter named like a secret becomes the mark.

        Example:
            >>> secrets = Secrets()
            >>> [secrets.hide_parameter(*item) for item in (("api_key", "abc"), ("max_tokens", 7), ("lr", "1e-3"))]
            ['***', 7, '1e-3']
        """
        if names_secret(name) and not isinstance(value, bool | int | float):
            return MARK
        if isinstance(value, str):
            return self.hide(value)
        return [self.hide_parameter(name, item) for item in value] if isinstance(value, list) else value

    def hide_words(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the words of a command without secrets, including values of options named like one.

        Example:
            >>> Secrets().hide_words(["train.py", "--api-key", "abc", "--token=x", "--lr", "0.1"])
            ('train.py', '--api-key', '***', '--token=***', '--lr', '0.1')
        """
        found: list[str] = []
        is_next = False
        for word in words:
            name, equals, _ = word.partition("=")
            if is_next and not _is_option(word):
                found.append(MARK)
                is_next = False
                continue
            called_so = names_secret(name.lstrip("-+")) and (word.startswith("-") or bool(equals))
            found.append(f"{name}={MARK}" if called_so and equals else self.hide(word))
            is_next = called_so and not equals
        return tuple(found)


def names_secret(name: str) -> bool:
    """Return whether a name is likely that of a secret.

    Example:
        >>> names_secret("WANDB_API_KEY"), names_secret("max_tokens"), names_secret("keyboard")
        (True, False, False)
    """
    return bool(_NAMES.search(name)) and not _INNOCENT.search(name) and name not in _FOLDERS


def is_secret_file(path: str) -> bool:
    """Return whether a file usually contains secrets, by its name.

    Example:
        >>> is_secret_file("config/.env"), is_secret_file("train.py")
        (True, False)
    """
    return bool(_SECRET_FILES().search(path))


def held_back(words: Iterable[str]) -> bool:
    """Return whether a command has a replaced secret, so that it cannot be run again."""
    return any(MARK in word for word in words)


def _on_lines(text: str, signs: Sequence[str], change: Callable[[str], str]) -> str:
    """Return the text with those lines changed that contain one of the signs."""
    lines: set[tuple[int, int]] = set()
    for sign in signs:
        at = text.find(sign)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            lines.add((text.rfind("\n", 0, at) + 1, end))
            at = text.find(sign, end)
    if not lines:
        return text
    pieces, last = [], 0
    for start, end in sorted(lines):
        pieces += [text[last:start], change(text[start:end])]
        last = end
    return "".join([*pieces, text[last:]])


def _mark(secret: str) -> str:
    # A patch counts its lines.
    return MARK + "\n" * secret.count("\n")


def _hide_user(match: re.Match[str]) -> str:
    # `git@host` has no secret, but a token may be used as a user name.
    harmless = not match["password"] and match["user"] in ("", "git")
    return match[0] if harmless else f"{match['scheme']}{MARK}@"


def _unless_innocent(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    # `key = "train_loss"` and `token = "<mask>"` are common in code, which must still run after a checkout.
    return MARK if names_secret(name) and (_SURE.search(name) or _looks_random(value)) else value


def _looks_random(text: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9+/_.~=\-]{16,}", text) and re.search(r"\d", text)
                and re.search(r"[A-Za-z]", text))


def _is_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not word[1].isdigit()


def _after_lead(value: Callable[[re.Match[str]], str]) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match['lead']}{value(match)}"


_ON_LINES: tuple[tuple[Sequence[str], _Late, Callable[[re.Match[str]], str]], ...] = (
    (_SHAPES_BEGIN, _SHAPES, lambda match: MARK),
    (("://",), _IN_URL, _hide_user),
    (("?", "&"), _PARAMETER, _after_lead(lambda match: MARK if names_secret(match["name"]) else match["value"])),
    (("Bearer", "Basic"), _BEARER, _after_lead(lambda match: MARK)),
    (('"', "'"), _ASSIGNED, lambda match:
        f"{match['name']}{match['between']}{match['quote']}{_unless_innocent(match)}{match['quote']}"),
    (("=",), _LINE_ASSIGNED, _after_lead(_unless_innocent)),
)
"""Parts of a line that every match of a pattern contains, the pattern, and what replaces a match. Searching for these
parts first is far faster: a script may print a gigabyte."""
