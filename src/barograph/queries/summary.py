"""The summary of a run: problems found, cost of recording, and how much of the run was recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from barograph.errors import DamagedChunk, NotARun, ObjectNotFound
from barograph.judging.judged import Judged
from barograph.judging.progress import Progress, RateJump
from barograph.model.capsule import CapsuleHead
from barograph.model.cause import Suspicion
from barograph.model.finding import SEVERITY_ORDER, Finding, FindingState, NotEvaluated
from barograph.model.key import Kind
from barograph.model.manifest import Coverage, Ending, EndState, Heartbeat, Worker
from barograph.model.origin import Untrained
from barograph.model.plain import plain
from barograph.queries.causes import diagnose
from barograph.queries.preset_advice import advised
from barograph.queries.problems import Problem, problems_of
from barograph.queries.wording import not_evaluated_lines
from barograph.rules.base import Rule
from barograph.rules.frameworks import finding_for
from barograph.rules.words import sentence
from barograph.runs.format.layout import ENDINGS, MANIFEST, metadata_name
from barograph.runs.format.metadata import ending_from_bytes, manifest_from_bytes
from barograph.runs.reading.view import group_of
from barograph.runs.state.capsules import withheld_steps
from barograph.runs.state.checkpoints import steps_to_go_on_from
from barograph.runs.state.claim import attempts_of, workers_of
from barograph.runs.state.control import STOP, read_answers, read_requests, read_stop
from barograph.runs.state.origins import read_untrained
from barograph.runs.state.process import is_alive, process_of
from barograph.runs.state.vitals import heartbeat_of
from barograph.store.base import Store
from barograph.store.failures import NO_SPACE


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """State and coverage of one worker.

    Attributes:
        name: Name of the worker.
        state: How it ended; None if it published no ending.
        word: "finished", "stopped", "failed"; "running", "killed", "cut off" (ended while the store was full), or
            "silent" if unknown.
        reason: Why it ended, for people.
        last: Its last heartbeat; None if none can be read.
        published, published_seen: Steps in its records, and those of them with tensors. If it was killed, they may be
            more than in its last heartbeat. 0 if other workers recorded the same steps.
        lost: Steps that it made and did not publish before it was killed, as far as known.
        loaded: Frameworks that it had loaded when it began to record.
    """

    name: str
    state: EndState | None
    word: str
    reason: str
    last: Heartbeat | None
    published: int = 0
    published_seen: int = 0
    lost: int = 0
    loaded: frozenset[str] = frozenset()

    @property
    def steps(self) -> int:
        """Optimizer steps made, as far as known."""
        return max(self.published, self.last.coverage.steps if self.last else 0)

    @property
    def steps_seen(self) -> int:
        """Steps whose tensors were recorded."""
        seen = self.last.coverage.steps_seen if self.last and not self.lost else 0
        return max(self.published_seen, seen)


_NO_RESPONSE_YET = "no response yet"


@dataclass(frozen=True, slots=True)
class ActionTaken:
    """An action requested from the training, and its result.

    Attributes:
        action: "stop", "lower-lr", "skip-step", "capsule".
        finding_id: ID of the finding that requested it; "" if a person did.
        reason: The finding in one sentence.
        requested_unix: Time of the request.
        worker: Worker that responded; "" if none has yet.
        step: Optimizer steps made when it was done; None if it is not done.
        done_unix: Time when it was done; None if it is not done.
        result: What was done, or why it was not.
        done: Whether it was done.
    """

    action: str
    finding_id: str
    reason: str
    requested_unix: float
    worker: str = ""
    step: int | None = None
    done_unix: float | None = None
    result: str = _NO_RESPONSE_YET
    done: bool = False

    @property
    def came_too_late(self) -> bool:
        """Whether the training ended before it read the request."""
        return not self.worker and self.result != _NO_RESPONSE_YET

    def __str__(self) -> str:
        who = f"{self.worker} " if self.worker else ""
        when = f" after {self.step} steps" if self.step is not None else ""
        return f"{self.action}, requested by {self.reason.partition(': ')[0] or 'a person'}: {who}{self.result}{when}"


NOTHING_RECORDED = "0 training steps were recorded."

OF_TENSORS = "Tensors were recorded at "
"""Start of the sentence about steps whose tensors the budget skipped."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a watched run.

    Attributes:
        url: URL of the run.
        attempt: Number of the attempt, from 0.
        steps: Steps that were evaluated.
        findings: All findings: open ones first, then by severity, then by age.
        rules: Codes of the rules that ran.
        not_evaluated: Rules that could not be evaluated, entirely or in part.
        warnings: Problems of the watching itself.
        workers: One report per worker.
        unseen: What was not recorded and why, a sentence each. Empty if everything was recorded except steps skipped on
            purpose.
        incidents: Damaged or lost records and abnormal ends, a sentence each.
        actions: Actions requested from the training, with their results.
        would_have: Actions that would have been requested if the run had continued: finding ID and one sentence.
        held: Steps of this attempt whose update was withheld and whose capsules can be read, in order.
        go_on_from: Steps made at the last checkpoint that an unfinished attempt can resume from; None if it has
            finished, still runs, or saved none.
        rate_jumps: Jumps of the learning rate.
        untrained: What is known of the script if it ended without a training step.
        logged: Number of metrics that a script without training steps and evaluations logged.
    """

    url: str
    attempt: int
    steps: int
    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    not_evaluated: tuple[NotEvaluated, ...]
    warnings: tuple[str, ...]
    workers: tuple[WorkerReport, ...]
    unseen: tuple[str, ...]
    actions: tuple[ActionTaken, ...] = ()
    would_have: tuple[tuple[str, str], ...] = ()
    held: tuple[CapsuleHead, ...] = ()
    go_on_from: int | None = None
    rate_jumps: tuple[RateJump, ...] = ()
    incidents: tuple[str, ...] = ()
    untrained: Untrained | None = None
    logged: int = 0

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems with their findings, the worst first."""
        return problems_of(self.findings, self.rate_jumps)

    @property
    def diagnosis(self) -> tuple[Suspicion, ...]:
        """Likely causes of the findings, the likeliest first."""
        return diagnose(self.findings)

    @property
    def verdict(self) -> str:
        """Number of problems and the worst one, or "No problems found" with what was not recorded; then held steps."""
        if not self.held:
            return self._verdict_of_rules
        return f"{self._verdict_of_rules} {_counted(len(self.held), 'step')} held by the flight recorder."

    @property
    def trained(self) -> bool:
        """Whether a training step was recorded, or may have been by a worker without a readable heartbeat."""
        return any(item.last is None or item.steps for item in self.workers) or self.steps > 0

    @property
    def may_train(self) -> bool:
        """Whether the script may train without being seen: it has a loop and a framework, or nothing is known of it."""
        if self.untrained is None:
            return True
        return self.untrained.loops and bool(self.untrained.frameworks) and not self.untrained.error

    @property
    def _verdict_of_rules(self) -> str:
        if problems := self.problems:
            gone = sum(item.state is not FindingState.OPEN for item in problems)
            over = "" if not gone else " (gone)" if gone == len(problems) == 1 else f" ({gone} of them gone)"
            return f"{_counted(len(problems), 'problem')}{over}: {problems[0].title}."
        if not self.trained:
            return NOTHING_RECORDED if self.untrained is None else _untrained_line(self.untrained)
        if self.incidents:
            # Who reads only the beginning must not take such a run for a healthy one.
            rest = "The rest shows no problems." if self.steps else "Nothing could be evaluated."
            return f"{_first_of(self.incidents)} {rest}"
        if self.logged:
            return f"{_counted(self.logged, 'metric')} logged; no training steps recorded."
        mute = {item.code for item in self.not_evaluated if not item.in_part}
        if len(mute) == len(self.rules):
            return f"Nothing was evaluated: {_why_none_evaluated(len(self.rules))}."
        if self.unseen:
            # Steps without tensors are normal under a budget; the sentence with the number of steps covers them.
            shown = [text for text in self.unseen if not text.startswith(OF_TENSORS)] or list(self.unseen)
            return f"No problems found. {_first_of(shown)}"
        made, seen = steps_made_and_seen(self.workers)
        if seen < made:
            return f"No problems found. Tensors were recorded at {seen:,} of {made:,} steps{_budget(self.workers)}."
        return f"No problems found in {_counted(made, 'step')}."

    def is_said(self, reason: str) -> bool:
        """Return whether the title or the first line of evidence of a problem contains the reason of an ending."""
        return bool(reason) and any(
            reason in text for problem in self.problems for text in (problem.title, *problem.evidence[:1]))

    def but_not_seen(self, *lines: str) -> RunSummary:
        """Return a copy with more sentences in `unseen`."""
        return replace(self, unseen=tuple(dict.fromkeys((*self.unseen, *lines))))

    def but_damaged(self, *lines: str) -> RunSummary:
        """Return a copy with more sentences in `incidents` and `unseen`."""
        return replace(self.but_not_seen(*lines), incidents=tuple(dict.fromkeys((*lines, *self.incidents))))

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data: NaN as None, infinities as "inf" and "-inf"."""
        data: dict[str, Any] = plain({
            "url": self.url, "attempt": self.attempt, "steps": self.steps, "verdict": self.verdict,
            "problems": [item.to_json() for item in self.problems],
            "diagnosis": [asdict(item) for item in self.diagnosis],
            "findings": [item.to_json() for item in self.findings], "rules": list(self.rules),
            "not_evaluated": [asdict(item) for item in self.not_evaluated], "warnings": list(self.warnings),
            "workers": [_worker_to_json(item) for item in self.workers], "unseen": list(self.unseen),
            "actions": [asdict(item) for item in self.actions],
            "would_have": [{"finding_id": name, "text": text} for name, text in self.would_have],
            "held": [{"step": head.step, "optimizer": head.optimizer, "held": head.held, "text": head.text,
                      "capsule": head.name} for head in self.held],
            "go_on_from": self.go_on_from,
        })
        return data

    def not_evaluated_lines(self, *, whole: bool) -> list[str]:
        """Return the rules that were not evaluated and why (see `wording.not_evaluated_lines`); [] without workers."""
        return not_evaluated_lines(self.not_evaluated, whole=whole) if self.workers else []


def summary_of(store: Store, judged: Judged, *, is_complete: bool = True) -> RunSummary:
    """Return the summary of the newest attempt of the run on `store`, with its findings so far.

    Args:
        store: Store of the run.
        judged: What was evaluated.
        is_complete: It is everything that was published.

    Raises:
        StoreError: The store cannot be read.
    """
    attempt = max(attempts_of(store), default=0)
    declared = workers_of(store, attempt)
    groups = Counter(group_of(worker.name) for worker in declared)
    reports = [_report(store, worker, judged if groups[group_of(worker.name)] == 1 else None, full=judged.store_full,
                       is_complete=is_complete) for worker in declared]
    workers = tuple(item for item in reports if item.last is None or item.last.step or len(reports) == 1)
    loaded = frozenset(name for item in workers for name in item.loaded)
    findings = sorted((finding_for(item, loaded) for item in judged.findings), key=lambda item: (
        item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity), item.since_step, item.id))
    untrained = None if workers else _untrained(store, attempt)
    logged = _logged(store) if workers and not any(map(_may_have_trained, workers)) else 0
    return RunSummary(
        url=store.url, attempt=attempt, steps=judged.steps, findings=tuple(findings),
        rules=_codes(judged.rules),
        not_evaluated=advised(judged.not_evaluated, _settings(store), tensors=steps_made_and_seen(workers)[1] > 0),
        logged=logged, warnings=(*judged.problems, *judged.unmet,
                  *(text for item in workers if item.last for text in item.last.problems)),
        workers=workers, unseen=(_IF_IT_TRAINS,) if logged else tuple(_unseen(workers, judged, attempt, untrained)),
        actions=tuple(_actions(store, attempt, reports)),
        would_have=tuple((finding.id, text) for finding, text in judged.would_have),
        held=tuple(withheld_steps(store, attempt)),
        go_on_from=steps_to_go_on_from(store) if _is_cut_short(workers) else None, rate_jumps=judged.rate_jumps,
        incidents=_incidents(workers, judged),
        untrained=untrained,
    )


def steps_made_and_seen(workers: Iterable[WorkerReport]) -> tuple[int, int]:
    """Return the optimizer steps made and those whose tensors were recorded; ranks of one training count once."""
    least: dict[str, tuple[int, int]] = {}
    for worker in workers:
        if worker.last is not None:
            coverage, group = worker.last.coverage, group_of(worker.name)
            now = (coverage.steps, coverage.steps_seen)
            least[group] = min(now, least.get(group, now), key=lambda pair: pair[1])
    return sum(made for made, _ in least.values()), sum(seen for _, seen in least.values())


_CUT_OFF = "cut off"
_WHILE_FULL = "the disk was full, so its end could not be recorded"


def _report(
    store: Store, worker: Worker, judged: Judged | None, *, full: bool, is_complete: bool
) -> WorkerReport:
    """Return the report of a worker; `judged` is None if others of its group recorded, too."""
    ending = _ending(store, worker)
    if ending is not None:
        return WorkerReport(worker.name, ending.state, ending.state.value, ending.reason, ending.last,
                            loaded=frozenset(worker.versions))
    word = {True: "running", False: "killed", None: "silent"}[is_alive(process_of(worker))]
    last = heartbeat_of(store, worker)
    if word == "killed" and (full or any(text.startswith(NO_SPACE) for text in (last.problems if last else ()))):
        word = _CUT_OFF
    progress = judged.progress.get(group_of(worker.name)) if judged else None
    if progress is None or progress.attempt != worker.attempt:
        progress = Progress(worker.attempt)
    has_lost = word in ("killed", _CUT_OFF) and is_complete and progress.made > 0
    # The records of several optimizers count the busiest one.
    lost = max(0, last.step - progress.made) if has_lost and last and last.step == last.coverage.steps else 0
    return WorkerReport(worker.name, None, word, _WHILE_FULL if word == _CUT_OFF else "", last, progress.made,
                        progress.with_tensors, lost, frozenset(worker.versions))


def _is_cut_short(workers: Sequence[WorkerReport]) -> bool:
    """Return whether all workers are known to have ended and not all have finished."""
    words = {worker.word for worker in workers}
    return not words & {"running", "silent"} and bool(words - {EndState.FINISHED.value})


def _ending(store: Store, worker: Worker) -> Ending | None:
    name = metadata_name(ENDINGS, worker.name, worker.attempt)
    try:
        return ending_from_bytes(store.get(name), name)[0]
    except (ObjectNotFound, DamagedChunk):
        return None


_IF_IT_TRAINS = "If this script trains, mark each step: run.step(loss)."

_IF_LOADED = {
    "torch": "PyTorch: do not compile the optimizer with fullgraph=True.",
    "jax": "JAX: use barograph.jax.observe.",
    "tensorflow": "TensorFlow: use barograph.tensorflow.step.",
}
"""Why a training has no recorded steps, by framework."""


def _may_have_trained(worker: WorkerReport) -> bool:
    return worker.last is None or worker.steps > 0 or worker.last.coverage.evaluations > 0 or (
        worker.word != EndState.FINISHED.value)


def _logged(store: Store) -> int:
    # Here, because these import Arrow, which lists of runs do not need.
    from barograph.runs.reading.metrics import HYPERPARAMETER
    from barograph.runs.reading.reader import RunReader

    try:
        # Not by `keys`, which makes an object of each: there may be a hundred thousand.
        paths = RunReader(store).arrow(Kind.SCALAR, columns="path")["path"].unique().to_pylist()
    except (NotARun, DamagedChunk):
        return 0  # readers and the doctor report it
    return sum(not path.startswith(HYPERPARAMETER) for path in paths)


def _untrained(store: Store, attempt: int) -> Untrained | None:
    try:
        return read_untrained(store, attempt)
    except DamagedChunk:
        return None  # readers and the doctor report it


def _untrained_line(untrained: Untrained) -> str:
    if untrained.error:
        return f"The script ended with an error before training: {untrained.error.rstrip('.')}."
    *others, last = untrained.frameworks or ("no framework that Barograph records",)
    before = f"{', '.join(others)} and " if others else ""
    return f"No training was seen. The script imported {before}{last}."


def _settings(store: Store) -> Mapping[str, Any]:
    try:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST).settings
    except (ObjectNotFound, DamagedChunk):
        return {}  # readers and the doctor report it


def _why_none_evaluated(rules: int) -> str:
    if not rules:
        return "no rules ran"
    return f"{'the only rule' if rules == 1 else f'all {rules} rules'} lacked data or failed"


def _unseen(
    workers: Sequence[WorkerReport], judged: Judged, attempt: int, untrained: Untrained | None
) -> list[str]:
    lines = list(judged.damage)
    if not workers and untrained is not None and untrained.error:
        return [*lines, "No training was recorded: the script failed before training."]
    if not workers:
        return [*lines, "No training was recorded. Barograph records PyTorch optimizer steps, Keras fit(), boosting "
                        "rounds of train() or fit(), and steps under barograph.jax.observe or "
                        "barograph.tensorflow.step. If your script updates weights itself, mark each step: "
                        "attach(explicit_steps=True) and run.step(loss)."]
    for worker in workers:
        of = f" of {worker.name}" if len(workers) > 1 else ""
        if worker.last is None:
            lines.append(_without_heartbeat(of))
            continue
        lines += [sentence(f"{reason.rstrip('.')}{of}.") for reason in worker.last.coverage.reasons]
        lines += [f"{gap}{of}." for gap in _gaps(worker, worker.last)]
        if end := _abnormal_end(worker, of):
            lines.append(end)
        elif worker.word == "running":
            lines.append(f"{worker.name if of else 'The run'} is still running.")
    lines += _unjudged(workers, judged, attempt)
    lines += [text for text in judged.problems if "is not used any more" in text]
    return list(dict.fromkeys(lines))


def _abnormal_end(worker: WorkerReport, of: str) -> str:
    """Return a sentence about a worker whose last steps are lost or may be; "" for any other."""
    if worker.word in ("killed", _CUT_OFF):
        lost = "The last step" if worker.lost == 1 else f"The last {worker.lost:,} steps" if worker.lost else (
            "The last steps")
        verb, them = ("is", "it") if worker.lost == 1 else ("are", "them")
        why = (f"it was killed before it published {them}." if worker.word == "killed"
               else "the disk was full. Free space before you run it again.")
        return f"{lost}{of} {verb} lost: {why}"
    if worker.word == "silent":
        return f"The last steps{of} may be missing: it sends no heartbeats and has not ended."
    return ""


def _incidents(workers: Sequence[WorkerReport], judged: Judged) -> tuple[str, ...]:
    lines = list(judged.damage)
    for worker in workers:
        of = f" of {worker.name}" if len(workers) > 1 else ""
        lines += [end] if (end := _abnormal_end(worker, of)) else []
        if worker.state is EndState.FAILED:
            lines.append(f"{worker.name if of else 'The training'} failed after {_counted(worker.steps, 'step')}.")
        if worker.last is None:
            lines.append(_without_heartbeat(of))
        elif worker.last.dropped_steps:
            lines.append(f"{_dropped(worker.last)}{of}.")
    return tuple(dict.fromkeys(lines))


def _without_heartbeat(of: str) -> str:
    return f"No readable heartbeat{of}, so nothing is known about {'it' if of else 'this run'}."


def _dropped(last: Heartbeat) -> str:
    return f"{_counted(last.dropped_steps, 'step')} dropped because the store did not keep up"


def _first_of(sentences: Sequence[str]) -> str:
    more = f" (and {len(sentences) - 1} more)" if len(sentences) > 1 else ""
    return f"{sentence(sentences[0])}{more}"


def _unjudged(workers: Sequence[WorkerReport], judged: Judged, attempt: int) -> list[str]:
    """Return a sentence per group with fewer steps evaluated than recorded: removed, lost, or still waiting."""
    if not judged.rules:
        return []  # not watched, or by other rules: nothing is known of what was evaluated
    lines = []
    for group in dict.fromkeys(group_of(worker.name) for worker in workers):
        members = [worker for worker in workers if group_of(worker.name) == group]
        if any(worker.state is None or worker.last is None or worker.last.dropped_steps for worker in members):
            continue  # reported already
        _, recorded = steps_made_and_seen(members)
        progress = judged.progress.get(group)
        seen = progress.with_tensors if progress and progress.attempt == attempt else 0
        if seen < recorded:
            of = f" of {group}" if len(workers) > len(members) else ""
            lines.append(f"{recorded - seen} of {_counted(recorded, 'step')}{of} with tensors were not evaluated: they "
                         "were removed (keep_last, max_bytes), lost, or are still waiting.")
    return lines


def _gaps(worker: WorkerReport, last: Heartbeat) -> list[str]:
    """Return what the counts say was not recorded, where no reason explains it."""
    coverage, gaps = last.coverage, []
    if last.dropped_steps:
        gaps.append(_dropped(last))
    if not coverage.steps and worker.state is EndState.FAILED:
        gaps.append("No training step was completed before the error")
    elif not coverage.steps:
        gaps.append("No training steps were recorded" + (
            ", only evaluations. If this script trains without a PyTorch optimizer, mark each step: "
            "attach(explicit_steps=True) and run.step(loss)" if coverage.evaluations
            else f". {_without_steps(worker, coverage)}"))
    elif not coverage.steps_seen:
        gaps.append(f"No tensors were recorded in {_counted(coverage.steps, 'step')}")
    elif not coverage.reasons:
        if not coverage.loss_seen:
            gaps.append("No loss was recorded")
        for seen, there, what in (
            (coverage.parameters_seen, coverage.parameters, "parameters"),
            (coverage.gradients_seen, coverage.parameters, "gradients"),
            (coverage.modules_seen, coverage.modules, "module outputs"),
        ):
            if seen < there:
                gaps.append(f"{there - seen} of {there} {what} were not recorded")
    return gaps


def _without_steps(worker: WorkerReport, coverage: Coverage) -> str:
    """Return what to do if a worker trains without recorded steps. One that only logs has no framework and no model."""
    has_model = coverage.parameters > 0 or coverage.modules > 0
    loaded = worker.loaded & _IF_LOADED.keys() or (_IF_LOADED if has_model else ())
    if not loaded:
        return _IF_IT_TRAINS.rstrip(".")
    advice = " ".join(text for name, text in _IF_LOADED.items() if name in loaded)
    return f"{advice} If your script updates weights itself, mark each step with run.step"


def _actions(store: Store, attempt: int, workers: Sequence[WorkerReport]) -> list[ActionTaken]:
    """Return the actions requested from the newest attempt, with each worker's response, in order of request."""
    stop = read_stop(store, attempt=attempt)
    asked = [(STOP, stop.finding_id, stop.reason, stop.requested_unix)] if stop else []
    asked += [(item.action, item.finding_id, item.reason, item.requested_unix)
              for item in read_requests(store, attempt=attempt)]
    answers = read_answers(store, attempt=attempt).values() if asked else ()
    taken = []
    for action, finding_id, reason, requested_unix in sorted(asked, key=lambda item: item[3]):
        mine = [done for done in answers if (done.action, done.finding_id) == (action, finding_id)]
        taken += [ActionTaken(action, finding_id, reason, requested_unix, done.worker, done.step, done.done_unix,
                              done.result, done.done) for done in mine] or [
            ActionTaken(action, finding_id, reason, requested_unix, result=_without_response(workers))]
    return taken


def _without_response(workers: Sequence[WorkerReport]) -> str:
    """Return the result of an action that no worker responded to."""
    if not workers or any(worker.word in ("running", "silent") for worker in workers):
        return _NO_RESPONSE_YET
    first = min(workers, key=lambda worker: worker.word == EndState.FINISHED.value)
    ended = f"was {first.word}" if first.word in ("killed", _CUT_OFF) else first.word
    return f"the training {ended} after {_counted(first.steps, 'step')}, before it read the request"


def _codes(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(rule.code for rule in rules)


def _budget(workers: Iterable[WorkerReport]) -> str:
    budgets = {item.last.cost.budget for item in workers if item.last and not math.isnan(item.last.cost.budget)}
    return f" (budget {100 * min(budgets):g}%)" if budgets else ""


def _worker_to_json(worker: WorkerReport) -> dict[str, Any]:
    last = None if worker.last is None else asdict(worker.last)
    share = None if worker.last is None else worker.last.cost.share
    return {"name": worker.name, "state": worker.word, "reason": worker.reason, "steps": worker.steps,
            "capture_share": share, "last": last}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
