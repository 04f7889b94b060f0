"""The findings of a run, as immutable events in its store.

A finding has at most two objects, `findings/ID.opened.json` and `findings/ID.closed.json`, each with the
whole finding at that time. The ID is the same live and in replay, so a watcher that died before saving its state
writes the same event again, which changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from barograph.errors import BarographError, DamagedChunk, ObjectExists, ObjectNotFound
from barograph.model.finding import Finding, FindingState, finding_from_json
from barograph.model.step import Mode
from barograph.runs.format.layout import FINDINGS
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

_EVENT = re.compile(rf"{FINDINGS}/(?P<id>[A-Z]\d{{3}}-\d+-[0-9a-f]{{12}})\.(?P<event>opened|closed)\.json")
_WORDS = {FindingState.OPEN: "opened", FindingState.CLOSED: "closed"}


@dataclass(frozen=True, slots=True)
class FindingLog:
    """All findings of a run.

    Attributes:
        findings: Each once, from its last event; ordered by first step, then by ID.
        damage: One sentence for each event that could not be read.
    """

    findings: tuple[Finding, ...]
    damage: tuple[str, ...] = ()


def finding_id(
    *, code: str, worker: str, attempt: int, optimizer: str, mode: Mode, subject: str, since_step: int
) -> str:
    """Return the ID of a finding: short, safe in a file name, and the same in each evaluation of a run.

    Example:
        >>> finding_id(code="G101", worker="p0", attempt=0, optimizer="", mode=Mode.TRAIN, subject="", since_step=40)
        'G101-40-8571ec4b30e8'
    """
    identity = "\0".join((code, worker, str(attempt), optimizer, mode.value, subject, str(since_step)))
    return f"{code}-{since_step}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


def write_event(store: Store, finding: Finding) -> bool:
    """Write the event that the finding opened or closed, according to its state.

    Returns:
        True if the event is new; False if it exists, and is not changed.

    Raises:
        StoreError: The store rejected it.
    """
    try:
        store.create(f"{FINDINGS}/{finding.id}.{_WORDS[finding.state]}.json", sealed(finding.to_json()))
    except ObjectExists:
        return False
    return True


def read_findings(store: Store) -> FindingLog:
    """Return all findings of the run in `store`.

    An open finding has its state at opening; only the watcher knows its duration.

    Raises:
        StoreError: The store cannot be read.
    """
    found: dict[str, Finding] = {}
    damage: list[str] = []
    for item in store.list(FINDINGS):
        match = _EVENT.fullmatch(item.name)
        if not match:
            damage.append(f"Not an event of a finding ({item.name}).")
            continue
        try:
            finding = _read(store, item.name)
        except ObjectNotFound:
            continue
        except DamagedChunk as error:
            damage.append(str(error))
            continue
        # "closed" sorts before "opened" and takes precedence.
        found.setdefault(match["id"], finding)
    findings = sorted(found.values(), key=lambda item: (item.since_step, item.id))
    return FindingLog(tuple(findings), tuple(damage))


def _read(store: Store, name: str) -> Finding:
    body = unsealed(store.get(name), name)
    try:
        return finding_from_json(body)
    except (KeyError, ValueError, TypeError, BarographError) as error:
        raise DamagedChunk(f"This Barograph cannot read the event of a finding ({name}).") from error
