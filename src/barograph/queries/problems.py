"""Problems of a run: its findings, grouped by cause.

One fault causes many findings. A problem is a cause, the findings that are evidence for it, and those that follow from
it. If findings have only usual suspects, the cause is unknown, and the problem says how to find it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from barograph.judging.progress import RateJump
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import SEVERITY_ORDER, Finding, FindingState, Severity
from barograph.queries.causes import credit_of, diagnose
from barograph.queries.consequences import (
    AFTER_SYMPTOM,
    BEGIN_LATER,
    BY_LARGE_STEPS,
    CAUSES_AFTER,
    DIRECTIONS,
    LEARNS_ANYWAY,
    NOTHING_LEARNED,
    PRESUME_LEARNING,
    RULES_AFTER,
    SEEN_IN_SCRIPT,
    SYMPTOMS,
    WITNESSES,
)
from barograph.queries.remedies import Remedy, remedy_of, without_conflicts
from barograph.queries.titles import SURE, beyond, cause_in_words, rule_in_words, says, tidy, title_of
from barograph.rules.words import number, sentence

KNOWN = 0.2
"""A suspicion must be stronger to count: weaker ones are usual suspects without evidence in the run."""

_RIVAL = 0.6
"""A finding with a cause this strong follows from no other cause, unless its own cause does."""

_NEARLY = 0.65
"""A cause replaces its consequence as the root if its weight is at least this share of the consequence's."""

_OF_A_JUMP = 0.95
_SOON_STEPS = 100
"""Steps after a jump of the learning rate within which the first finding must open to be explained by it."""

EVIDENCE_LINES = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a run.

    Attributes:
        title: The problem in one line.
        cause: Name of the cause, one of `Cause` or a custom one; "" if unknown.
        weight: Strength of the evidence for it, from 0 to 1.
        severity: Worst severity of its findings.
        state: Open while one of its findings is open.
        since_step: First step that showed it.
        evidence: At most two lines; none if the title says it all.
        remedy: What to do; if the cause is unknown, how to find it.
        findings: All its findings: the main evidence, other evidence for the cause, then consequences.
        consequences: Names of the rules whose findings follow from it, in order of opening; without those that would
            say that a model overfits which cannot learn.
    """

    title: str
    cause: str
    weight: float
    severity: Severity
    state: FindingState
    since_step: int
    evidence: tuple[str, ...]
    remedy: Remedy
    findings: tuple[Finding, ...]
    consequences: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Stable while its cause and its first finding are the same."""
        return f"{self.cause or 'unknown'}-{self.findings[0].id}"

    @property
    def leads_to(self) -> tuple[str, ...]:
        """Its consequences in words, such as "dead ReLU"."""
        return tuple(map(rule_in_words, self.consequences))

    def to_json(self) -> dict[str, Any]:
        """Return the problem as plain JSON data, findings by id."""
        remedy = asdict(self.remedy)
        remedy["direction"] = None if self.remedy.direction is None else self.remedy.direction.name.lower()
        return {
            "id": self.id, "title": self.title, "cause": self.cause, "weight": self.weight,
            "severity": self.severity.value, "state": self.state.value, "since_step": self.since_step,
            "evidence": list(self.evidence), "remedy": remedy, "findings": [item.id for item in self.findings],
            "consequences": list(self.consequences), "leads_to": list(self.leads_to),
        }


@dataclass(frozen=True, slots=True)
class _Group:
    """A cause with its findings; `cause` is None if unknown."""

    cause: Suspicion | None
    direct: tuple[Finding, ...]
    after: tuple[Finding, ...]
    jump: RateJump | None = None


def problems_of(findings: Iterable[Finding], jumps: Sequence[RateJump] = ()) -> tuple[Problem, ...]:
    """Return the problems of one run: open ones first, then by strength of evidence, notes last.

    Args:
        findings: Findings of one run, in any order.
        jumps: Steps at which its learning rate jumped.

    Example:
        >>> problems_of([])
        ()
    """
    remaining, blamed = _with_jumps(tuple(_without_misreadings(tuple(findings))), jumps)
    groups: list[_Group] = []
    while (cause := _root_of(remaining)) is not None:
        group = _group_of(cause, remaining, blamed)
        groups.append(group)
        taken = {item.id for item in (*group.direct, *group.after)}
        remaining = [item for item in remaining if item.id not in taken]
    groups = _with_symptoms(groups, remaining)
    evidenced = sorted((_problem_of(group) for group in groups), key=lambda item: -item.weight)
    remedies = without_conflicts([(item.title, item.remedy) for item in evidenced])
    resolved = [replace(item, remedy=remedy) for item, remedy in zip(evidenced, remedies, strict=True)]
    return tuple(sorted(resolved, key=_rank))


