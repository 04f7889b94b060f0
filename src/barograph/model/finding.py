"""What is wrong: the thing a Rule yields, the watcher keeps, and people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from barograph.model.cause import Suspicion
from barograph.model.key import Key, key_from_text
from barograph.model.step import Mode


class Severity(StrEnum):
    """How much the user loses."""

    BREAKING = "breaking"
    """The run is lost."""
    COSTLY = "costly"
    """It wastes money."""
    DOUBTFUL = "doubtful"
    """Worth a look."""
    NOTE = "note"
    """Good to know."""


SEVERITY_ORDER = tuple(Severity)
"""From the worst to the least."""


class FindingState(StrEnum):
    """Where a finding stands."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number that speaks for a finding.

    Attributes:
        key: What it was measured on; None for the run as a whole.
        step: User's step it was measured at.
        statistic: Name of the number ("mean_abs", "nan", "ratio").
        value: The number.
        threshold: What it was held against; NaN where nothing was.
        text: One line for a person, without the key and step.
    """

    key: Key | None
    step: int
    statistic: str
    value: float
    threshold: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What a rule says of one step: here it is wrong. The loop makes findings of symptoms.

    Attributes:
        message: One sentence: what is wrong and where.
        remedy: What to do, concretely, in this run.
        evidence: The worst few, worst first.
        subject: Tells apart faults of one rule that open and close on their own; "" where a rule knows
            one fault a run.
        since: Step the fault began, where the rule knows it was before this one; None: this step.
        causes: What may be behind it, strongest first.
        severity: How bad, where that depends on what was seen; None: as the rule says.
        counting: The message counts what was seen so far. The finding takes each new message and stays open until
            the run ends.
    """

    message: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()
    subject: str = ""
    since: int | None = None
    causes: tuple[Suspicion, ...] = ()
    severity: Severity | None = None
    counting: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of one run, from the step it began to the step it was gone.

    Attributes:
        id: Same in live and in replay: of code, worker, attempt, optimizer, mode, subject and first step.
        code: Of the rule, "G101".
        rule: Name of the rule, "vanishing-gradient".
        severity: How bad.
        state: Open or closed.
        message: One sentence: what is wrong and where.
        remedy: What to do.
        evidence: What was seen when it opened, worst first.
        subject: See `Symptom`.
        worker: Where it was seen.
        optimizer: Whose step it was seen in.
        mode: Mode it was seen in.
        since_step: First step that showed it.
        opened_step: Step at which patience was used up and it opened.
        last_step: Last step that showed it.
        closed_step: Step at which it had been gone long enough; None while open.
        opened_unix: Wall time of `opened_step` by the worker's clock.
        attempt: Which life of the run it was opened in, from 0.
        causes: What may be behind it in this run, strongest first.
        why: Why it matters, as the rule's page says; "" where the rule has none.
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
        """Return it as plain JSON data; NaN thresholds become null."""
        data = asdict(self)
        data["evidence"] = [
            {**asdict(item), "key": str(item.key) if item.key else None, "threshold": _number(item.threshold),
             "value": _number(item.value)}
            for item in self.evidence
        ]
        return data


class Findings(tuple[Finding, ...]):
    """Findings of a run, one after the other; a notebook shows them drawn.

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
    """Return the finding that `Finding.to_json` wrote.

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
    return Finding(**{**data, "evidence": evidence, "causes": causes, "severity": Severity(data["severity"]),
                      "state": FindingState(data["state"]), "mode": Mode(data["mode"])})


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that saw nothing it could judge, and what would feed it.

    Attributes:
        code: Of the rule.
        rule: Its name.
        reason: Why it could not be evaluated.
        feed: The setting or the line that would feed it.
    """

    code: str
    rule: str
    reason: str
    feed: str = field(default="")

    @property
    def in_part(self) -> bool:
        """Whether the rule has judged some of what it is for."""
        return self.reason.startswith("In part")
