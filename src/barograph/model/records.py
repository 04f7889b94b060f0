"""Records of one worker in one step, as columns: integrations make them, chunks store them.

Records are columns because a step of a large model has thousands of them, and the training
thread has only microseconds for them: too little for one Python object each.
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
    """A key with metadata of its tensor.

    Attributes:
        key: Kind and path.
        layer: Class of its module ("Linear", "ReLU"); "" outside of modules. The output of a functional
            activation has the name of the function ("relu", "tanh", "sigmoid"), and is recorded at the input of the
            module it feeds.
        dtype: Type of the elements, as NumPy and ml_dtypes name it ("float32", "bfloat16").
        shard: The elements are one worker's part of a tensor that is split over workers. Readers merge shards.
            Otherwise workers have replicas, which readers compare.
        whole: Number of elements of the whole tensor of a shard, so that a reader knows whether it has
            all parts; 0 if unknown.
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
        bound: `beyond` counts the elements with |x| >= bound; NaN: not requested.
    """

    count: int
    columns: NDArray[float64]
    bound: float = float("nan")


@dataclass(frozen=True, slots=True)
class StepRecords:
    """All records of one worker in one step.

    Attributes:
        step: The step.
        subjects: Subject of each row; shared by all steps of one plan, so compared by identity.
        moments: Shape (len(subjects), len(MOMENT_FIELDS)), in that order. A row with count 0 was not
            recorded in this step and is not stored.
        exponents: Shape (len(subjects), EXPONENT_BINS), or None if no histogram was requested.
        units: Row to per-unit summaries.
        scalars: Plain numbers of this step (learning rates, losses).
        tensors: Whole tensors that the Selection requests.
    """

    step: Step
    subjects: tuple[Subject, ...] = ()
    moments: NDArray[float64] | None = None
    exponents: NDArray[int64] | None = None
    units: Mapping[int, UnitSummaries] = field(default_factory=dict)
    scalars: Mapping[Key, float] = field(default_factory=dict)
    tensors: Mapping[Key, RawTensor] = field(default_factory=dict)
