"""A channel of a training job: where its data is, and how an instance gets it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from barograph.errors import SettingsError, UnknownName, nearest


class Mode(StrEnum):
    """How the data of a channel reaches the script."""

    COPY = "copy"
    """Copied before the script starts."""
    LAZY = "lazy"
    """A read-only directory that fetches what the script reads."""
    PIPE = "pipe"
    """One named pipe per epoch, with all objects one after another."""


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SCHEMES = ("s3", "s3a", "gs", "az")
_KEYS = ("name", "source", "mode", "sharded", "shuffle")
_SUFFIXES = ("sharded", "copy", "lazy", "pipe", "shuffle")


@dataclass(frozen=True, slots=True)
class Channel:
    """A named source of data.

    Attributes:
        name: Letters, digits, "_" and "-".
        source: A directory, a file, a pattern, or the URL of an object or a prefix of a bucket.
        mode: How the data reaches the script.
        sharded: Split the objects among the instances; otherwise every instance gets all of them.
        shuffle_seed: Seed of the order, which differs in each epoch; None: sorted by name.

    Raises:
        SettingsError: The name is not valid, or the channel is shuffled but has no order.
    """

    name: str
    source: str
    mode: Mode = Mode.COPY
    sharded: bool = False
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SettingsError(f'"{self.name}" is not a name of a channel. Use letters, digits, "_" and "-".')
        if self.shuffle_seed is not None and self.mode is not Mode.PIPE and not self.sharded:
            raise SettingsError(f"Channel {self.name} is shuffled, but it has no order: every instance gets a "
                                "directory with all of its data. Add :pipe or :sharded.")

    @property
    def is_remote(self) -> bool:
        """Whether the source is in a bucket."""
        return is_url(self.source)

    def to_json(self) -> dict[str, Any]:
        """Return the channel as `channel_from_json` reads it."""
        shuffle = {} if self.shuffle_seed is None else {"shuffle": self.shuffle_seed}
        return {"name": self.name, "source": self.source, "mode": self.mode.value, "sharded": self.sharded, **shuffle}


def is_url(source: str) -> bool:
    """Return whether a source is a URL.

    Example:
        >>> is_url("s3://bucket/digits"), is_url("C:\\\\digits")
        (True, False)
    """
    return _URL.match(source) is not None


def channel_from_text(text: str, *, directory: Path | None = None) -> Channel:
    """Return the channel of an option `--data`.

    Args:
        text: NAME=SOURCE, then suffixes: `:sharded`, `:copy`, `:lazy` or `:pipe`, `:shuffle` or `:shuffle=SEED`.
        directory: Directory of relative paths. None: the current one.

    Raises:
        SettingsError: The text is not a channel.

    Example:
        >>> channel = channel_from_text("train=s3://bucket/digits:pipe:shuffle=7")
        >>> channel.source, channel.mode.value, channel.shuffle_seed
        ('s3://bucket/digits', 'pipe', 7)
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise SettingsError(f'"{text}" is not a channel. Write NAME=SOURCE, such as train=./data.')
    return _from_source(name, rest, directory)


def channel_from_json(name: str, value: object, *, directory: Path | None = None) -> Channel:
    """Return a channel of a job file.

    Args:
        name: Name of the channel.
        value: A string as after "=" in `channel_from_text`, or a table with `source`, `mode`, `sharded` and `shuffle`
            (a seed, or true). In a table the source has no suffixes.
        directory: Directory of relative paths. None: the current one.

    Raises:
        SettingsError: The value is not a channel.

    Example:
        >>> channel_from_json("train", {"source": "s3://bucket/digits", "mode": "lazy"}).mode.value
        'lazy'
    """
    if isinstance(value, str):
        return _from_source(name, value, directory)
    if not isinstance(value, Mapping):
        raise SettingsError(f"Channel {name} is {value!r}; it must be a string or a table with a source.")
    for key in value:
        if key not in _KEYS:
            raise UnknownName(f'"{key}" is not a setting of channel {name}. {nearest(str(key), _KEYS)}')
    if value.get("name", name) != name:
        raise SettingsError(f"Channel {name} has another name in its table: {value['name']!r}.")
    source, sharded, shuffle = value.get("source"), value.get("sharded", False), value.get("shuffle", False)
    if not isinstance(source, str):
        raise SettingsError(f"Channel {name} has no source. Add source = \"PATH or URL\".")
    if not isinstance(sharded, bool):
        raise SettingsError(f"sharded of channel {name} is {sharded!r}; it must be true or false.")
    if not isinstance(shuffle, int):
        raise SettingsError(f"shuffle of channel {name} is {shuffle!r}; it must be true, false or an integer.")
    seed = None if shuffle is False else int(shuffle) if shuffle is not True else 0
    return Channel(name, _source(name, source, directory), _mode(name, value.get("mode", "copy")), sharded, seed)


