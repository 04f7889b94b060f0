"""Turns symptoms into findings: a fault opens after patience, holds, and closes after recovery.

A `Track` follows one fault of one rule from its first symptom. It is plain data in the watcher's state, so a restarted
watcher continues in the middle of a streak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from barograph.model.cause import Suspicion
from barograph.model.finding import Evidence, Finding, FindingState, Severity, Symptom, finding_from_json
from barograph.model.key import Key, key_from_text
from barograph.model.step import Mode
from barograph.rules.base import Rule, severity_set
from barograph.rules.page import why_it_matters
from barograph.runs.reading.view import StepView
from barograph.runs.state.findings import finding_id


class TrackName(NamedTuple):
    """Identity of a fault within a rule; each opens and closes independently."""

    worker: str
    optimizer: str
    mode: Mode
    subject: str


@dataclass(slots=True)
class Track:
    """One tracked fault.

    Attributes:
        since_step: First step of the streak.
        sick: Number of consecutive evaluated steps with the fault.
        clean: Number of consecutive evaluated steps without it, since it opened.
        keys: Keys of its last symptom; a step that recorded none of them does not count.
        finding: The finding, once open.
        counting: See `Symptom.counting`.
    """

    since_step: int
    sick: int = 0
    clean: int = 0
    keys: tuple[Key, ...] = ()
    finding: Finding | None = None
    counting: bool = False

    def judged_by(self, view: StepView) -> bool:
        """Return whether the step recorded any of the fault's keys."""
        return not self.keys or any(view.subject(key) is not None or view.scalar(key) is not None for key in self.keys)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "since_step": self.since_step, "sick": self.sick, "clean": self.clean,
            "keys": [str(key) for key in self.keys],
            "finding": self.finding.to_json() if self.finding else None, "counting": self.counting,
        }


def track_from_json(data: Mapping[str, Any]) -> Track:
    """Return the track that `Track.to_json` wrote."""
    finding = finding_from_json(data["finding"]) if data["finding"] else None
    keys = tuple(key_from_text(text) for text in data["keys"])
    return Track(data["since_step"], data["sick"], data["clean"], keys, finding, data.get("counting", False))


class Tracks:
    """All tracked faults of one rule."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._why = why_it_matters(type(rule))
        self._tracks: dict[TrackName, Track] = {}

    def open(self) -> list[Finding]:
        """Return the open findings."""
        return [track.finding for track in self._tracks.values() if track.finding]

    def take(self, view: StepView, symptoms: list[Symptom], *, judged: bool) -> list[Finding]:
        """Return the findings that opened or closed in this step, in their new state.

        Args:
            view: The step.
            symptoms: Symptoms that the rule found.
            judged: Whether missing symptoms count as recovery.
        """
        if not symptoms and not self._tracks:
            return []
        events = []
        seen = set()
        for symptom in symptoms:
            name = TrackName(view.group, view.step.optimizer, view.step.mode, symptom.subject)
            if name in seen:
                continue
            seen.add(name)
            events += self._sick(name, symptom, view)
        if judged:
            here = (view.group, view.step.optimizer, view.step.mode)
            for name in [name for name in self._tracks if name[:3] == here and name not in seen]:
                if self._tracks[name].judged_by(view):
                    events += self._clean(name, view)
        return events

    def new_attempt(self, worker: str) -> None:
        """Reset the streaks of a restarted worker; open findings stay open until they close."""
        for name in [name for name in self._tracks if name.worker == worker]:
            if self._tracks[name].finding is None:
                del self._tracks[name]
            else:
                self._tracks[name].clean = 0

    def _sick(self, name: TrackName, symptom: Symptom, view: StepView) -> list[Finding]:
        step = view.step.number
        began = step if symptom.since is None else symptom.since
        track = self._tracks.setdefault(name, Track(began))
        track.sick, track.clean, track.counting = track.sick + 1, 0, symptom.counting
        track.keys = tuple(dict.fromkeys(item.key for item in symptom.evidence if item.key is not None))
        if track.finding is not None:
            message = symptom.message if symptom.counting else track.finding.message
            track.finding = replace(track.finding, last_step=step, message=message)
            return []
        if track.sick < self._rule.patience:
            return []
        track.finding = self._opened(name, track, symptom, view)
        return [track.finding]

    def _opened(self, name: TrackName, track: Track, symptom: Symptom, view: StepView) -> Finding:
        rule, step = self._rule, view.step
        return Finding(
            id=finding_id(code=rule.code, worker=name.worker, attempt=view.attempt, optimizer=name.optimizer,
                          mode=name.mode, subject=name.subject, since_step=track.since_step),
            code=rule.code, rule=rule.name, severity=severity_set(rule) or symptom.severity or rule.severity,
            state=FindingState.OPEN, message=symptom.message, remedy=symptom.remedy, evidence=symptom.evidence,
            subject=name.subject, worker=name.worker, optimizer=name.optimizer, mode=name.mode,
            since_step=track.since_step,
            opened_step=step.number, last_step=step.number, closed_step=None, opened_unix=step.time_unix,
            attempt=view.attempt, causes=symptom.causes, why=symptom.why or self._why,
        )

    def _clean(self, name: TrackName, view: StepView) -> list[Finding]:
        track = self._tracks[name]
        if track.finding is None:
            del self._tracks[name]
            return []
        track.clean += 1
        if track.counting or track.clean < self._rule.recovery:
            return []
        del self._tracks[name]
        return [replace(track.finding, state=FindingState.CLOSED, closed_step=view.step.number)]

    def to_json(self) -> list[Any]:
        """Return plain JSON data."""
        return [[*name, track.to_json()] for name, track in self._tracks.items()]

    def load(self, data: list[Any]) -> None:
        """Load what `to_json` returned."""
        self._tracks = {
            TrackName(worker, optimizer, Mode(mode), subject): track_from_json(track)
            for worker, optimizer, mode, subject, track in data
        }


def checked_symptom(symptom: object) -> Symptom:
    """Return the symptom with plain numbers in its evidence.

    Raises:
        TypeError: It is not a Symptom, or a field has the wrong type.
    """
    if not isinstance(symptom, Symptom):
        raise TypeError(f"it yields {type(symptom).__name__}; a rule yields Symptom or Unjudged")
    for name in ("message", "remedy", "subject", "why"):
        if not isinstance(getattr(symptom, name), str):
            raise TypeError(f"the {name} of its symptom is {type(getattr(symptom, name)).__name__}; it must be a text")
    evidence = []
    for item in symptom.evidence:
        if not isinstance(item, Evidence) or not (item.key is None or isinstance(item.key, Key)):
            raise TypeError(f"the evidence of its symptom holds {item!r}; it must hold Evidence")
        # NumPy numbers are not JSON.
        evidence.append(Evidence(item.key, int(item.step), str(item.statistic), float(item.value),
                                 float(item.threshold), str(item.text)))
    for suspicion in symptom.causes:
        if not isinstance(suspicion, Suspicion):
            raise TypeError(f"the causes of its symptom hold {suspicion!r}; they must hold Suspicion")
    if not (symptom.severity is None or isinstance(symptom.severity, Severity)):
        raise TypeError(f"the severity of its symptom is {symptom.severity!r}; it must be a Severity or None")
    # A plain string, not a member of a rule's own enumeration, since it goes into JSON.
    causes = tuple(replace(item, cause=str(item.cause), weight=float(item.weight)) for item in symptom.causes)
    since = None if symptom.since is None else int(symptom.since)
    return replace(symptom, evidence=tuple(evidence), since=since, causes=causes)
