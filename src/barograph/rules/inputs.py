"""Rules about a model's inputs: their scale, their padding, and leaked targets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from barograph.errors import SettingsError
from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import counts_of, fact_value, facts_about
from barograph.rules.columns import table_of
from barograph.rules.scale import first_output, is_scaled_inside, normalises_first
from barograph.rules.step_groups import Numbers
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView

_AT = {name: index for index, name in enumerate(UNIT_FIELDS)}
_IN_TRAINING = frozenset({Mode.TRAIN})


@dataclass(frozen=True, kw_only=True)
class NotNormalizedInput(Rule):
    """D103: Inputs are far from zero mean and unit variance.

    What it sees: the model's inputs, per channel for images and per feature for tables, over at least
      `threshold_samples` values of each, and again in the batch of the step. A channel is off if its mean is beyond
      ±`threshold_mean` or its standard deviation above `threshold_std`; features are off if the largest standard
      deviation is more than `threshold_scale` times the smallest (of those that are zero in less than half of the
      samples and not constant). Models that start with a normalization layer or an embedding, or whose first layer is
      followed by a normalization layer, are not judged, nor are models that scale their input inside: their first
      layer's outputs are far smaller than the recorded inputs imply.
    Why it matters: the first layer's gradient scales with its inputs, so no learning rate fits both it and the other
      layers.
    What to do: subtract the mean and divide by the standard deviation of the training data, per channel; or start the
      model with a BatchNorm.
    When it is wrong: first layers made for raw values (a division inside your own module that is not the first to be
      called). Integer inputs (token ids, categories, raw bytes) are not judged.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). One of these uses digits from 0 to 16. Digits from 0 to 255 are found at step 8.
    Source: LeCun, Bottou, Orr & Müller, "Efficient BackProp", 1998, section 4.3; Amazon SageMaker Debugger's
      CheckInputImages (NotNormalizedInput), whose `threshold_mean` is 0.2 and which ignores the variance: by that
      measure most healthy programs are off.
    """

    code: ClassVar[str] = "D103"
    name: ClassVar[str] = "input-not-normalized"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold_mean: float = parameter(30.0, "Allowed magnitude of a channel's mean.", above=0.0)
    threshold_std: float = parameter(30.0, "Allowed standard deviation of a channel.", above=0.0)
    threshold_scale: float = parameter(1000.0, "Allowed ratio of two features' standard deviations.", above=1.0)
    threshold_samples: int = parameter(500, "Values of each channel needed before it is judged.", at_least=1)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        first = frozenset(range(10))
        return (
            Selection(kinds=frozenset({Kind.BATCH}), units=True,
                      schedule=Schedule(every=50, steps=first, modes=_IN_TRAINING)),
            # The output of the first layer, and whether that layer normalizes.
            Selection(kinds=frozenset({Kind.OUTPUT}), schedule=Schedule(every=0, steps=frozenset({3}),
                                                                        modes=_IN_TRAINING)),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        first = first_output(view)
        if first is not None:
            memory["first"] = first
            memory["normalised"] = normalises_first(view)
        if memory.get("normalised"):
            return
        judged = False
        for subject, count, columns in _channels(view):
            sums = _gathered(memory, subject.key, count, columns)
            if sums[0] < self.threshold_samples:
                continue
            if "first" not in memory:
                yield Unjudged("no layer output recorded yet, so it is unknown whether the model scales its input")
                return
            judged = True
            symptom = self._compared(view, subject.key, sums, memory["first"])
            if symptom is not None and self._compared(view, subject.key, (count, columns), memory["first"]) is None:
                # An earlier batch was far out, not this one.
                symptom = None
            if symptom is not None:
                yield symptom
        if not judged:
            yield Unjudged(f"fewer than {self.threshold_samples} values of each channel of a float input were recorded")

    def _compared(self, view: StepView, key: Key, sums: tuple[float, Numbers], first: list[Any]) -> Symptom | None:
        count, columns = sums
        mean, square = columns[:, 0] / count, columns[:, 1] / count
        std = np.sqrt(np.maximum(square - mean**2, 0.0))
        if is_scaled_inside(first, float(square.mean())):
            return None
        if (np.abs(mean) > self.threshold_mean).any() or (std > self.threshold_std).any():
            return self._far(view, key, mean, std)
        dense = std[(columns[:, 2] < count / 2) & (std > _CONSTANT * np.abs(mean)) & (std > 0)]
        if len(dense) > 1 and dense.max() > self.threshold_scale * dense.min():
            return self._uneven(view, key, float(dense.min()), float(dense.max()))
        return None

    def _far(self, view: StepView, key: Key, mean: Numbers, std: Numbers) -> Symptom:
        off = (np.abs(mean) > self.threshold_mean) | (std > self.threshold_std)
        worst = int(np.argmax(np.maximum(np.abs(mean), std)))
        by_mean = abs(float(mean[worst])) > self.threshold_mean
        return Symptom(
            message=f"{int(off.sum())} of {len(mean)} channels of the input are far from zero mean and unit variance: "
                    f"channel {worst} has mean {number(float(mean[worst]))} and standard deviation "
                    f"{number(float(std[worst]))}.",
            remedy="Normalize the input per channel: x = (x − mean) / std of the training data (for pixels from 0 to "
                   "255 "
                   "at least x / 255), or start the model with a BatchNorm.",
            evidence=(Evidence(key, view.step.number, "mean" if by_mean else "std",
                               float(mean[worst] if by_mean else std[worst]),
                               self.threshold_mean if by_mean else self.threshold_std,
                               f"mean {number(float(mean[worst]))}, std {number(float(std[worst]))}"),),
            subject="far",
            causes=(Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.85, f"a channel of the input has mean "
                              f"{number(float(mean[worst]))} and standard deviation {number(float(std[worst]))}"),),
        )

    def _uneven(self, view: StepView, key: Key, least: float, greatest: float) -> Symptom:
        return Symptom(
            message=f"The scales of the input features differ by a factor of {number(greatest / least)}: their "
                    "standard "
                    f"deviations range from {number(least)} to {number(greatest)}.",
            remedy="Scale each feature to zero mean and unit variance over the training data "
                   "(sklearn.preprocessing.StandardScaler).",
            evidence=(Evidence(key, view.step.number, "std_ratio", greatest / least, self.threshold_scale,
                               f"from {number(least)} to {number(greatest)}"),),
            subject="uneven",
            causes=(Suspicion(Cause.INPUT_NOT_NORMALIZED, 0.6, f"feature scales differ by a factor of "
                              f"{number(greatest / least)}"),),
        )


_CONSTANT = 0.01
"""Share of its mean: a feature that varies less is practically constant, and its deviation is mostly rounding error."""
_MOST_GATHERED = 100_000


def _channels(view: StepView) -> Iterator[tuple[Subject, float, Numbers]]:
    """Yield each float input: the number of values per channel, and their sums, sums of squares and zeros.

    An input recorded without channels counts as one channel.
    """
    table = table_of(view, Kind.BATCH)
    units_by_key = {subject.key: units for subject, units in view.unit_summaries(Kind.BATCH)}
    for row, subject in enumerate(table.subjects):
        if (subject.dtype and "float" not in subject.dtype) or not table.whole[row]:
            continue
        units = units_by_key.get(subject.key)
        if units is None:
            sums = np.array([[table.column(name)[row] for name in ("sum", "sum_sq", "zeros")]])
            yield subject, float(table.column("count")[row]), sums
        else:
            yield subject, float(units.count), units.columns[:, [_AT["sum"], _AT["sum_sq"], _AT["zeros"]]]


def _gathered(memory: Memory, key: Key, count: float, now: Numbers) -> tuple[float, Numbers]:
    """Return the number of values per channel and their sums, added up over recorded steps."""
    known = memory.get(str(key))
    if known is None or known[0] >= _MOST_GATHERED or len(known[1]) != len(now):
        known = [0.0, np.zeros_like(now).tolist()]
    sums = np.asarray(known[1]) + now
    memory[str(key)] = [known[0] + count, sums.tolist()]
    return known[0] + count, sums


@dataclass(frozen=True, kw_only=True)
class NLPSequenceRatio(Rule):
    """D104: Most of the input is padding.

    What it sees: the share of one value (padding, usually 0) among integer inputs. A fault is a share above
      `token_thresholds_percent`, for the values in `token_values`, or for any value if that is empty.
    Why it matters: each padded position costs as much to compute as a word.
    What to do: batch sequences of similar length, and pad to the longest of the batch, not of the data set.
    When it is wrong: inputs that are mostly zero by nature (counts, one-hot categories). The default limit is 95%.
    Source: Amazon SageMaker Debugger's NLPSequenceRatio, whose parameters take lists in one string; many healthy
      programs exceed its default of 50%.
    """

    code: ClassVar[str] = "D104"
    name: ClassVar[str] = "sequence-ratio"
    severity: ClassVar[Severity] = Severity.NOTE

    token_values: tuple[str, ...] = parameter((), "Values to look at; empty: all recorded ones.")
    token_thresholds_percent: tuple[str, ...] = parameter(
        ("95",), "Allowed percentage: one for all values, or one for each.",
    )
    patience: int = parameter(5, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for text in self.token_thresholds_percent:
            if not _is_percentage(text):
                raise SettingsError(f'sequence-ratio.token_thresholds_percent holds "{text}"; each must be a number '
                                    "from 0 to 100.")
        if len(self.token_thresholds_percent) not in (1, len(self.token_values)):
            raise SettingsError(f"sequence-ratio.token_thresholds_percent has {len(self.token_thresholds_percent)} "
                                f"values for {len(self.token_values)} token_values; give one, or one for each.")

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.PADDING.value}*",),
                          schedule=Schedule(every=20, steps=frozenset(range(5)), modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        shares = facts_about(view, Fact.PADDING)
        limits = self._limits(shares)
        if not limits:
            yield Unjudged("no integer input was recorded" if not shares else
                           "none of the named values was counted")
            return
        for name, limit in limits.items():
            if shares[name] > limit:
                yield Symptom(
                    message=f"{percent(shares[name])} of the input is {name}, probably padding.",
                    remedy="Batch sequences of similar length and pad to the longest of each batch; or lower the "
                           "maximum "
                           "length.",
                    evidence=(Evidence(fact(Fact.PADDING, name), view.step.number, "share", shares[name], limit,
                                       f"{percent(shares[name])} of all positions"),),
                    subject=name,
                    causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.2, f"{percent(shares[name])} of the input is padding"),
                            ),
                )

    def _limits(self, shares: dict[str, float]) -> dict[str, float]:
        percents = [float(text) / 100 for text in self.token_thresholds_percent]
        if not self.token_values:
            return dict.fromkeys(shares, percents[0])
        each = percents if len(percents) > 1 else percents * len(self.token_values)
        return {name: limit for name, limit in zip(self.token_values, each, strict=True) if name in shares}


def _is_percentage(text: str) -> bool:
    try:
        return 0 <= float(text) <= 100
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class TargetInInput(Rule):
    """D110: The target leaks into the input.

    What it sees: the share of targets that equal the input. For a loss over classes with integer inputs (words,
      letters): at the same position, or one earlier. For one target per sample: in one column of the features, the same
      over three recorded steps with ten targets other than the most frequent one. From `threshold` on the model need
      only copy.
    Why it matters: the loss falls to zero, and the model learns nothing that helps when the target is unknown.
    What to do: shift the targets by one position: inputs = tokens[:, :-1], targets = tokens[:, 1:]; remove the target
      column from the features.
    When it is wrong: copy tasks, and models that reconstruct their input (text autoencoders).
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Letters that are their own targets are found at step 1; next letters are not reported.
    Source: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018, section 3.1: the next
      token is predicted from those before it; Kaufman, Rosset & Perlich, "Leakage in Data Mining", 2011.
    """

    code: ClassVar[str] = "D110"
    name: ClassVar[str] = "target-in-input"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(0.98, "Share of targets equal to the input from which on it is a fault.",
                                 above=0.0, at_most=1.0)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.FACT}),
                          include=(f"{Fact.TARGET_IS_INPUT.value}*", f"{Fact.CLASSES.value}*"),
                          schedule=Schedule(every=50, steps=frozenset(range(5)), modes=_IN_TRAINING)),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        shares = facts_about(view, Fact.TARGET_IS_INPUT)
        for classes in (fact_value(view, Fact.CLASSES) or 0.0, *map(len, counts_of(view).values())):
            memory["classes"] = max(classes, memory.get("classes", 0.0))
        if not shares and fact_value(view, Fact.TARGET_IS_INPUT) is None:
            yield Unjudged("no step was recorded with targets comparable to its input")
            return
        _note_columns(view, memory, {about: share for about, share in shares.items() if share >= self.threshold})
        of_words = memory["classes"] >= _LEAST_CLASSES and Kind.TARGET not in view.kinds
        judged = {about: share for about, share in shares.items()
                  if _is_sure(memory, about) or (of_words and about in _GIVEN_AWAY)}
        worst = max(judged, key=lambda about: judged[about], default="")
        if worst and judged[worst] >= self.threshold:
            yield self._symptom(view, worst, judged[worst])

    def _symptom(self, view: StepView, about: str, share: float) -> Symptom:
        where = _GIVEN_AWAY.get(about, about)
        description = f"{percent(share)} of the targets equal the input {where}"
        if about.startswith(_COLUMN):
            remedy = f"Remove {about} from the features: it is the target."
        else:
            remedy = "Shift the targets by one position: inputs = tokens[:, :-1], targets = tokens[:, 1:]."
        shifted = Suspicion(Cause.LABELS_OFF_BY_ONE, 0.6, f"{description}; next-token targets equal the position after")
        return Symptom(
            message=f"The target leaks into the input: {description}.", remedy=remedy,
            evidence=(Evidence(fact(Fact.TARGET_IS_INPUT, about), view.step.number, "share", share, self.threshold,
                               description),),
            causes=(Suspicion(Cause.TARGETS_IN_INPUT, 0.9, description, remedy),
                    *(() if about.startswith(_COLUMN) else (shifted,))),
        )


_LEAST_CLASSES = 3
_COLUMN = "column"
_GIVEN_AWAY = {"0": "at the same position", "-1": "one position earlier"}
"""Next-token targets equal the input one position later: that is no leak."""
_LEAST_STEPS, _LEAST_TELLING = 3, 10


def _note_columns(view: StepView, memory: Memory, equal: dict[str, float]) -> None:
    """Remember for how many steps, and how many informative targets, each column has equaled the target.

    If nearly all targets are equal, some column may be equal to them by chance.
    """
    telling = 0.0
    for counts in counts_of(view).values():
        telling += sum(counts.values()) - max(counts.values())
    for _, targets in view.summaries(Kind.TARGET):
        # Of zeros and ones the rarer are informative; of other values, which seldom repeat, all.
        yes_or_no = targets.sum == targets.sum_sq
        telling += min(targets.zeros, targets.count - targets.zeros) if yes_or_no else targets.count
    known: dict[str, list[float]] = memory.get("columns", {})
    memory["columns"] = {
        about: [known.get(about, [0.0, 0.0])[0] + 1, known.get(about, [0.0, 0.0])[1] + telling]
        for about in equal if about.startswith(_COLUMN)
    }


def _is_sure(memory: Memory, about: str) -> bool:
    steps, telling = memory["columns"].get(about, [0.0, 0.0])
    return bool(steps >= _LEAST_STEPS and telling >= _LEAST_TELLING)