def lead_findings(problems: Iterable[Problem]) -> dict[str, Finding]:
    """Return the main finding of each finding's problem, by the ID of the finding, the worst problem first.

    Example:
        >>> lead_findings([])
        {}
    """
    return {item.id: problem.findings[0] for problem in problems for item in problem.findings}


def _rank(problem: Problem) -> tuple[bool, bool, bool, bool, float, int, int]:
    # Strongest evidence first, since others may follow from it; but a broken run of unknown cause before all.
    lost = problem.severity is Severity.BREAKING and not problem.cause
    return (problem.state is not FindingState.OPEN, problem.cause == Cause.SCRIPT_ERROR,
            problem.severity is Severity.NOTE, not lost, -problem.weight, SEVERITY_ORDER.index(problem.severity),
            problem.since_step)


def _without_misreadings(findings: tuple[Finding, ...]) -> Iterable[Finding]:
    """Yield the findings; those of a model that does not learn blame no labels if gradients are zero from the start.

    The rules about losses see updates of a usual size, but not that some parameters get none.
    """
    stuck = {item.worker: item.opened_step for item in findings
             if item.code == "W104" and item.subject == "gradient zero" and item.severity is not Severity.NOTE
             and item.state is FindingState.OPEN}
    for item in findings:
        if item.code in NOTHING_LEARNED and stuck.get(item.worker, math.inf) < item.opened_step:
            kept = tuple(cause for cause in item.causes
                         if cause.cause != Cause.LABELS_UNRELATED or cause.weight >= _RIVAL)
            item = replace(item, causes=kept)
        yield item


def _with_jumps(
    findings: tuple[Finding, ...], jumps: Sequence[RateJump]
) -> tuple[list[Finding], Mapping[str, RateJump]]:
    """Return the findings, blaming jumps of the learning rate where they explain them, and the jumps by id."""
    blamed: dict[str, RateJump] = {}
    for jump in jumps:
        hit = [item for item in findings if item.worker == jump.worker and item.code in BY_LARGE_STEPS
               and item.opened_step >= jump.step]
        if hit and min(item.opened_step for item in hit) - jump.step <= _SOON_STEPS:
            blamed.update({item.id: jump for item in hit})
    return [_blaming(item, blamed[item.id]) if item.id in blamed else item for item in findings], blamed


def _blaming(finding: Finding, jump: RateJump) -> Finding:
    old, new = number(jump.old), number(jump.new)
    suspicion = Suspicion(
        Cause.LEARNING_RATE_TOO_HIGH, _OF_A_JUMP, f"the learning rate is {new} from step {jump.step} on",
        f"Keep the learning rate at {old}: find what sets it to {new} {jump.when} (the scheduler, or "
        "optimizer.param_groups).")
    others = tuple(item for item in finding.causes if item.cause != Cause.LEARNING_RATE_TOO_HIGH)
    return replace(finding, causes=(suspicion, *others), since_step=max(finding.since_step, jump.step))


def _root_of(findings: Sequence[Finding]) -> Suspicion | None:
    """Return the cause that explains most remaining findings: the one with the strongest evidence, or its own cause."""
    known = [item for item in diagnose(findings) if any(_own(found).get(item.cause) for found in findings)]
    if not known:
        return None
    root = known[0]
    if any(_seen_in_script(item) == root.cause for item in findings):
        return root
    for other in known[1:]:
        follows = root.cause in CAUSES_AFTER.get(other.cause, ())
        mutual = other.cause in CAUSES_AFTER.get(root.cause, ()) or _exclude_each_other(other.cause, root.cause)
        onset = _onset(root.cause, findings)
        earlier = _onset(other.cause, findings) <= onset
        weight = max(other.weight, _weight_at(onset, other.cause, findings))
        if follows and not mutual and earlier and weight >= max(SURE, _NEARLY * root.weight):
            root = replace(other, weight=weight)
    return root


