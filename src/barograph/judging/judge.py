"""Evaluates one rule on a run: its state, the faults it tracks, and whether it works."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barograph.errors import BadRule
from barograph.judging.feeding import OF_TREES, feed
from barograph.judging.needs import Need
from barograph.judging.tracks import Tracks, checked_symptom
from barograph.model.clock import Clock
from barograph.model.finding import Finding, NotEvaluated, Symptom, Unmet
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.model.step import Mode
from barograph.rules.applicability import SILENT_WHERE_NOT_APPLICABLE, TREES_ONLY
from barograph.rules.base import Memory, Rule, Unjudged
from barograph.rules.page import kinds_in_words
from barograph.runs.reading.view import StepView

SLOW_SECS = 1.0
"""A rule that takes longer for one step is reported, because it delays findings."""


class Judge:
    """Evaluates one rule on steps.

    A rule that raises, yields invalid symptoms, or keeps state that JSON cannot represent is reported once and
    disabled. This depends on the steps alone, so that live, replayed and restarted watching agree.

    Attributes:
        rule: The rule.
        broken: Why it is disabled; "" if it is not.
    """

    def __init__(self, rule: Rule, clock: Clock) -> None:
        self.rule = rule
        self.broken = ""
        self._clock = clock
        # Cached: a rule computes its needs on each access, and this runs at every step.
        self._watched = [Need(need) for need in rule.needs]
        self._kinds = frozenset(kind for need in self._watched for kind in need.selection.kinds)
        self._memories: dict[str, Memory] = {}
        self._tracks = Tracks(rule)
        self._kinds_seen: frozenset[Kind] = frozenset()
        self._around: frozenset[Kind] = frozenset()
        self._evaluated = False
        self._all_seen = False
        self._calls = 0
        self._judged = 0
        self._unjudged_reason = ""
        self._slow = False

    def take(self, view: StepView) -> tuple[list[Finding], list[str]]:
        """Return the findings that opened or closed in this step, and new problems of the rule."""
        if view.step.mode is Mode.TRAIN and not self._around >= view.kinds:
            self._around |= view.kinds
        self._evaluated = self._evaluated or view.step.mode is Mode.EVAL
        if self.broken or self._kinds.isdisjoint(view.kinds):
            return [], []
        if not self._all_seen:
            self._note_needs(view)
        memory = self._memories.setdefault(f"{view.group}|{view.step.optimizer}", {})
        before = self._clock.monotonic()
        try:
            symptoms, unjudged = _sorted_out(self.rule.judge(view, memory))
            self._calls += 1
            if self._calls & (self._calls - 1) == 0:
                # Often at first, then more and more rarely: this checks the rule, not each step.
                _check_plain(memory, "memory")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party rules may raise anything
            self._memories = {}
            self.broken = f" at step {view.step.number} of {view.group}: {type(error).__name__}: {error}"
            return [], [self._broken_text()]
        secs = self._clock.monotonic() - before
        problems = self._slowness(secs, view) if secs > SLOW_SECS else []
        if unjudged:
            self._explain(unjudged[-1], view)
        else:
            self._judged += 1
        return self._tracks.take(view, symptoms, judged=not unjudged), problems

    def new_attempt(self, worker: str) -> None:
        """Reset the streaks of a restarted worker: its step numbers may go back."""
        if not self.rule.across_attempts:
            for name in [name for name in self._memories if name.partition("|")[0] == worker]:
                del self._memories[name]
        self._tracks.new_attempt(worker)

    def open(self) -> list[Finding]:
        """Return the rule's open findings."""
        return self._tracks.open()

    def not_evaluated(self) -> NotEvaluated | None:
        """Return what the rule could not evaluate, fully or partly; None if it evaluated everything."""
        needs = self.rule.needs
        if all(need.kinds == {Kind.VITAL} for need in needs) and not self.broken:
            return None  # the watcher checks for vital signs itself, and reports them only when there are any
        unmet = [item.selection for item in self._watched if not item.met]
        if self.broken:
            return self._unfed(Unmet.FAILED, f"The rule failed{self.broken}", "Report it to whoever wrote the rule.")
        if self.rule.code in TREES_ONLY and not self._judged and self._around and not self._around & OF_TREES:
            return self._unfed(Unmet.NOT_APPLICABLE, "Boosted trees only.")
        if unmet and not self._judged and all(need.layers and need.kinds & self._kinds_seen for need in unmet):
            return self._unfed(Unmet.NOT_APPLICABLE, f"The model has no such layer: {_layers_in_words(unmet)}.")
        if unmet:
            part = "In part: n" if len(unmet) < len(needs) and self._judged else "N"
            status, advice = feed(unmet, self._around, evaluated=self._evaluated)
            return self._unfed(status, f"{part}eeds data that was not recorded: {_asked_in_words(unmet)}.", advice)
        if not self._judged:
            reason = self._unjudged_reason or "no step recorded what it needs together"
            silent = self.rule.code in SILENT_WHERE_NOT_APPLICABLE
            return self._unfed(Unmet.NOT_APPLICABLE if silent else Unmet.NOT_ENOUGH_DATA,
                               f"Not judged yet: {reason}.")
        return None

    def check(self) -> str:
        """Return the problem with the rule's state, "" if there is none; after a problem the rule is disabled."""
        try:
            _check_plain(self._memories, "memory")
        except BadRule as error:
            self._memories = {}
            self.broken = f": {error}"
            return self._broken_text()
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON data; call `check` first."""
        return {
            "rule": identity(self.rule), "memories": self._memories, "tracks": self._tracks.to_json(),
            "kinds_seen": sorted(self._kinds_seen), "around": sorted(self._around),
            "evaluated": self._evaluated,
            "met": [need.met for need in self._watched],
            "calls": self._calls, "judged": self._judged,
            "unjudged_reason": self._unjudged_reason, "broken": self.broken, "slow": self._slow,
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Load what `to_json` returned."""
        self._memories = {name: dict(memory) for name, memory in data["memories"].items()}
        self._tracks.load(data["tracks"])
        self._kinds_seen = frozenset(Kind(kind) for kind in data["kinds_seen"])
        self._around = frozenset(Kind(kind) for kind in data.get("around", ()))
        self._evaluated = bool(data.get("evaluated", False))
        self._calls, self._judged = data["calls"], data["judged"]
        met: list[bool] = data["met"]
        if len(met) != len(self._watched):
            # Another version, in which the rule had other needs, saved it.
            met = [all(met)] * len(self._watched)
        for need, was_met in zip(self._watched, met, strict=True):
            need.met = was_met
        self._unjudged_reason, self.broken, self._slow = data["unjudged_reason"], data["broken"], data["slow"]

    def _note_needs(self, view: StepView) -> None:
        if not self._kinds_seen >= self._kinds:
            self._kinds_seen |= self._kinds & view.kinds
        for need in self._watched:
            need.look(view)
        self._all_seen = self._kinds_seen >= self._kinds and all(need.met for need in self._watched)

    def _explain(self, unjudged: Unjudged, view: StepView) -> None:
        """Keep the reason why the rule could not evaluate, unless it ever could."""
        if self._judged or unjudged.reason == self._unjudged_reason:
            return
        # A reason for a step that the rule does not apply to explains nothing.
        if not self._unjudged_reason or (not unjudged.passing and any(need.meets(view) for need in self._watched)):
            self._unjudged_reason = unjudged.reason

    def _slowness(self, secs: float, view: StepView) -> list[str]:
        if self._slow:
            return []
        self._slow = True
        return [f"The rule {self.rule.code} {self.rule.name} took {secs:.1f} s over step {view.step.number}; "
                "findings come late."]

    def _broken_text(self) -> str:
        return f"The rule {self.rule.code} {self.rule.name} is not used any more: it failed{self.broken}"

    def _unfed(self, status: Unmet, reason: str, feed: str = "") -> NotEvaluated:
        return NotEvaluated(self.rule.code, self.rule.name, reason, feed, status)


