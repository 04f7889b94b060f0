"""The rule about classes that are too rare to be learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import MOST_CLASSES, confusions_of, counts_of, fact_value, labels_stand_alone
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, kw_only=True)
class ClassImbalance(Rule):
    """D101: Some classes are so rare that the model ignores them.

    What it sees: the counts of target classes, added up over the recorded training steps, from `samples` labels on; and
      the predictions of the latest evaluation, else of the latest steps. Classes are imbalanced if the most frequent is
      more than `threshold_imbalance` times as frequent as the rarest. That is a fault if such a rare class is predicted
      wrongly more than `threshold_misprediction` of the time while the others are mostly correct (70%). Without
      recorded predictions it is a fault if a single class has half of all labels. If the loss already weights classes
      or samples, only the predictions of an evaluation count. Without any imbalance, a class that is predicted wrongly
      so often in an evaluation while the others are 90% correct is a fault too.
    Why it matters: accuracy looks fine because ignoring rare classes costs little. Often the rare class is the one that
      matters.
    What to do: weight the loss by class (`weight=` of cross_entropy, inversely to the frequency), or sample rare
      classes more often (WeightedRandomSampler); judge by recall per class, not by accuracy.
    When it is wrong: data whose rare class does not matter. Samples with many labels each (words of a text, pixels) and
      more than 200 classes are not judged: some classes are always rare there.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Four rare and ignored labels in a hundred are found at step 30; with a loss weighted by class, nothing
      is found.
    Source: Amazon SageMaker Debugger's ClassImbalance, which waits for 500 labels and needs only one of the conditions,
      and so fires on any imbalance that the model copes with; He & Garcia, "Learning from Imbalanced Data", 2009.
    """

    code: ClassVar[str] = "D101"
    name: ClassVar[str] = "class-imbalance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    samples: int = parameter(200, "Labels needed before it is judged.", at_least=1)
    threshold_imbalance: float = parameter(
        10.0, "Allowed ratio of the most frequent class to the rarest.", above=1.0,
    )
    threshold_misprediction: float = parameter(
        0.7, "Share of wrong predictions for a class above which it is a fault.", above=0.0, below=1.0,
    )
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LABEL, Kind.CONFUSION}),
                          schedule=Schedule(every=10, steps=frozenset(range(10)))),
                Selection(kinds=frozenset({Kind.FACT}),
                          include=(f"{Fact.BATCH_SIZE.value}*", f"{Fact.LOSS_WEIGHTED.value}*"),
                          schedule=Schedule(every=10, steps=frozenset(range(10)))))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if fact_value(view, Fact.LOSS_WEIGHTED):
            memory["weighted"] = True
        counts, predictions = counts_of(view), confusions_of(view)
        loss = min(counts, default="")
        if not counts or len(counts[loss]) > MOST_CLASSES:
            yield Unjudged(f"no labels with at most {MOST_CLASSES} classes were recorded")
            return
        alone = labels_stand_alone(view, memory, sum(counts[loss].values()))
        known: dict[str, Any] = memory.setdefault(loss, {"labels": {}, "predictions": {}, "of": ""})
        if view.step.mode is Mode.TRAIN:
            if _is_another_task(known["labels"], counts[loss]):
                # The labels counted so far belong to an earlier task in the same script.
                known.update(labels={}, predictions={}, of="", steps=0, began=view.step.number)
            _add(known["labels"], {str(name): count for name, count in counts[loss].items()})
        elif view.step.mode is Mode.EVAL and loss in predictions:
            known.update(predictions=_correct_of(predictions[loss]), of="evaluation")
        if view.step.mode is Mode.TRAIN and loss in predictions and known["of"] != "evaluation":
            _fade(known["predictions"])
            for name, (right, of) in _correct_of(predictions[loss]).items():
                before = known["predictions"].get(name, [0.0, 0.0])
                known["predictions"][name] = [before[0] + right, before[1] + of]
        if not alone:
            yield Unjudged("samples have many labels each, for which any class frequency is usual")
            return
        if len(known["labels"]) > MOST_CLASSES:
            yield Unjudged(f"there are more than {MOST_CLASSES} classes, some of which are always rare")
            return
        known["steps"] = known.get("steps", 0) + (view.step.mode is Mode.TRAIN)
        total = sum(known["labels"].values())
        # Labels are recorded at some steps only; the others had as many.
        of_all = total / max(known["steps"], 1) * (view.step.number + 1 - known.get("began", 0))
        if of_all < self.samples or total < min(self.samples, _LEAST_LABELS):
            yield Unjudged(f"{int(of_all)} labels so far; needs {self.samples}")
            return
        if view.step.mode is Mode.TRAIN and "weighted" in memory and known["of"] != "evaluation":
            yield Unjudged("the loss already weights classes or samples; an evaluation is needed to judge whether "
                           "that is enough")
        elif view.step.mode is Mode.TRAIN:
            yield from self._balance(view, loss, known)
        else:
            yield from self._misprediction(view, loss, known["predictions"])

    def _balance(self, view: StepView, loss: str, known: Mapping[str, Any]) -> Iterable[Symptom | Unjudged]:
        seen: dict[str, float] = {name: count for name, count in known["labels"].items() if count > 0}
        predictions: dict[str, list[float]] = known["predictions"]
        most, least = max(seen, key=lambda name: seen[name]), min(seen, key=lambda name: seen[name])
        # A class counts as rare only if chance does not explain its few labels.
        rare = {name for name, count in seen.items()
                if (count + 2 * math.sqrt(count)) * self.threshold_imbalance < seen[most]}
        if not rare:
            return
        ratio = seen[most] / seen[least]
        key = Key(Kind.LABEL, f"{loss}[{least}]")
        if not predictions:
            if seen[most] >= sum(seen.values()) / 2:
                yield self._out_of_balance(view, key, seen, most, [least], {}, ratio)
            return
        if _recall({name: counts for name, counts in predictions.items() if name not in rare}) < _FAIRLY:
            yield Unjudged("the frequent classes are not predicted well yet")
            return
        wrong = self._wrong(predictions)
        missed = sorted(rare & wrong.keys(), key=lambda name: seen[name])
        if missed:
            yield self._out_of_balance(view, key, seen, most, missed, wrong, ratio)

    def _misprediction(self, view: StepView, loss: str, predictions: Mapping[str, list[float]]) -> Iterable[Symptom]:
        wrong = self._wrong(predictions)
        rest = {name: counts for name, counts in predictions.items() if name not in wrong}
        if 0 < len(wrong) <= max(1, len(predictions) // 5) and len(rest) >= _LEAST_REST and _recall(rest) >= _WELL:
            worst = max(wrong, key=lambda name: wrong[name])
            yield self._mispredicted(view, loss, worst, wrong[worst], _recall(rest))

    def _wrong(self, predictions: Mapping[str, list[float]]) -> dict[str, float]:
        """Return the classes that are predicted wrongly too often, with their share of wrong predictions."""
        return {name: 1 - right / of for name, (right, of) in predictions.items()
                if of >= _LEAST_OF_A_CLASS and 1 - right / of > self.threshold_misprediction}

    def _out_of_balance(
        self, view: StepView, key: Key, seen: Mapping[str, float], most: str, missed: list[str],
        ignored: Mapping[str, float], ratio: float,
    ) -> Symptom:
        total = sum(seen.values())
        wrong = (f"; {percent(ignored[missed[0]])} of the samples of class {missed[0]} are predicted wrongly"
                 if missed[0] in ignored else "")
        weight = total / (len(seen) * seen[missed[0]])
        return Symptom(
            message=f"Class {missed[0]} has {percent(seen[missed[0]] / total)} of {int(total)} labels, class {most} "
                    "has "
                    f"{percent(seen[most] / total)}{wrong}.",
            remedy=f"Weight the loss by class: weight=total / (classes × count), which is {number(weight)} for class "
                   f"{missed[0]} and {number(total / (len(seen) * seen[most]))} for class {most}; or sample rare "
                   "classes more often (WeightedRandomSampler). Judge by recall per class, not by accuracy.",
            evidence=(Evidence(key, view.step.number, "imbalance", ratio, self.threshold_imbalance,
                               f"the most frequent class is {number(ratio)} times as frequent as the rarest"),),
            subject="imbalance",
            causes=(Suspicion(Cause.CLASS_IMBALANCE, 0.85 if missed[0] in ignored else 0.6,
                              f"class {most} is {number(ratio)} times as frequent as the rarest class"),),
        )

    def _mispredicted(self, view: StepView, loss: str, name: str, wrong: float, rest: float) -> Symptom:
        return Symptom(
            message=f"{percent(wrong)} of the samples of class {name} are predicted wrongly; the other classes are "
                    f"{percent(rest)} correct.",
            remedy=f"Look at the samples of class {name} in training and evaluation: are they labeled consistently, "
                   "and "
                   "does the training data have enough of them?",
            evidence=(Evidence(Key(Kind.LABEL, f"{loss}[{name}]"), view.step.number, "misprediction", wrong,
                               self.threshold_misprediction, f"{percent(wrong)} of its evaluation samples are wrong"),),
            subject=f"class {name}",
            causes=(Suspicion(Cause.LABELS_UNRELATED, 0.3, f"only class {name} is not learned"),
                    Suspicion(Cause.CLASS_IMBALANCE, 0.2, "a usual suspect")),
        )


_FAIRLY, _WELL = 0.7, 0.9
_LEAST_OF_A_CLASS, _LEAST_LABELS, _LEAST_REST = 3, 100, 3
_FADES = 0.9
"""Older predictions count less and less, since the model learns."""


def _is_another_task(known: Mapping[str, float], now: Mapping[Any, float]) -> bool:
    """Return whether many labels of a step have classes that are new after hundreds of labels."""
    new = sum(count for name, count in now.items() if count > 0 and str(name) not in known)
    return sum(known.values()) >= _LEAST_LABELS and new > _MOSTLY_NEW * sum(now.values())


_MOSTLY_NEW = 0.3


def _add(into: dict[str, float], counts: Mapping[str, float]) -> None:
    for name, count in counts.items():
        into[name] = into.get(name, 0.0) + count


def _fade(predictions: dict[str, list[float]]) -> None:
    for counts in predictions.values():
        counts[0] *= _FADES
        counts[1] *= _FADES


def _correct_of(pairs: Mapping[tuple[int, int], float]) -> dict[str, list[float]]:
    """Return, for each target class, the number of correct predictions and of all predictions."""
    counts: dict[str, list[float]] = {}
    for (target, prediction), count in pairs.items():
        row = counts.setdefault(str(target), [0.0, 0.0])
        row[0] += count if target == prediction else 0.0
        row[1] += count
    return {name: row for name, row in counts.items() if row[1] > 0}


def _recall(predictions: Mapping[str, list[float]]) -> float:
    of = sum(counts[1] for counts in predictions.values())
    return sum(counts[0] for counts in predictions.values()) / of if of else 0.0
