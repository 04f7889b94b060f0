"""The rule about classes that the model confuses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.baseline import entropy
from barograph.rules.clues import confusions_of
from barograph.rules.words import joined, percent, sentence
from barograph.runs.reading.view import StepView

Counts = Mapping[int, float]
"""How often each class was predicted."""


@dataclass(frozen=True, kw_only=True)
class Confusion(Rule):
    """D102: The model confuses two classes, or evaluation numbers the classes differently than training.

    What it sees: the confusion matrix of each evaluation, each row (one target class) divided by its sum. A fault is a
      share on the diagonal below `min_diag`, or off the diagonal above `max_off_diag`, of a class with at least
      `samples` samples. If `category_no` is set, only that many classes are looked at. If nearly all classes are
      predicted as the class the same number of places away, labels are shifted; if classes are predicted as one another
      in a circle (each sample of 1 as 7, each of 7 as 1), they are exchanged. Both are reported separately, once the
      training loss is below half the loss of a constant prediction: an untrained model does both by chance.
    Why it matters: mean accuracy hides that two classes are merged; shifted labels make a good model look useless.
    What to do: look at samples of the two classes, and check the mapping of class names to numbers in training and
      evaluation.
    When it is wrong: classes that do look alike. The defaults fire only if a class is hardly ever correct and nearly
      always predicted as one other; Amazon's (0.9 and 0.1) fire on nearly every model that is still learning. Every
      two-class model first predicts one class always, and boosted trees for a rare class do so for some rounds: that is
      reported if it lasts longer than `alone` evaluations.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). An evaluation with labels shifted by one is found as the training learns, at its fourth evaluation.
    Source: Amazon SageMaker Debugger's Confusion, whose documented normalization (diagonal by column, the rest by row)
      cannot be meant literally.
    """

    code: ClassVar[str] = "D102"
    name: ClassVar[str] = "confusion"
    severity: ClassVar[Severity] = Severity.NOTE

    category_no: int = parameter(0, "Number of classes to look at; 0: all.", at_least=0)
    min_diag: float = parameter(0.02, "Share of correct predictions below which a class is confused.",
                                at_least=0.0, at_most=1.0)
    max_off_diag: float = parameter(0.95, "Share of one wrong prediction above which a class is confused.",
                                    at_least=0.0, at_most=1.0)
    samples: int = parameter(20, "Samples that a class must have.", at_least=1)
    rest_diag: float = parameter(0.8, "Share of correct predictions that all other classes must have together.",
                                 at_least=0.0, at_most=1.0)
    alone: int = parameter(20, "Evaluations in a row with one prediction for every class before that is a fault: "
                               "models "
                               "start like this.", at_least=1)
    patience: int = parameter(2, "Evaluations in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(2, "Evaluations in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.CONFUSION}), schedule=Schedule(modes=frozenset({Mode.EVAL}))),
                Selection(kinds=frozenset({Kind.LOSS}), schedule=Schedule(modes=frozenset({Mode.TRAIN}))))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        predictions = confusions_of(view) if view.step.mode is Mode.EVAL else {}
        if view.step.mode is Mode.TRAIN:
            _note_training(view, memory)
        judged = False
        for loss, pairs in predictions.items():
            rows = _rows(pairs, self.samples, self.category_no)
            if not rows:
                continue
            judged = True
            recent = _rows(_with_the_one_before(pairs, loss, memory), self.samples, self.category_no)
            shift = _shift(rows)
            same = 0 if shift or _several_predictions(rows) else memory.get(loss, 0) + 1
            memory[loss] = same
            has_learned = _has_learned(loss, rows, memory)
            if shift and has_learned:
                yield self._shifted(view, loss, shift, rows)
            elif has_learned and (exchanged := _exchanged(recent)):
                yield self._exchanged(view, loss, exchanged, recent)
            elif not 0 < same < self.alone:
                yield from self._confused(view, loss, rows)
        if not judged:
            yield Unjudged(f"no evaluation was recorded with {self.samples} samples of one class")

    def _confused(self, view: StepView, loss: str, rows: Mapping[int, Counts]) -> Iterable[Symptom]:
        for target, row in rows.items():
            of = sum(row.values())
            right = row.get(target, 0.0) / of
            prediction = max((name for name in row if name != target), key=lambda name: row[name], default=target)
            wrong = row[prediction] / of if prediction != target else 0.0
            if right >= self.min_diag and wrong <= self.max_off_diag:
                continue
            others = [(other.get(name, 0.0), sum(other.values())) for name, other in rows.items() if name != target]
            rest = sum(item[0] for item in others) / sum(item[1] for item in others) if others else 0.0
            if rest < self.rest_diag:
                continue
            by_diagonal = right < self.min_diag
            yield Symptom(
                message=f"The model predicts class {prediction} for {percent(wrong)} of the {int(of)} samples of class "
                f"{target}; {percent(right)} are correct, against {percent(rest)} in the other classes.",
                remedy=f"Look at samples of classes {target} and {prediction}, and check the mapping of class names "
                       "to numbers "
                "in training and evaluation.",
                evidence=(
                    Evidence(
                        Key(Kind.CONFUSION, f"{loss}[{target},{prediction}]"),
                        view.step.number,
                        "diagonal" if by_diagonal else "off_diagonal",
                        right if by_diagonal else wrong,
                        self.min_diag if by_diagonal else self.max_off_diag,
                        f"{percent(wrong)} of class {target}",
                    ),
                ),
                subject=f"class {target}",
                causes=(
                    Suspicion(Cause.CLASS_IMBALANCE, 0.25, f"class {target} is predicted as class {prediction}"),
                    Suspicion(Cause.LABELS_UNRELATED, 0.2, f"class {target} is predicted as class {prediction}"),
                ),
            )

    def _shifted(self, view: StepView, loss: str, shift: int, rows: Mapping[int, Counts]) -> Symptom:
        shares = [row.get(target + shift, 0.0) / sum(row.values()) for target, row in rows.items()]
        share = sorted(shares)[len(shares) // 2]
        return Symptom(
            message=f"In evaluation, predictions are shifted by {shift:+d} from the labels for nearly every class "
                    f"({percent(share)} of the samples of the median class).",
            remedy="Number the classes the same way in training and evaluation: one of the two is shifted.",
            evidence=(Evidence(Key(Kind.CONFUSION, f"{loss}[{min(rows)},{min(rows) + shift}]"), view.step.number,
                               "off_diagonal", share, _SHIFTED, f"predictions are shifted by {shift:+d} from the "
                                                                "labels"),),
            subject="shifted", severity=Severity.COSTLY,
            causes=(Suspicion(Cause.LABELS_OFF_BY_ONE, 0.85, f"predictions are shifted by {shift:+d} from the "
                                                             "labels"),),
        )

    def _exchanged(
        self, view: StepView, loss: str, exchanged: Mapping[int, int], rows: Mapping[int, Counts]
    ) -> Symptom:
        target, prediction = min(exchanged.items())
        share = rows[target][prediction] / sum(rows[target].values())
        named = [f"{name} as {other}" for name, other in sorted(exchanged.items())]
        more = [f"{len(named) - _MOST_NAMED} more"] if len(named) > _MOST_NAMED else []
        description = f"in evaluation, the model predicts class {joined([*named[:_MOST_NAMED], *more])}"
        return Symptom(
            message=f"{sentence(description)}: it tells them apart, but they have other numbers than in training.",
            remedy="Number the classes the same way in training and evaluation, such as with one class_to_idx, or one "
                   "LabelEncoder fitted on the training data.",
            evidence=(Evidence(Key(Kind.CONFUSION, f"{loss}[{target},{prediction}]"), view.step.number, "off_diagonal",
                               share, _MOSTLY, description),),
            subject="exchanged", severity=Severity.COSTLY,
            causes=(Suspicion(Cause.LABELS_UNRELATED, 0.85, description),),
        )


_SHIFTED = 0.7
_MOSTLY = 0.5
_TOLD_APART = 0.8
_MOST_NAMED = 3
_LEAST_CLASSES = 3
_MOST_PAIRS = 1000
_LEARNED = 0.5
_NEWEST = 0.1


def _rows(pairs: Mapping[tuple[int, int], float], samples: int, category_no: int) -> dict[int, dict[int, float]]:
    """Return, for each target class with enough samples, how often each class was predicted."""
    rows: dict[int, dict[int, float]] = {}
    for (target, prediction), count in pairs.items():
        if count > 0 and (not category_no or target < category_no):
            rows.setdefault(target, {})[prediction] = count
    return {target: row for target, row in sorted(rows.items()) if sum(row.values()) >= samples}


def _several_predictions(rows: Mapping[int, Counts]) -> bool:
    """Return whether the most frequent prediction differs between target classes."""
    return len({max(row, key=lambda name: row[name]) for row in rows.values()}) > 1


def _note_training(view: StepView, memory: Memory) -> None:
    """Record the level of each training loss."""
    levels = memory.setdefault("trained", {})
    for key, value in view.numbers(Kind.LOSS):
        if math.isfinite(value):
            before = levels.get(key.path, value)
            levels[key.path] = before + _NEWEST * (value - before)


def _has_learned(loss: str, rows: Mapping[int, Counts], memory: Memory) -> bool:
    """Return whether the training loss is below half the loss of a constant prediction, as far as known."""
    constant = entropy([sum(row.values()) for row in rows.values()])
    return bool(memory.get("trained", {}).get(loss, 0.0) < _LEARNED * constant)


def _with_the_one_before(
    pairs: Mapping[tuple[int, int], float], loss: str, memory: Memory
) -> Mapping[tuple[int, int], float]:
    """Return the counts of this evaluation and the one before: single ones vary in a short training."""
    before = memory.setdefault("before", {})
    both = Counter(pairs)
    both.update({(target, prediction): count for target, prediction, count in before.get(loss, ())})
    before[loss] = [[*pair, count] for pair, count in pairs.items()] if len(pairs) <= _MOST_PAIRS else []
    return both


def _exchanged(rows: Mapping[int, Counts]) -> dict[int, int]:
    """Return the classes that are predicted as one another in a circle, each with its prediction.

    Only if the model tells nearly all classes apart: by chance, one that has learned nothing has circles too.
    """
    first = {target: max(row, key=lambda name: row[name]) for target, row in rows.items()}
    shares = {target: row[first[target]] / sum(row.values()) for target, row in rows.items()}
    if (len(rows) < _LEAST_CLASSES or len(set(first.values())) < _TOLD_APART * len(rows)
            or fmean(shares.values()) < _SHIFTED):
        return {}
    wrong = {name: other for name, other in first.items() if other != name and shares[name] >= _MOSTLY}
    outside = wrong
    while outside:
        outside = {name: other for name, other in wrong.items() if name not in wrong.values() or other not in wrong}
        wrong = {name: other for name, other in wrong.items() if name not in outside}
    return wrong if wrong and fmean(shares[name] for name in wrong) >= _SHIFTED else {}


def _shift(rows: Mapping[int, Counts]) -> int:
    """Return the shift of predictions from labels if nearly all classes have the same one; else 0."""
    if len(rows) < _LEAST_CLASSES:
        return 0
    shifts = [max(row, key=lambda name: row[name]) - target for target, row in rows.items()]
    common = max(set(shifts), key=shifts.count)
    alike = [row.get(target + common, 0.0) / sum(row.values()) >= _SHIFTED for target, row in rows.items()]
    # The class at one end has no neighbor.
    return common if sum(alike) >= max(_LEAST_CLASSES - 1, len(rows) - max(1, len(rows) // 5)) else 0
