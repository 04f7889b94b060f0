"""Rules about the samples in a batch, and about samples that repeat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.facts import Fact, fact
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.clues import counts_of, fact_value, facts_about, labels_of, labels_stand_alone
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView

_IN_TRAINING = frozenset({Mode.TRAIN})


@dataclass(frozen=True, kw_only=True)
class RepeatedBatch(Rule):
    """D105: The same batch is used again and again.

    What it sees: a digest of each recorded batch. A batch is repeated if its digest is the same `num_steps` times in
      a row while the loader has more than one batch, and the distances between these steps have no common divisor:
      otherwise the batch may come back in every epoch. If no loader was seen but an evaluation had more than three
      times as many samples as the batch, the finding is doubtful.
    Why it matters: the model memorizes one batch and never sees the rest of the data.
    What to do: iterate over the loader (for batch in loader): next(iter(loader)) returns the first batch each time.
    When it is wrong: overfitting one batch on purpose, to test whether a model can learn. Training on all data at once
      is not reported: the loader shows it, or there is none. Nor are several steps on one batch before the next, as in
      PPO, where no loader is used.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). A batch taken before a loop over the loader, and used in place of the loop's, is found at step 4.
    Source: Karpathy, "A Recipe for Training Neural Networks", 2019, on overfitting a single batch.
    """

    code: ClassVar[str] = "D105"
    name: ClassVar[str] = "repeated-batch"
    severity: ClassVar[Severity] = Severity.COSTLY

    num_steps: int = parameter(5, "Recorded steps in a row that must have the same batch.", at_least=2)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # Two consecutive steps each time: further apart the same batch may come back in the next epoch.
        digest = (f"{Fact.BATCH_DIGEST.value}*", f"{Fact.FULL_BATCH.value}*", f"{Fact.EPOCH_STEPS.value}*",
                  f"{Fact.BATCH_SIZE.value}*")
        return (
            Selection(kinds=frozenset({Kind.FACT}), include=digest,
                      schedule=Schedule(every=50, steps=frozenset(range(10)), modes=_IN_TRAINING)),
            Selection(kinds=frozenset({Kind.FACT}), include=digest,
                      schedule=Schedule(every=50, start=1, modes=_IN_TRAINING)),
            Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.BATCH_SIZE.value}*",),
                      schedule=Schedule(modes=frozenset({Mode.EVAL}))),
        )

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        size = fact_value(view, Fact.BATCH_SIZE)
        if view.step.mode is Mode.EVAL and size:
            memory["evaluated"] = max(size, memory.get("evaluated", 0.0))
        digest = fact_value(view, Fact.BATCH_DIGEST)
        if view.step.mode is not Mode.TRAIN or digest is None:
            yield Unjudged("no training step was recorded with a batch digest")
            return
        if size:
            memory["size"] = size
        for name in (Fact.FULL_BATCH, Fact.EPOCH_STEPS):
            value = fact_value(view, name)
            if value is not None:
                memory[name.value] = value
        known: list[float] = memory.setdefault("last", [-2, -1.0])
        apart, same = view.step.number - int(known[0]), digest == known[1]
        memory["last"] = [view.step.number, digest]
        if not same:
            memory.update(same=1, since=view.step.number, divisor=0)
            return
        memory["same"] = memory.get("same", 1) + 1
        memory["divisor"] = math.gcd(memory.get("divisor", 0), apart)
        if memory["divisor"] > 1:
            yield Unjudged("the steps between were not recorded; further apart a batch may repeat")
            return
        if memory["same"] < self.num_steps:
            yield Unjudged(f"{memory['same']} equal batches in a row so far; needs {self.num_steps}")
            return
        yield from self._repeated(view, digest, memory)

    def _repeated(self, view: StepView, digest: float, memory: Mapping[str, Any]) -> Iterable[Symptom | Unjudged]:
        batches = memory.get(Fact.EPOCH_STEPS.value)
        if memory.get(Fact.FULL_BATCH.value) or batches == 1:
            return
        if batches is not None or memory.get(Fact.FULL_BATCH.value) is not None:
            loader = f", out of {int(batches)} in the loader" if batches else ""
            yield self._symptom(view, digest, memory, loader, 0.9, Severity.COSTLY)
        elif memory.get("evaluated", 0.0) > _FAR_MORE * memory.get("size", float("inf")):
            beside = (f"; it has {int(memory['size'])} samples, the evaluation {int(memory['evaluated'])}")
            yield self._symptom(view, digest, memory, beside, 0.5, Severity.DOUBTFUL)
        else:
            yield Unjudged("no loader was seen: this may be training on all data at once")

    def _symptom(
        self, view: StepView, digest: float, memory: Mapping[str, Any], beside: str, weight: float, severity: Severity
    ) -> Symptom:
        seen = f"{memory['same']} recorded steps in a row used the same batch"
        return Symptom(
            message=f"Every step since step {memory['since']} used the same batch{beside}.",
            remedy="Iterate over the loader (for batch in loader: …): next(iter(loader)) returns the first batch each "
                   "time.",
            evidence=(Evidence(fact(Fact.BATCH_DIGEST), view.step.number, "batch_digest", digest, digest, seen),),
            since=memory["since"], severity=severity, causes=(Suspicion(Cause.REPEATED_BATCH, weight, seen),),
        )


_FAR_MORE = 3.0


@dataclass(frozen=True, kw_only=True)
class UnshuffledData(Rule):
    """D106: Batches are sorted by label.

    What it sees: the number of classes among the labels of each step, beside the number that a random draw of that size
      would hold, given the class frequencies so far. A batch is uniform if it holds at most 60% of that. Data are
      unshuffled if `share` of the last `window` recorded batches are uniform, and uniform batches had three different
      main classes (two, if there are only two).
    Why it matters: the model chases the current class and forgets the others; batch normalization sees one class at a
      time.
    What to do: DataLoader(…, shuffle=True), or shuffle inputs and labels with one permutation in each epoch.
    When it is wrong: class after class on purpose (continual learning). The same unsorted order in every epoch is not
      reported, nor are trainings with several optimizers, nor samples that have many labels each, as pixels and words
      do.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Digits sorted by label, 22 batches an epoch, are found at step 6.
    Source: Bottou, "Stochastic Gradient Descent Tricks", 2012, section 4.2: randomly shuffle the training examples.
    """

    code: ClassVar[str] = "D106"
    name: ClassVar[str] = "unshuffled-data"
    severity: ClassVar[Severity] = Severity.COSTLY

    share: float = parameter(0.6, "Share of the last batches that must be uniform.", above=0.0, at_most=1.0)
    window: int = parameter(20, "Recorded batches to look at.", at_least=5)
    least_labels: int = parameter(8, "Labels that a batch must have to be judged.", at_least=2)
    patience: int = parameter(2, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.LABEL}),
                          schedule=Schedule(every=10, steps=frozenset(range(10)), modes=_IN_TRAINING)),
                Selection(kinds=frozenset({Kind.FACT}), include=(f"{Fact.BATCH_SIZE.value}*",),
                          schedule=Schedule(every=0, steps=frozenset(range(3)), modes=_IN_TRAINING)))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN or view.step.has_rivals:
            yield Unjudged("no training step was recorded, or there are several optimizers")
            return
        counts = counts_of(view)
        loss = min(counts, default="")
        now = dict(labels_of(view).get(loss, ()))
        size = sum(now.values())
        if size < self.least_labels:
            yield Unjudged(f"no step was recorded with {self.least_labels} labels or more")
            return
        if not labels_stand_alone(view, memory, size):
            yield Unjudged("samples have many labels each, as pixels and words do; few classes per batch are usual "
                           "then")
            return
        known: dict[str, float] = memory.setdefault("labels", {})
        if len(known) > _MOST_CLASSES:
            yield Unjudged(f"there are more than {_MOST_CLASSES} classes")
            return
        for name, count in now.items():
            known[name] = known.get(name, 0.0) + count
        expected = _classes_in_a_draw(known, size)
        uniform = len(now) <= _FEW * expected
        recent: list[int] = memory.setdefault("recent", [])
        recent.append(int(uniform or len(known) == 1))
        del recent[: -self.window]
        chief = max(now, key=lambda name: now[name])
        chiefs: list[str] = memory.setdefault("chiefs", [])
        if (uniform or len(known) == 1) and chief not in chiefs and len(chiefs) < _MOST_CLASSES:
            chiefs.append(chief)
        if len(recent) < _LEAST_BATCHES or len(known) < 2:
            yield Unjudged("only one class, or too few batches, so far")
            return
        share = sum(recent) / len(recent)
        if share >= self.share and len(chiefs) >= min(3, len(known)) and uniform:
            yield self._symptom(view, loss, now, len(known), expected, share)
        elif share >= self.share:
            yield Unjudged("batches are uniform, but of too few classes so far")

    def _symptom(
        self, view: StepView, loss: str, now: Mapping[str, float], classes: int, expected: float, share: float
    ) -> Symptom:
        chief = max(now, key=lambda name: now[name])
        seen = f"{percent(share)} of the last batches hold far fewer than the {classes} classes seen so far"
        return Symptom(
            message=f"Batches are sorted by label: the {int(sum(now.values()))} labels of step {view.step.number} have "
                    f"{len(now)} {'class' if len(now) == 1 else 'classes'}; a shuffled batch would have about "
                    f"{number(expected)}.",
            remedy="Shuffle the training data: DataLoader(…, shuffle=True), or one permutation for inputs and labels "
                   "in each epoch.",
            evidence=(Evidence(Key(Kind.LABEL, f"{loss}[{chief}]"), view.step.number, "classes_in_batch",
                               float(len(now)), _FEW * expected, seen),),
            # Counted, not suspected: large steps and dead units follow from it.
            causes=(Suspicion(Cause.UNSHUFFLED_DATA, 0.9, seen),),
        )


_MOST_CLASSES = 1000
_LEAST_BATCHES = 5
_FEW = 0.6


def _classes_in_a_draw(counts: Mapping[str, float], size: float) -> float:
    """Return how many classes a random draw of `size` labels holds on average."""
    total = sum(counts.values())
    return math.fsum(1 - (1 - count / total) ** size for count in counts.values())


@dataclass(frozen=True, kw_only=True)
class LeakyValidation(Rule):
    """D109: Evaluation samples are also training samples.

    What it sees: in each evaluation, the share of its samples that are, bit for bit, samples of a recorded training
      step. A leak is a share above `threshold`. If the evaluation covers nearly all known training samples, the
      training set itself was evaluated on purpose; this is not reported. Of several sets evaluated together, the one
      with the smallest share counts. A forward pass before every step, over no more samples than a step has, is part of
      the step (a teacher, a target network), not an evaluation.
    Why it matters: validation then measures how well the model remembers, not how well it generalizes.
    What to do: remove duplicates, then split, before anything else (train_test_split, random_split); split by person or
      document if several samples come from one.
    When it is wrong: data with few distinct values, whose samples are equal by chance; a part of the training set
      evaluated on purpose. Therefore a share below 90% is reported as doubtful.
    Tested on: no finding on 19 small healthy trainings, among them a GAN, a policy, Q-learning and batches of one (one
      seed each). Validation on 300 of the 1,400 training samples is found at its second evaluation; the training set
      and the validation set evaluated one after the other raise no finding.
    Source: Kaufman, Rosset & Perlich, "Leakage in Data Mining", 2011.
    """

    code: ClassVar[str] = "D109"
    name: ClassVar[str] = "leaky-validation"
    severity: ClassVar[Severity] = Severity.COSTLY

    threshold: float = parameter(0.1, "Allowed share of samples seen in training.", at_least=0.0, below=1.0)
    least_samples: int = parameter(20, "Samples that the evaluation must have.", at_least=1)
    patience: int = parameter(2, "Evaluations in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(2, "Evaluations in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        # The recorder also hashes the samples of training steps, from the first ones on.
        names = (Fact.SEEN_IN_TRAINING, Fact.SAMPLES_KNOWN, Fact.SAMPLES_REPEATED, Fact.BATCH_SIZE)
        return (Selection(kinds=frozenset({Kind.FACT}), include=tuple(f"{name.value}*" for name in names),
                          schedule=Schedule(modes=frozenset({Mode.EVAL}))),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        share, known = fact_value(view, Fact.SEEN_IN_TRAINING), fact_value(view, Fact.SAMPLES_KNOWN)
        parts = facts_about(view, Fact.SEEN_IN_TRAINING)
        if parts and share is not None:
            # One of several evaluated sets may be the training set; validation is the one seen least.
            share = min(parts.values())
        if view.step.mode is Mode.TRAIN:
            # The largest: the last batch of an epoch is smaller, and the evaluation may be of the next one.
            memory["batch"] = max(fact_value(view, Fact.BATCH_SIZE) or 0.0, memory.get("batch", 0.0))
        if view.step.mode is not Mode.EVAL or share is None or not known:
            yield Unjudged("no evaluation was recorded whose samples can be compared with training samples")
            return
        size = _evaluated(view) if not parts else None
        if size is not None and _is_part_of_steps(view, memory, size):
            yield Unjudged("the forward pass without gradients before every step is part of the step, not an "
                           "evaluation")
            return
        if size is not None and size < self.least_samples:
            yield Unjudged(f"the evaluation had fewer than {self.least_samples} samples")
            return
        if share <= self.threshold:
            return
        repeated = fact_value(view, Fact.SAMPLES_REPEATED) or 1.0
        # More than are known: duplicates drawn before the data was split.
        if size is not None and _WHOLE * known <= share * size / repeated <= _ALL * known:
            yield Unjudged("the training set itself was evaluated")
            return
        all_facts = f"{percent(share)} of the evaluation samples are also training samples"
        sure = share >= _NEARLY_ALL and (size is not None or bool(parts))
        yield Symptom(
            message=f"{all_facts[0].upper()}{all_facts[1:]}, bit for bit.",
            remedy="Remove duplicates, then split, before anything else: set(train_ids) & set(val_ids) must be empty.",
            evidence=(Evidence(fact(Fact.SEEN_IN_TRAINING), view.step.number, "share", share, self.threshold,
                               f"compared with {int(known)} training samples"),),
            severity=Severity.COSTLY if sure else Severity.DOUBTFUL,
            causes=(Suspicion(Cause.LEAKY_VALIDATION, 0.9 if sure else 0.7, all_facts),),
        )


_WHOLE, _ALL, _NEARLY_ALL = 0.8, 1.05, 0.9


def _is_part_of_steps(view: StepView, memory: Memory, size: float) -> bool:
    """Return whether an apparent evaluation is part of the steps: two steps in a row had one no larger than a batch."""
    follows = view.step.number - memory.get("evaluated", -2) == 1
    memory["evaluated"] = view.step.number
    if follows and size <= memory.get("batch", 0.0):
        memory["of_a_step"] = max(size, memory.get("of_a_step", 0.0))
    return bool(size <= memory.get("of_a_step", -1.0))


def _evaluated(view: StepView) -> float | None:
    """Return the number of samples of an evaluation; None if not recorded."""
    size = fact_value(view, Fact.BATCH_SIZE)
    if size is not None:
        return size
    counts = counts_of(view)
    return sum(counts[min(counts)].values()) if counts else None
