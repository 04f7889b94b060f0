"""Actions taken because of findings: requests in the run that the training process reads and carries out.

Requests are idempotent: a request is an object named after the finding, created once. The training process writes its
result as another object, which the watcher reports.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Protocol

from barograph.model.actions import INTERVENTIONS, ActionName, LowerLr, SkipStep
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import Finding, Severity
from barograph.model.notify import at_least
from barograph.model.recorder import RecorderSettings
from barograph.model.settings import Settings
from barograph.rules.registry import actions_by_rule, codes_of
from barograph.runs.state.control import CHECKPOINT, Request, read_requests, read_stop, request, request_stop
from barograph.store.base import Store


class Action(Protocol):
    """Requests something from the training when a finding opens while the run continues."""

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """Request the action; repeated calls have the effect of one.

        Args:
            finding: The finding that opened.
            store: The run.
            lead: The main finding of its problem, which the request names as the reason; None: the finding itself.

        Returns:
            One sentence describing what was requested; "" if nothing was.

        Raises:
            StoreError: The request failed; the watcher retries.
        """
        ...

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """Return what `act` would have requested, for a run that has ended; "" if nothing."""
        ...


@dataclass(frozen=True)
class When:
    """Findings that trigger an action.

    Attributes:
        at_least: Lowest severity; None: only `codes` count.
        codes: Rules whose findings trigger it at any severity.
        but: Rules with their own actions; their severity is ignored.
    """

    at_least: Severity | None = Severity.COSTLY
    codes: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()

    def applies(self, finding: Finding) -> bool:
        if finding.code in self.codes:
            return True
        return self.at_least is not None and finding.code not in self.but and at_least(finding.severity, self.at_least)


@dataclass(frozen=True)
class Stop:
    """Asks the training to stop, at the first finding that is severe enough.

    Attributes:
        when: Findings that stop the training.
        checkpoint: Ask for a checkpoint first.
        clock: Provides the time of the request.
    """

    when: When = field(default_factory=When)
    checkpoint: bool = False
    clock: Clock = field(default_factory=SystemClock)
    _would: dict[int, str] = field(default_factory=dict)

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """Write the request to the store; the training process polls it and stops between two steps."""
        if not self.when.applies(finding):
            return ""
        if read_stop(store, attempt=finding.attempt) is not None:
            return ""
        request_stop(store, reason=_reason(lead or finding), finding_id=finding.id, attempt=finding.attempt,
                     clock=self.clock, checkpoint=self.checkpoint)
        first = "save a checkpoint and " if self.checkpoint else ""
        return f"asked the training to {first}stop, because of {_named(lead or finding)}"

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """See `Action.would`: the first finding of an attempt would have stopped the training."""
        if not self.when.applies(finding) or self._would.setdefault(finding.attempt, finding.id) != finding.id:
            return ""
        first = "had a checkpoint saved and " if self.checkpoint else ""
        return (f"would have {first}stopped the training at step {finding.opened_step}, because of "
                f"{_named(lead or finding)}")


@dataclass(frozen=True)
class LowerLearningRate:
    """Asks the training to lower its learning rates.

    A finding from before the rates were lowered does not lower them again: there is one request until the training has
    lowered them, then requests only for findings that open at a later step.

    Attributes:
        when: Findings that trigger it.
        how: Factor and limit.
        clock: Provides the time of the request.
    """

    when: When = field(default_factory=When)
    how: LowerLr = field(default_factory=LowerLr)
    clock: Clock = field(default_factory=SystemClock)
    _would: dict[tuple[int, str, str], list[str]] = field(default_factory=dict)

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """See `Action.act`."""
        if not self.when.applies(finding):
            return ""
        asked = _asked(store, ActionName.LOWER_LR, finding)
        if len(asked) >= self.how.at_most or any(
                not item.done or item.last_done_step >= finding.opened_step for item in asked):
            return ""
        options = {name: value for name, value in asdict(self.how).items() if name != "at_most"}
        _request(store, ActionName.LOWER_LR, finding, lead, options, self.clock)
        return f"asked the training to {self._what()}, because of {_named(lead or finding)}"

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """See `Action.would`."""
        name = (finding.attempt, finding.worker, finding.optimizer)
        if not self.when.applies(finding) or not _room(self._would.setdefault(name, []), finding, self.how.at_most):
            return ""
        return f"would have asked at step {finding.opened_step} to {self._what()}, because of {_named(lead or finding)}"

    def _what(self) -> str:
        return f"multiply the learning rate by {self.how.factor:g}"


@dataclass(frozen=True)
class SkipSteps:
    """Asks the training to withhold its next updates.

    Attributes:
        when: Findings that trigger it.
        how: Number of steps and limit.
        clock: Provides the time of the request.
    """

    when: When = field(default_factory=When)
    how: SkipStep = field(default_factory=SkipStep)
    clock: Clock = field(default_factory=SystemClock)
    _would: dict[tuple[int, str, str], list[str]] = field(default_factory=dict)

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """See `Action.act`."""
        if not self.when.applies(finding) or len(_asked(store, ActionName.SKIP_STEP, finding)) >= self.how.at_most:
            return ""
        if not _request(store, ActionName.SKIP_STEP, finding, lead, {"steps": self.how.steps}, self.clock):
            return ""
        return f"asked the training to {self._what()}, because of {_named(lead or finding)}"

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """See `Action.would`."""
        name = (finding.attempt, finding.worker, finding.optimizer)
        if not self.when.applies(finding) or not _room(self._would.setdefault(name, []), finding, self.how.at_most):
            return ""
        return f"would have asked at step {finding.opened_step} to {self._what()}, because of {_named(lead or finding)}"

    def _what(self) -> str:
        return "skip the next step" if self.how.steps == 1 else f"skip the next {self.how.steps} steps"


@dataclass(frozen=True)
class SaveStep:
    """Asks the training to save a step as a capsule: the first step of a finding, the one it opened at, or the next
    one.

    Attributes:
        when: Findings that trigger it.
        at_most: Limit per attempt.
        clock: Provides the time of the request.
    """

    when: When = field(default_factory=When)
    at_most: int = 10
    clock: Clock = field(default_factory=SystemClock)
    _would: dict[tuple[int, str, str], list[str]] = field(default_factory=dict)

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """See `Action.act`."""
        if not self.when.applies(finding) or len(_asked(store, ActionName.CAPSULE, finding)) >= self.at_most:
            return ""
        if not _request(store, ActionName.CAPSULE, finding, lead, {"step": float(finding.opened_step),
                                                                    "since": float(finding.since_step)}, self.clock):
            return ""
        return f"asked the training to save {self._what(finding)}, because of {_named(lead or finding)}"

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """See `Action.would`."""
        name = (finding.attempt, finding.worker, finding.optimizer)
        if not self.when.applies(finding) or not _room(self._would.setdefault(name, []), finding, self.at_most):
            return ""
        return f"would have asked to save {self._what(finding)}, because of {_named(lead or finding)}"

    @staticmethod
    def _what(finding: Finding) -> str:
        steps = dict.fromkeys((finding.since_step, finding.opened_step))
        return f"step {', or '.join(map(str, steps))}, or the next one, as a capsule"


@dataclass(frozen=True)
class SaveCheckpoint:
    """Asks the training to save a checkpoint and continue.

    A pending request covers all findings that open meanwhile.

    Attributes:
        when: Findings that trigger it.
        clock: Provides the time of the request.
    """

    when: When = field(default_factory=When)
    clock: Clock = field(default_factory=SystemClock)

    def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
        """See `Action.act`."""
        if not self.when.applies(finding) or any(not item.done for item in _asked(store, CHECKPOINT, finding)):
            return ""
        _request(store, CHECKPOINT, finding, lead, {}, self.clock)
        return f"asked the training to save a checkpoint, because of {_named(lead or finding)}"

    def would(self, finding: Finding, lead: Finding | None = None) -> str:
        """See `Action.would`."""
        if not self.when.applies(finding):
            return ""
        return f"would have had a checkpoint saved at step {finding.opened_step}, because of {_named(lead or finding)}"


def actions_from_settings(settings: Settings) -> list[Action]:
    """Return the actions that the settings define for findings.

    `on_finding` applies to costly and breaking findings. A rule with its own `actions` triggers these at any severity,
    and no others. Checkpoints saved because of findings follow `on_finding`.

    Raises:
        UnknownName: A rule or an action does not exist.
    """
    own = actions_by_rule(settings)
    asked = {action for actions in own.values() for action in actions}
    if settings.on_finding != "notify":
        asked.add(ActionName(settings.on_finding))
    if settings.recorder is not None and settings.recorder.capsule_on:
        asked.add(ActionName.CAPSULE)
    saves = [SaveCheckpoint()] if settings.checkpoints is not None and settings.checkpoints.at_findings else []
    return [*saves, *(_action(name, _when(name, settings, own), settings)
                      for name in sorted(asked, key=list(ActionName).index, reverse=True))]


def asked_and_not_allowed(settings: Settings) -> list[ActionName]:
    """Return the requested actions that change a training and that the settings do not allow.

    Raises:
        As `actions_from_settings`.
    """
    asked = {settings.on_finding, *(action for actions in actions_by_rule(settings).values() for action in actions)}
    return [name for name in INTERVENTIONS if name in asked and name not in settings.allow]


def _when(name: ActionName, settings: Settings, own: dict[str, tuple[ActionName, ...]]) -> When:
    codes = frozenset(code for code, actions in own.items() if name in actions)
    if name is ActionName.CAPSULE and settings.recorder is not None:
        # In addition to the rule's other actions.
        codes |= codes_of(settings.recorder.capsule_on, settings)
    return When(Severity.COSTLY if settings.on_finding == name else None, codes, frozenset(own))


def _action(name: ActionName, when: When, settings: Settings) -> Action:
    how = settings.action_settings
    match name:
        case ActionName.STOP | ActionName.CHECKPOINT_THEN_STOP:
            return Stop(when, name is ActionName.CHECKPOINT_THEN_STOP)
        case ActionName.LOWER_LR:
            return LowerLearningRate(when, how.lower_lr)
        case ActionName.SKIP_STEP:
            return SkipSteps(when, how.skip_step)
        case ActionName.CAPSULE:
            return SaveStep(when, (settings.recorder or RecorderSettings()).at_most)


def _asked(store: Store, action: str, finding: Finding) -> list[Request]:
    """Return earlier requests for this action from the workers of the finding, including other watchers' requests."""
    return [item for item in read_requests(store, attempt=finding.attempt) if item.action == action
            and item.worker == finding.worker and item.optimizer == finding.optimizer]


def _request(
    store: Store, action: str, finding: Finding, lead: Finding | None, options: dict[str, float], clock: Clock
) -> bool:
    return request(store, Request(
        str(action), finding.id, _reason(lead or finding), finding.attempt, clock.unix(),
        finding.worker, finding.optimizer, options,
    ))


def _reason(finding: Finding) -> str:
    return f"{_named(finding)}: {finding.message}"


def _named(finding: Finding) -> str:
    return f"{finding.code} {finding.rule}"


def _room(asked: Iterable[str], finding: Finding, at_most: int) -> bool:
    known = list(asked)
    return finding.id in known or len(known) < at_most
