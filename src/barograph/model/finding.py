"""Findings: what rules report, watchers store and people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from barograph.model.cause import Suspicion
from barograph.model.key import Key, key_from_text
from barograph.model.step import Mode


class Severity(StrEnum):
    """How bad a finding is."""

    BREAKING = "breaking"
    """The run is lost."""
    COSTLY = "costly"
    """It wastes money."""
    DOUBTFUL = "doubtful"
    """Worth a look."""
    NOTE = "note"
    """Good to know."""


SEVERITY_ORDER = tuple(Severity)
"""Severities, worst first."""


class FindingState(StrEnum):

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that supports a finding.

    Attributes:
        key: Series it was measured on; None for the run as a whole.
        step: Step at which it was measured, as the user counts.
        statistic: Name of the number ("mean_abs", "nan", "ratio").
        value: The number.
        threshold: Value it was compared with; NaN if none.
        text: One line for people, without key and step.
    """

    key: Key | None
    step: int
    statistic: str
    value: float
    threshold: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault that a rule reports in one step. The evaluation loop turns symptoms into findings.

    Attributes:
        message: One sentence: what is wrong and where.
        remedy: What to do, concretely, in this run.
        evidence: The worst few, worst first.
        subject: Distinguishes faults of one rule that open and close independently; "" if a rule has one
            fault a run.
        since: Step at which the fault began, if the rule knows it was earlier; None: this step.
        causes: Possible causes, strongest first.
        severity: Severity, if it depends on the evidence; None: that of the rule.
        counting: The message counts events so far. The finding takes each new message and stays open until
            the run ends.
        why: Why it matters, if that differs from the rule's page; "": as on the page.
    """

    message: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()
    subject: str = ""
    since: int | None = None
    causes: tuple[Suspicion, ...] = ()
    severity: Severity | None = None
    counting: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a run, from the step at which it began to the step at which it was gone.

    Attributes:
        id: Derived from code, worker, attempt, optimizer, mode, subject and first step; the same live and in replay.
        code: Code of the rule, "G101".
        rule: Name of the rule, "vanishing-gradient".
        severity: How bad it is.
        state: Open or closed.
        message: One sentence: what is wrong and where.
        remedy: What to do.
        evidence: Numbers at its opening, worst first.
        subject: See `Symptom`.
        worker: Worker with the fault.
        optimizer: Optimizer whose step has the fault.
        mode: Mode of these steps.
        since_step: First step with the fault.
        opened_step: Step at which it opened, after the rule's patience.
        last_step: Last step with the fault.
        closed_step: Step at which it closed; None while open.
        opened_unix: Wall time of `opened_step` by the worker's clock.
        attempt: Attempt of the run in which it opened, from 0.
        causes: Possible causes in this run, strongest first.
        why: Why it matters, from the rule's page; "" if the rule has none.
    """

    id: str
    code: str
    rule: str
    severity: Severity
    state: FindingState
    message: str
    remedy: str
    evidence: tuple[Evidence, ...]
    subject: str
    worker: str
    optimizer: str
    mode: Mode
    since_step: int
    opened_step: int
    last_step: int
    closed_step: int | None
    opened_unix: float
    attempt: int = 0
    causes: tuple[Suspicion, ...] = ()
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; NaN thresholds become null."""
        data = asdict(self)
        data["evidence"] = [
            {**asdict(item), "key": str(item.key) if item.key else None, "threshold": _number(item.threshold),
             "value": _number(item.value)}
            for item in self.evidence
        ]
        return data


class Findings(tuple[Finding, ...]):
    """List of findings of a run; notebooks render it.

    Example:
        >>> Findings()
        Findings()
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Findings({', '.join(f'{item.code} {item.rule}' for item in self)})"


def _number(value: float) -> float | str | None:
    # JSON has no NaN and no inf, and both must survive: NaN as null, infinities by name.
    if value != value:
        return None
    return value if abs(value) != float("inf") else ("inf" if value > 0 else "-inf")


def _number_back(value: float | str | None) -> float:
    return float("nan") if value is None else float(value)


def finding_from_json(data: Mapping[str, Any]) -> Finding:
    """Return the finding from the output of `Finding.to_json`.

    Raises:
        KeyError, ValueError, TypeError: `data` is not what `to_json` writes.
    """
    evidence = tuple(
        Evidence(
            key=key_from_text(item["key"]) if item["key"] is not None else None,
            step=item["step"], statistic=item["statistic"], value=_number_back(item["value"]),
            threshold=_number_back(item["threshold"]), text=item["text"],
        )
        for item in data["evidence"]
    )
    causes = tuple(Suspicion(**item) for item in data.get("causes", ()))
    if not isinstance(data["id"], str):
        raise TypeError("the ID of a finding must be a string")
    return Finding(**{**data, "evidence": evidence, "causes": causes, "severity": Severity(data["severity"]),
                      "state": FindingState(data["state"]), "mode": Mode(data["mode"])})


class Unmet(StrEnum):
    """Why a rule was not evaluated."""

    NOT_APPLICABLE = "not applicable"
    """The rule does not apply to this training: another hardware, framework, model or kind of data."""
    NOT_ENOUGH_DATA = "not enough data yet"
    """More steps, or a longer run, would do."""
    NEEDS_SETTING = "needs a setting"
    """The user can change it; `NotEvaluated.feed` says how."""
    FAILED = "failed"
    """The rule itself raised an error."""


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that was not evaluated, and what it needs.

    Attributes:
        code: Code of the rule.
        rule: Name of the rule.
        reason: Why it was not evaluated.
        feed: The setting or the line of code that provides its data.
        status: Kind of the reason.
    """

    code: str
    rule: str
    reason: str
    feed: str = field(default="")
    status: Unmet = Unmet.NOT_ENOUGH_DATA

    @property
    def in_part(self) -> bool:
        """Whether the rule was evaluated on part of its data."""
        return self.reason.startswith("In part")