def _weight_at(step: int, cause: str, findings: Iterable[Finding]) -> float:
    """Return the evidence for a cause in findings open at a step: what they brought about may outlast them."""
    return max((_own(item).get(cause, 0.0) * credit_of(replace(item, state=FindingState.OPEN)) for item in findings
                if item.closed_step is None or item.closed_step >= step), default=0.0)


def _exclude_each_other(one: str, other: str) -> bool:
    if one not in DIRECTIONS or other not in DIRECTIONS:
        return False
    (setting, way), (other_setting, other_way) = DIRECTIONS[one], DIRECTIONS[other]
    return setting == other_setting and way is not other_way


def _own(finding: Finding) -> dict[str, float]:
    """Return the causes that the finding has evidence for, with their weights."""
    return {item.cause: item.weight for item in finding.causes if item.weight > KNOWN}


def _seen_in_script(finding: Finding) -> str:
    """Return the cause that the finding has seen in what the script does; "": none."""
    seen = SEEN_IN_SCRIPT.get(finding.code, ())
    return next((name for name, weight in _own(finding).items() if name in seen and weight >= SURE), "")


def _supports(finding: Finding, cause: str) -> bool:
    own = _own(finding)
    return cause in own and own[cause] >= max(own.values())


def _onset(cause: str, findings: Iterable[Finding]) -> int:
    """Return the first step at which a cause could act."""
    return min((item.since_step for item in findings if cause in _own(item)), default=0)


def _group_of(cause: Suspicion, findings: Sequence[Finding], blamed: Mapping[str, RateJump]) -> _Group:
    name = cause.cause
    direct = [item for item in findings if _supports(item, name)] or [item for item in findings if name in _own(item)]
    jump = blamed.get(direct[0].id) if name == Cause.LEARNING_RATE_TOO_HIGH else None
    begins = jump is not None or name in BEGIN_LATER
    onset = _onset(name, direct) if begins else 0
    workers = {item.worker for item in direct}
    ids = {item.id for item in direct}
    after = [item for item in findings if item.id not in ids and item.worker in workers
             and item.opened_step >= onset and _follows(item, name)]
    direct.sort(key=lambda item: _rank_of_witness(item, name))
    if jump is not None:
        # Everything follows from the jump; the first finding is its evidence.
        first, *others = sorted(direct, key=_by_opening)
        direct, after = [first], [*others, *after]
    after.sort(key=_by_opening)
    return _Group(cause, tuple(direct), tuple(after), jump)


def _by_opening(finding: Finding) -> tuple[int, str]:
    return finding.opened_step, finding.id


def _rank_of_witness(finding: Finding, cause: str) -> tuple[int, float, int, str]:
    witnesses = WITNESSES.get(cause, ())
    place = witnesses.index(finding.code) if finding.code in witnesses else len(witnesses)
    return place, -_own(finding)[cause] * credit_of(finding), finding.opened_step, finding.id


def _follows(finding: Finding, cause: str) -> bool:
    if _seen_in_script(finding) not in ("", cause):
        return False
    own = _own(finding)
    causes_after = CAUSES_AFTER.get(cause, frozenset())
    mine = own.get(cause, 0.0)
    if any(weight >= _RIVAL and weight > mine and name not in causes_after for name, weight in own.items()):
        return False
    if cause in own or finding.code in RULES_AFTER.get(cause, ()):
        return True
    # A weak suspicion beside a strong one makes no problem of its own.
    strong = {name for name, weight in own.items() if weight >= SURE} or own.keys()
    return bool(own) and strong <= causes_after


def _with_symptoms(groups: list[_Group], unexplained: Iterable[Finding]) -> list[_Group]:
    """Return the groups with the findings of unknown cause added: to the group they follow from, or as their own."""
    order = {code: place for place, code in enumerate(SYMPTOMS)}
    found = list(groups)
    for finding in sorted(unexplained, key=lambda item: (order.get(item.code, len(order)), item.opened_step, item.id)):
        place = next((place for place, group in enumerate(found) if _belongs(finding, group)), None)
        if place is None:
            found.append(_Group(None, (finding,), ()))
        else:
            group = found[place]
            same = group.cause is None and group.direct[0].code == finding.code
            found[place] = replace(group, direct=(*group.direct, finding)) if same else replace(
                group, after=(*group.after, finding))
    return found


