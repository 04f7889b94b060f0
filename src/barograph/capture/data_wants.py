"""The facts about labels, predictions and data to record in a step, derived from the plan once per mask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barograph.capture.plan import Plan
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

_SAMPLES = (Fact.SEEN_IN_TRAINING, Fact.SAMPLES_KNOWN, Fact.SAMPLES_REPEATED, Fact.SEEN_BEFORE)
_LABELS = (Fact.CLASSES, Fact.LABEL_MIN, Fact.LABEL_MAX)
_LOADER = (Fact.EPOCH, Fact.EPOCH_STEPS, Fact.LOADER_WORKERS, Fact.FULL_BATCH)
_DATA = frozenset({Kind.BATCH, Kind.TARGET, Kind.LABEL, Kind.CONFUSION, Kind.FACT})
_TENSORS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.OUTPUT})
_ROWS = (Fact.PROBABILITIES_AS_LOGITS, Fact.LOGITS_AS_PROBABILITIES)


@dataclass(frozen=True, slots=True)
class DataWants:
    """The facts to record in a step.

    Attributes:
        batch: Statistics of the model's inputs.
        size: Number of samples.
        digest: Digest of the content.
        samples: Whether its samples occurred before.
        padding: Shares of frequent values among integers.
        target_in_input: Whether the input contains the targets.
        labels: Counts of labels and predictions.
        label_range: Smallest and largest label, and number of classes.
        loss_weighted: Whether the loss weights classes or samples.
        rows: Whether logits were used as probabilities, or the reverse.
        targets: Statistics of the targets of a distance.
        class_numbers: Whether these targets are class numbers.
        loader: Facts about the loader.
    """

    batch: bool = False
    size: bool = False
    digest: bool = False
    samples: bool = False
    padding: bool = False
    target_in_input: bool = False
    labels: bool = False
    label_range: bool = False
    loss_weighted: bool = False
    rows: bool = False
    targets: bool = False
    class_numbers: bool = False
    loader: bool = False

    @property
    def of_input(self) -> bool:
        """Whether forward passes of models must be observed."""
        return self.batch or self.size or self.digest or self.samples or self.padding or self.target_in_input

    @property
    def of_loss(self) -> bool:
        """Whether arguments of loss functions must be inspected."""
        return (
            self.labels or self.label_range or self.loss_weighted or self.rows or self.targets or self.class_numbers
            or self.target_in_input or self.samples
        )


NOTHING = DataWants()


def data_wants(plan: Plan, mask: int, *, training: bool) -> DataWants:
    """Return the facts about labels, predictions and data that the masked Selections request.

    Properties of the script rather than its data are only checked in training.
    """
    kinds = plan.kinds(mask)
    if not kinds & (_DATA | _TENSORS):
        return NOTHING

    def any_of(facts: Iterable[Fact]) -> bool:
        return Kind.FACT in kinds and any(_asks(plan, mask, item) for item in facts)

    # An evaluation can only be compared with known training samples, the more the better, so they are noted in every
    # recorded step.
    samples = any_of(_SAMPLES) or any(_asks(plan, plan.everything(Mode.EVAL), item) for item in _SAMPLES)
    return DataWants(
        batch=Kind.BATCH in kinds,
        size=any_of((Fact.BATCH_SIZE,)),
        digest=training and any_of((Fact.BATCH_DIGEST,)),
        samples=samples,
        padding=any_of((Fact.PADDING,)),
        target_in_input=training and any_of((Fact.TARGET_IS_INPUT,)),
        labels=bool(kinds & {Kind.LABEL, Kind.CONFUSION}),
        label_range=any_of(_LABELS),
        loss_weighted=training and any_of((Fact.LOSS_WEIGHTED,)),
        rows=training and any_of(_ROWS),
        targets=Kind.TARGET in kinds,
        class_numbers=training and any_of((Fact.CLASS_NUMBERS_REGRESSED,)),
        loader=training and any_of(_LOADER),
    )


def _asks(plan: Plan, mask: int, fact: Fact) -> bool:
    # A pattern may ask for a name with brackets.
    return any(plan.taking(mask, Key(Kind.FACT, path)) is not None for path in (fact.value, f"{fact.value}[0]"))
