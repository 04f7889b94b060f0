"""Output of a worker in the run, its first and last megabytes: `output/W/AAAA-NNNNNNNN.DIGEST.jsonl`.

Each line of a part is a JSON list: the stream ("out" or "err") and a text; or "left out" and the number of omitted
characters so far.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.provenance.secrets import Secrets
from barograph.runs.format.layout import OUTPUT, digest_of
from barograph.runs.format.proof import proved
from barograph.store.base import Store

_PART = re.compile(rf"{OUTPUT}/(?P<worker>[rp]\d+)/(?P<attempt>\d{{4,}})-(?P<part>\d{{8,}})\.(?P<digest>[0-9a-f]{{32}})"
                   r"\.jsonl")
_LEFT_OUT = "left out"
_PART_CHARS = 64 * 1024
_FIRST_SECS, _LONGEST_SECS = 1.0, 60.0
_LONGEST_LINE_CHARS = 4096
END_CHARS = 4 * 2**20
"""Characters that are kept of the beginning, and of the end."""

Texts = Sequence[tuple[str, str]]


class OutputWriter:
    """Writes output in parts.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        environment: Environment of the training; its secrets are masked.
        end_chars: Characters to keep of the beginning, and of the end.
        clock: Returns the seconds of a monotonic clock.
    """

    def __init__(
        self, store: Store, attempt: int, environment: Mapping[str, str], *, end_chars: int = END_CHARS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._secrets = Secrets(environment)
        self._end_chars = end_chars
        self._clock = clock
        self._waiting: list[tuple[str, str]] = []
        self._left_out = 0
        self._part = 0
        self._first_chars = 0
        self._last: deque[tuple[str, int]] = deque()
        self._pause_secs = _FIRST_SECS
        self._due = clock() + self._pause_secs

    def add(self, texts: Texts, left_out: int = 0) -> None:
        """Add output, and the number of characters omitted before."""
        for name, text in texts:
            if self._waiting and self._waiting[-1][0] == name:
                self._waiting[-1] = name, self._waiting[-1][1] + text
            else:
                self._waiting.append((name, text))
        self._left_out += left_out

    def write(self, worker: str, *, last: bool = False) -> None:
        """Publish waiting output if there is enough or it is old; with `last`, publish all.

        Raises:
            StoreError: The store rejects it.
        """
        chars = sum(len(text) for _, text in self._waiting)
        if not chars or not (last or chars >= _PART_CHARS or self._clock() >= self._due):
            return
        ready, rest = (self._waiting, []) if last else _whole_lines(self._waiting)
        if not ready and not last:
            return
        hidden = [(name, self._secrets.hide(text)) for name, text in ready]
        self._publish(worker, hidden)
        self._waiting = rest
        # Fewer parts a minute the longer it runs.
        self._pause_secs = min(_LONGEST_SECS, self._pause_secs * 1.25)
        self._due = self._clock() + self._pause_secs

    def _publish(self, worker: str, texts: Texts) -> None:
        while texts and sum(len(text) for _, text in texts) > self._end_chars:
            # Very much output in one turn: its beginning would be removed immediately.
            (name, text), *others = texts
            cut = min(len(text), sum(len(item) for _, item in texts) - self._end_chars)
            self._left_out += cut
            texts = [(name, text[cut:]), *others] if cut < len(text) else others
        chars = sum(len(text) for _, text in texts)
        gone = self._too_old(chars)
        self._left_out += sum(size for _, size in gone)
        # The total so far, since earlier parts may be removed, too.
        lines = [[_LEFT_OUT, str(self._left_out)]] if self._left_out else []
        data = "".join(f"{json.dumps(line)}\n" for line in [*lines, *map(list, texts)]).encode()
        name = f"{OUTPUT}/{worker}/{self._attempt:04d}-{self._part:08d}.{digest_of(data)}.jsonl"
        self._store.put(name, data)
        self._part += 1
        if self._first_chars + chars <= self._end_chars:
            self._first_chars += chars
        else:
            self._first_chars = self._end_chars  # further output belongs to the end
            self._last.append((name, chars))
        for old, _ in gone:
            self._store.delete(old)

    def _too_old(self, chars: int) -> list[tuple[str, int]]:
        """Remove parts from the list of last ones that no longer fit after `chars` more."""
        gone = []
        while self._last and sum(size for _, size in self._last) + chars > self._end_chars:
            gone.append(self._last.popleft())
        return gone


class Output(NamedTuple):
    """Output of one worker.

    Attributes:
        worker: Name of the worker.
        texts: Stream and text, in order.
        left_out: Number of omitted characters.
    """

    worker: str
    texts: list[tuple[str, str]]
    left_out: int


def read_output(store: Store, attempt: int | None = None) -> list[Output]:
    """Return the output of each worker.

    Args:
        store: Store of the run.
        attempt: Attempt; None: the last one with output.

    Raises:
        DamagedChunk: It is damaged.
        StoreError: The store cannot be read.
    """
    parts = [match for item in store.list(OUTPUT) if (match := _PART.fullmatch(item.name))]
    wanted = max((int(match["attempt"]) for match in parts), default=0) if attempt is None else attempt
    found: dict[str, Output] = {}
    for match in parts:
        if int(match["attempt"]) == wanted:
            before = found.get(match["worker"], Output(match["worker"], [], 0))
            found[match["worker"]] = _with(before, bytes(proved(store, match[0], match["digest"])), match[0])
    return list(found.values())


def damaged_parts(store: Store, names: Iterable[str]) -> list[str]:
    """Return one sentence for each damaged part.

    Args:
        store: Store of the run.
        names: Names of all its objects.

    Raises:
        StoreError: The store cannot be read.
    """
    found = []
    for match in filter(None, map(_PART.fullmatch, names)):
        try:
            _with(Output("", [], 0), bytes(proved(store, match[0], match["digest"])), match[0])
        except DamagedChunk as error:
            found.append(str(error))
        except ObjectNotFound:
            continue  # it was removed since it was listed
    return found


def _with(before: Output, data: bytes, name: str) -> Output:
    left_out = before.left_out
    try:
        for line in data.decode().splitlines():
            stream, text = json.loads(line)
            if stream == _LEFT_OUT:
                if int(text) > left_out:
                    before.texts.append((stream, str(int(text) - left_out)))
                left_out = max(left_out, int(text))
            else:
                before.texts.append((str(stream), str(text)))
    except (ValueError, TypeError) as error:
        raise DamagedChunk(f"The part of the output is invalid: {error} ({name}).") from error
    return Output(before.worker, before.texts, left_out)


def _whole_lines(texts: Texts) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the texts to write now, and the unfinished line, in which a secret might be cut."""
    *whole, (name, text) = texts
    end = max(text.rfind("\n"), text.rfind("\r")) + 1
    if len(text) - end > _LONGEST_LINE_CHARS:
        end = len(text)
    return [*whole, *([(name, text[:end])] if end else [])], [(name, text[end:])] if end < len(text) else []