def _belongs(finding: Finding, group: _Group) -> bool:
    if finding.worker not in {item.worker for item in group.direct}:
        return False
    return any(
        (finding.code in AFTER_SYMPTOM.get(item.code, ()) and finding.opened_step >= item.since_step)
        or (group.cause is None and finding.code == item.code)
        for item in group.direct
    )


def _problem_of(group: _Group) -> Problem:
    lead = group.direct[0]
    members = (*group.direct, *group.after)
    still_open = [item for item in members if item.state is FindingState.OPEN]
    return Problem(
        title=_title(group, lead), cause=group.cause.cause if group.cause else "",
        weight=group.cause.weight if group.cause else 0.0,
        severity=min((item.severity for item in still_open or members), key=SEVERITY_ORDER.index),
        state=FindingState.OPEN if still_open else FindingState.CLOSED,
        since_step=group.jump.step if group.jump else min(item.since_step for item in group.direct),
        evidence=_evidence(group, lead), remedy=_remedy(group, lead), findings=members,
        consequences=_consequences(group, lead),
    )


def _consequences(group: _Group, lead: Finding) -> tuple[str, ...]:
    learns = lead.code in PRESUME_LEARNING or (group.cause is not None and group.cause.cause in LEARNS_ANYWAY)
    unnamed = _ORIGINS if learns else _ORIGINS | PRESUME_LEARNING
    others = sorted((*group.direct[1:], *group.after), key=_by_opening)
    return tuple(dict.fromkeys(item.rule for item in others if item.rule != lead.rule and item.code not in unnamed))


def _title(group: _Group, lead: Finding) -> str:
    if group.jump is not None:
        return f"The learning rate jumped from {number(group.jump.old)} to {number(group.jump.new)} {group.jump.when}"
    if group.cause is None:
        return title_of("", 0.0, lead)
    title = title_of(group.cause.cause, group.cause.weight, lead)
    rate = _remedy(group, lead).old
    states_it = group.cause.cause == Cause.LEARNING_RATE_TOO_HIGH and group.cause.weight >= SURE
    return f"{title} ({number(rate)})" if states_it and rate is not None else title


def _evidence(group: _Group, lead: Finding) -> tuple[str, ...]:
    title, cause = _title(group, lead), group.cause
    message = tidy(lead.message)
    # The text of an error stays as it is, since users search for it.
    error = cause is not None and cause.cause == Cause.SCRIPT_ERROR
    rest = beyond(title, message) if not error else message if message != title else ""
    lines = [rest] if rest else []
    if cause is not None and group.jump is None:
        why = tidy(next((item.why for item in lead.causes if item.cause == cause.cause and item.why), cause.why))
        is_new = not says(f"{title} {message}", why)
        in_words = cause_in_words(cause.cause)
        if cause.weight >= SURE:
            lines = [*([sentence(why)] if is_new else []), *lines]
        elif is_new or not says(title, in_words):
            lines.append(f"Likely cause: {in_words}{f' ({why})' if is_new else ''}")
    return tuple(lines[:EVIDENCE_LINES])


def _remedy(group: _Group, lead: Finding) -> Remedy:
    if group.cause is None:
        return remedy_of("", tidy(_TO_FIND_OUT.get(lead.code, lead.remedy)))
    if group.jump is not None:
        text = group.cause.remedy
        return replace(remedy_of(group.cause.cause, text), old=group.jump.new, new=group.jump.old)
    # Of the main evidence, so that the value to try belongs to what is shown and does not change as others follow.
    own = next((item.remedy for item in lead.causes if item.cause == group.cause.cause), "")
    return remedy_of(group.cause.cause, tidy(own or group.cause.remedy or lead.remedy))


_ORIGINS = frozenset({"N102"})
"""Rules that find where something began, which is not a consequence of it."""
_TO_FIND_OUT = {
    "N101": "Run again with --record, then `barograph replay RUN` names the operation and the sample.",
    "N102": "Run again with --record, then `barograph replay RUN` names the operation and the sample.",
}
"""Advice for finding an unknown cause, by the code of the main finding."""