def text_of(channel: Channel) -> str:
    """Return a channel as `channel_from_text` reads it after "=".

    Raises:
        SettingsError: The source itself ends like a suffix (`:sharded`), so its text would be ambiguous.

    Example:
        >>> text_of(Channel("train", "s3://bucket/digits", Mode.PIPE, shuffle_seed=7))
        's3://bucket/digits:pipe:shuffle=7'
    """
    words = [channel.source, *([channel.mode.value] if channel.mode is not Mode.COPY else []),
             *(["sharded"] if channel.sharded else []),
             *([] if channel.shuffle_seed is None else [f"shuffle={channel.shuffle_seed}"])]
    text = ":".join(words)
    if _from_source(channel.name, text, None) != channel:
        raise SettingsError(f"The source of channel {channel.name} ends like a suffix. Rename it ({channel.source}).")
    return text


def _from_source(name: str, text: str, directory: Path | None) -> Channel:
    source, words = _split(name, text, directory)
    modes = [word for word in words if word in set(Mode)]
    seeds = [word for word in words if word.partition("=")[0] == "shuffle"]
    for what, found in (("modes", modes), ("seeds", seeds)):
        if len(set(found)) > 1:
            raise SettingsError(f"Channel {name} has two {what}: {' and '.join(found)}. Write one.")
    return Channel(name, _source(name, source, directory), Mode(modes[0]) if modes else Mode.COPY, "sharded" in words,
                   _seed(name, seeds[0]) if seeds else None)


def _split(name: str, text: str, directory: Path | None) -> tuple[str, list[str]]:
    """Return the source, and the suffixes after it."""
    words: list[str] = []
    while True:
        source, colon, word = text.rpartition(":")
        # The colon of a URL or a drive.
        if not colon or "/" in word or "\\" in word:
            return text, words
        if word in _SUFFIXES or word.startswith("shuffle="):
            text = source
            words.insert(0, word)
            continue
        if _belongs_to_source(text, word, directory):
            return text, words
        raise UnknownName(f'":{word}" is not a suffix of channel {name}. {nearest(word, _SUFFIXES)}')


def _belongs_to_source(text: str, word: str, directory: Path | None) -> bool:
    """Return whether a word after a colon is the end of a name, and not a misspelled suffix."""
    if is_url(text):
        return not nearest(word, _SUFFIXES).startswith("Did you mean")
    return _absolute(text, directory).exists()


def _seed(name: str, word: str) -> int:
    _, equals, seed = word.partition("=")
    if not equals:
        return 0
    try:
        return int(seed)
    except ValueError:
        raise SettingsError(f'The seed of channel {name} is "{seed}"; it must be an integer, as in shuffle=7.') \
            from None


def _mode(name: str, value: object) -> Mode:
    if value not in set(Mode):
        raise UnknownName(f"The mode of channel {name} is {value!r}. {nearest(str(value), Mode)}")
    return Mode(str(value))


def _source(name: str, source: str, directory: Path | None) -> str:
    """Return an absolute path or a URL."""
    if not source.strip():
        raise SettingsError(f"Channel {name} has no source. Write {name}=PATH or {name}=s3://BUCKET/PREFIX.")
    if not is_url(source):
        return str(_absolute(source, directory))
    scheme, _, place = source.partition("://")
    if scheme.lower() == "file":
        return str(_absolute(unquote(place.removeprefix("localhost")), directory))
    if scheme.lower() not in _SCHEMES:
        raise UnknownName(f'Channel {name} is at "{scheme}://", which is not supported. Write a path, or a URL of '
                          "s3://, gs:// or az://.")
    if not place.strip("/"):
        raise SettingsError(f'Channel {name} is at "{source}", which has no bucket. Write {scheme}://BUCKET/PREFIX.')
    return source


def _absolute(path: str, directory: Path | None) -> Path:
    return Path(os.path.abspath(Path(directory or Path.cwd(), os.path.expanduser(path))))
