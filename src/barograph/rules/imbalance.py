"""The rule about classes that are too rare to be learnt."""

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

    What it sees: how often each class was the truth, added up over the recorded training steps, from `samples` labels
      on; and what was answered, of the newest evaluation, else added up over the newest steps. Classes are out of
      balance where the most frequent comes more than `threshold_imbalance` times as often as the rarest. That is a
      fault where a class that rare is answered wrongly more than `threshold_misprediction` of the time while the
      others are told well (70 %). Where no answers are recorded it is one if a single class holds half of all labels.
      Where the loss weighs classes or samples already, only the answers of an evaluation are looked at.
      Without any imbalance, a class that is answered wrongly so often in an evaluation while the others are right to
      90 % is a fault as well.
    Why it matters: accuracy looks fine, because the model does well to ignore what is rare. Often the rare class is
      what it is for.
    What to do: weigh the loss by class (`weight=` of cross_entropy, inversely to the frequency), or draw the rare
      classes more often (WeightedRandomSampler); judge by recall of each class, not by accuracy.
    When it is wrong: data whose rare class does not matter. Many labels for each sample (words of a text, pixels) and
      more than 200 classes are not judged: there some classes are always rare.
    Tried on: silent on 19 small healthy trainings, a GAN, a policy, Q-learning and batches of one among them (one seed
      each). Four of a hundred labels rare and ignored fire at step 30; the same with a loss weighted by class does not.
    Source: Amazon SageMaker Debugger's ClassImbalance, which waits for 500 labels and takes either condition alone, and
      so alarms at any imbalance that the model copes with; He & Garcia, "Learning from Imbalanced Data", 2009.
    """

    code: ClassVar[str] = "D101"
    name: ClassVar[str] = "class-imbalance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    samples: int = parameter(200, "Labels that must have been seen before it is judged.", at_least=1)
    threshold_imbalance: float = parameter(
        10.0, "How many times as often as the rarest class the most frequent one may come.", above=1.0,
    )
    threshold_misprediction: float = parameter(
        0.7, "Share of a class's samples above which wrong answers are a fault.", above=0.0, below=1.0,
    )
    patience: int = parameter(2, "Judged steps in a row that must show the fault before a finding opens.", at_least=1)

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
            yield Unjudged("no labels of a few classes were recorded")
            return
        alone = labels_stand_alone(view, memory, sum(counts[loss].values()))
        known: dict[str, Any] = memory.setdefault(loss, {"labels": {}, "predictions": {}, "of": ""})
        if view.step.mode is Mode.TRAIN:
            if _is_another_task(known["labels"], counts[loss]):
                # What was counted so far are the labels of another one, before it in the same script.
                known.update(labels={}, predictions={}, of="", steps=0, began=view.step.number)
            _add(known["labels"], {str(name): count for name, count in counts[loss].items()})
        elif view.step.mode is Mode.EVAL and loss in predictions:
            known.update(predictions=_told(predictions[loss]), of="evaluation")
        if view.step.mode is Mode.TRAIN and loss in predictions and known["of"] != "evaluation":
            _fade(known["predictions"])
            for name, (right, of) in _told(predictions[loss]).items():
                before = known["predictions"].get(name, [0.0, 0.0])
                known["predictions"][name] = [before[0] + right, before[1] + of]
        if not alone:
            yield Unjudged("there are many labels for each sample, whose classes come in any frequency")
            return
        if len(known["labels"]) > MOST_CLASSES:
            yield Unjudged(f"there are more than {MOST_CLASSES} classes, of which some are always rare")
            return
        known["steps"] = known.get("steps", 0) + (view.step.mode is Mode.TRAIN)
        total = sum(known["labels"].values())
        # Labels are recorded of some steps only, and those between had as many.
        of_all = total / max(known["steps"], 1) * (view.step.number + 1 - known.get("began", 0))
        if of_all < self.samples or total < min(self.samples, _LEAST_LABELS):
            yield Unjudged(f"{int(of_all)} labels so far; it takes {self.samples}")
            return
        if view.step.mode is Mode.TRAIN and "weighted" in memory and known["of"] != "evaluation":
            yield Unjudged("the loss weighs classes or samples already; whether that is enough an evaluation tells")
        elif view.step.mode is Mode.TRAIN:
            yield from self._balance(view, loss, known)
        else:
            yield from self._misprediction(view, loss, known["predictions"])

    def _balance(self, view: StepView, loss: str, known: Mapping[str, Any]) -> Iterable[Symptom | Unjudged]:
        seen: dict[str, float] = {name: count for name, count in known["labels"].items() if count > 0}
        predictions: dict[str, list[float]] = known["predictions"]
        most, least = max(seen, key=lambda name: seen[name]), min(seen, key=lambda name: seen[name])
        # So rare is a class only if luck with so few labels does not make it so.
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
            yield Unjudged("the frequent classes are not told well yet")
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
        """Return the classes that are answered wrongly too often, to the share of wrong answers."""
        return {name: 1 - right / of for name, (right, of) in predictions.items()
                if of >= _LEAST_OF_A_CLASS and 1 - right / of > self.threshold_misprediction}

    def _out_of_balance(
        self, view: StepView, key: Key, seen: Mapping[str, float], most: str, missed: list[str],
        ignored: Mapping[str, float], ratio: float,
    ) -> Symptom:
        total = sum(seen.values())
        wrong = (f", and it is answered wrongly in {percent(ignored[missed[0]])} of its samples"
                 if missed[0] in ignored else "")
        weight = total / (len(seen) * seen[missed[0]])
        return Symptom(
            message=f"Class {missed[0]} is {percent(seen[missed[0]] / total)} of {int(total)} labels, class {most} is "
                    f"{percent(seen[most] / total)}{wrong}.",
            remedy=f"Weigh the loss by class: weight=total / (classes × count), which is {number(weight)} for class "
                   f"{missed[0]} and {number(total / (len(seen) * seen[most]))} for class {most}; or draw rare classes "
                   "more often (WeightedRandomSampler). Look at the recall of each class, not at accuracy.",
            evidence=(Evidence(key, view.step.number, "imbalance", ratio, self.threshold_imbalance,
                               f"the most frequent class comes {number(ratio)} times as often as the rarest"),),
            subject="imbalance",
            causes=(Suspicion(Cause.CLASS_IMBALANCE, 0.85 if missed[0] in ignored else 0.6,
                              f"class {most} comes {number(ratio)} times as often as the rarest class{wrong}"),),
        )

    def _mispredicted(self, view: StepView, loss: str, name: str, wrong: float, rest: float) -> Symptom:
        return Symptom(
            message=f"Class {name} is answered wrongly in {percent(wrong)} of its samples, while the others are right "
                    f"in {percent(rest)}.",
            remedy=f"Look at the samples of class {name}, in training and in evaluation: are they labelled alike, and "
                   "are there enough in training?",
            evidence=(Evidence(Key(Kind.LABEL, f"{loss}[{name}]"), view.step.number, "misprediction", wrong,
                               self.threshold_misprediction, f"{percent(wrong)} of its samples in the evaluation"),),
            subject=f"class {name}",
            causes=(Suspicion(Cause.LABELS_UNRELATED, 0.3, f"class {name} alone is not learnt"),
                    Suspicion(Cause.CLASS_IMBALANCE, 0.2, "a usual suspect")),
        )


_FAIRLY, _WELL = 0.7, 0.9
_LEAST_OF_A_CLASS, _LEAST_LABELS, _LEAST_REST = 3, 100, 3
_FADES = 0.9
"""Answers of older steps count less and less: the model learns."""


def _is_another_task(known: Mapping[str, float], now: Mapping[Any, float]) -> bool:
    """Return whether most labels of a step are of classes that never came among hundreds before."""
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


def _told(pairs: Mapping[tuple[int, int], float]) -> dict[str, list[float]]:
    """Return for each true class how many answers were right, and of how many."""
    counts: dict[str, list[float]] = {}
    for (target, prediction), count in pairs.items():
        row = counts.setdefault(str(target), [0.0, 0.0])
        row[0] += count if target == prediction else 0.0
        row[1] += count
    return {name: row for name, row in counts.items() if row[1] > 0}


def _recall(predictions: Mapping[str, list[float]]) -> float:
    of = sum(counts[1] for counts in predictions.values())
    return sum(counts[0] for counts in predictions.values()) / of if of else 0.0