def identity(rule: Rule) -> dict[str, Any]:
    """Return the identity of a rule for comparing watchers: its class and its parameters."""
    return {"code": rule.code, "class": f"{type(rule).__module__}:{type(rule).__qualname__}",
            "parameters": rule.parameters}


def _sorted_out(results: Iterable[Symptom | Unjudged]) -> tuple[list[Symptom], list[Unjudged]]:
    symptoms, unjudged = [], []
    for item in results:
        if isinstance(item, Unjudged):
            unjudged.append(item)
        else:
            symptoms.append(checked_symptom(item))
    return symptoms, unjudged


def _check_plain(value: object, where: str) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if type(name) is not str:
                raise BadRule(f"its {where} has the key {name!r}; only texts come back from JSON as they were")
            _check_plain(item, f"{where}[{name!r}]")
    elif isinstance(value, list):
        for item in value:
            _check_plain(item, f"{where}[…]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise BadRule(f"its {where} holds {type(value).__name__}; use numbers, texts, lists and dicts with text keys")


def _layers_in_words(needs: list[Selection]) -> str:
    layers = ", ".join(sorted({name for need in needs for name in need.layers}))
    patterns = sorted({pattern for need in needs for pattern in need.include})
    if not patterns:
        return layers
    return f"{layers}, with a name such as {', '.join(patterns[:_PATTERNS_SHOWN])}"


def _asked_in_words(needs: list[Selection]) -> str:
    """Return the needs in words, without duplicates and intervals; the rule's page has the intervals."""
    return "; ".join(dict.fromkeys(
        kinds_in_words(need) + (" in evaluation" if need.schedule.modes == {Mode.EVAL} else "") for need in needs))


_PATTERNS_SHOWN = 3
