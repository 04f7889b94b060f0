"""What one worker recorded in one step, as columns: the thing a Integration makes and a chunk holds.

Records travel as columns, because a step of a large model has thousands of them and the training
thread may spend microseconds on them, not one Python object each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barograph.model.key import Key
from barograph.model.step import Step

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    from barograph.model.tensor import RawTensor


@dataclass(frozen=True, slots=True)
class Subject:
    """A key together with what is known of the tensor behind it.

    Attributes:
        key: Kind and path.
        layer: Class of the module it belongs to, as its author named it ("Linear", "ReLU"); for what is
            not in a module, "". The output of a functional activation carries that of the activation
            ("relu", "tanh", "sigmoid"), seen at the input of the module it feeds.
        dtype: Type of the elements, as NumPy and ml_dtypes name it ("float32", "bfloat16").
        shard: The elements are one worker's part of a tensor that is split over workers: to be merged.
            Otherwise workers hold replicas: to be compared.
        whole: Elements of the whole tensor that a shard is a part of, so that a reader can tell whether it has
            all parts; 0 where that is not known.
    """

    key: Key
    layer: str = ""
    dtype: str = ""
    shard: bool = False
    whole: int = 0


@dataclass(frozen=True, slots=True)
class UnitSummaries:
    """Summaries of each unit (channel, neuron) of one tensor.

    Attributes:
        count: Elements of one unit.
        columns: Shape (units, len(UNIT_FIELDS)), in that order.
        bound: `beyond` counts the elements with |x| >= bound; NaN where it was not asked for.
    """

    count: int
    columns: NDArray[float64]
    bound: float = float("nan")


@dataclass(frozen=True, slots=True)
class StepRecords:
    """Everything one worker recorded in one step.

    Attributes:
        step: Which one.
        subjects: What each row is about; shared by all steps of one plan, so compared by identity.
        moments: Shape (len(subjects), len(MOMENT_FIELDS)), in that order. A row with count 0 was not
            seen in this step and is not stored.
        exponents: Shape (len(subjects), EXPONENT_BINS), or None where no histogram was asked for.
        units: Row to per-unit summaries.
        scalars: Plain numbers of this step (learning rates, losses of the step as a number).
        tensors: Whole tensors, where the Selection says so.
    """

    step: Step
    subjects: tuple[Subject, ...] = ()
    moments: NDArray[float64] | None = None
    exponents: NDArray[int64] | None = None
    units: Mapping[int, UnitSummaries] = field(default_factory=dict)
    scalars: Mapping[Key, float] = field(default_factory=dict)
    tensors: Mapping[Key, RawTensor] = field(default_factory=dict)
