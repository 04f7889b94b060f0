"""One tensor of a trial: smdebug's `Tensor`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from barograph.debugger.catalog import Catalog, Entry, Named, TensorTable
from barograph.debugger.exceptions import (
    InvalidWorker,
    ShapeUnavailableForStep,
    SMDebugValueError,
    TensorUnavailableForStep,
)
from barograph.debugger.modes import ModeKeys
from barograph.debugger.reduction_config import NORMS, REDUCTIONS
from barograph.model.summary import Summary

Array = NDArray[Any]


class TensorSource(Protocol):
    """What a tensor needs of its trial."""

    catalog: Catalog

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps of a mode."""
        ...

    def step_in_mode(self, global_step: int, mode: ModeKeys) -> int | None:
        """Return the number of a step in a mode."""
        ...

    def global_step(self, mode: ModeKeys, mode_step: int) -> int | None:
        """Return the global number of a step of a mode."""
        ...

    def check_step(self, step_num: int, mode: ModeKeys) -> None:
        """Raise if there is no such step."""
        ...


class Tensor:
    """One tensor of a trial.

    Args:
        name: As smdebug calls it.
        trial: Whose.

    Attributes:
        original_name: What TensorFlow called it, where that was saved.
    """

    def __init__(self, name: str, trial: TensorSource) -> None:
        self.name = name
        self.trial = trial
        book = trial.catalog.book
        self.original_name: str | None = book.original_names.get(name, name) if book else None

    def __repr__(self) -> str:
        return f"<Tensor {self.name}>"

    def steps(self, mode: ModeKeys = ModeKeys.GLOBAL, show_incomplete_steps: bool = False) -> list[int]:
        """Return the steps at which the tensor was saved, ascending, counted in a mode."""
        known = set(self.trial.steps(mode, show_incomplete_steps))
        own = (self.trial.step_in_mode(step, mode) for step in self._table().steps)
        return sorted(step for step in own if step is not None and step in known)

    def value(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> Array:
        """Return the value at a step.

        Args:
            step_num: As counted in the mode.
            mode: Which.
            worker: Whose; None: that of the first.

        Raises:
            StepUnavailable, StepNotYetAvailable: Nothing is there of that step.
            TensorUnavailableForStep: It was not saved then, or not as a whole.
            InvalidWorker: That worker did not save it.
        """
        entry = self._entry(step_num, mode, worker)
        if entry.value is None:
            has_reductions = bool(entry.reductions or entry.summary)
            raise TensorUnavailableForStep(self.name, step_num, mode, has_reductions)
        return self.trial.catalog.array(entry.value)

    def values(self, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> dict[int, Array]:
        """Return the value at every step; raises as `value`."""
        return {step: self.value(step, mode, worker) for step in self.steps(mode)}

    def shape(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None) -> tuple[int, ...]:
        """Return the shape at a step.

        Raises:
            ShapeUnavailableForStep: Neither it nor its shape was saved then.
            StepUnavailable, StepNotYetAvailable, InvalidWorker: As of `value`.
        """
        entry = self._entry(step_num, mode, worker)
        if entry.shape is not None:
            return tuple(self.trial.catalog.array(entry.shape).tolist())
        if entry.value is None:
            raise ShapeUnavailableForStep(self.name, step_num, mode)
        return self.trial.catalog.array(entry.value).shape

    def reduction_value(
        self, step_num: int, reduction_name: str, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None,
        abs: bool = False,
    ) -> Any:
        """Return a reduction at a step: as saved, or computed from the tensor or its summary.

        Args:
            step_num, mode, worker: As of `value`.
            reduction_name: "min", "max", "mean", "std", "variance", "sum", "prod", "l1" or "l2".
            abs: Of the magnitudes.

        Raises:
            TensorUnavailableForStep: Nothing of it is there that tells.
            SMDebugValueError: There is no such reduction.
        """
        entry = self._entry(step_num, mode, worker)
        saved = entry.reductions.get((reduction_name, abs))
        if saved is not None:
            return self.trial.catalog.array(saved)
        if entry.value is not None:
            return reduced(self.trial.catalog.array(entry.value), reduction_name, absolute=abs)
        if entry.summary is not None:
            found = _SUMMARIES.get((reduction_name, abs))
            if found is not None:
                return np.float64(found(self.trial.catalog.summary(entry.summary)))
        raise TensorUnavailableForStep(reduction_name, step_num, mode)

    def reduction_values(
        self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL, worker: str | None = None
    ) -> dict[Named, Any]:
        """Return all reductions that were saved at a step, by name and whether they are of the magnitudes."""
        entry = self._entry(step_num, mode, worker)
        there = entry.reductions or (_SUMMARIES if entry.summary else {})
        return {named: self.reduction_value(step_num, named[0], mode, worker, named[1]) for named in there}

    def workers(self, step_num: int, mode: ModeKeys = ModeKeys.GLOBAL) -> list[str]:
        """Return the workers that saved the tensor at a step.

        Raises:
            TensorUnavailableForStep: None did.
        """
        step = self.trial.global_step(mode, step_num)
        found = self._table().steps.get(-1 if step is None else step)
        if found is None:
            raise TensorUnavailableForStep(self.name, step_num, mode)
        return sorted(found)

    def prev_steps(self, step: int, n: int | None = None, mode: ModeKeys = ModeKeys.GLOBAL) -> list[int]:
        """Return the last `n` steps up to and including `step`; None: all of them."""
        steps = self.steps(mode)
        before = steps[: bisect_right(steps, step)]
        return before[-n:] if n else before

    def _table(self) -> TensorTable:
        return self.trial.catalog.tensors[self.name]

    def _entry(self, step_num: int, mode: ModeKeys, worker: str | None) -> Entry:
        step = self.trial.global_step(mode, step_num)
        found = None if step is None else self._table().steps.get(step)
        if found is None:
            self.trial.check_step(step_num, mode)
            step = self.trial.global_step(mode, step_num)
            found = None if step is None else self._table().steps.get(step)
            if found is None:
                raise TensorUnavailableForStep(self.name, step_num, mode)
        if worker is not None and worker not in found:
            raise InvalidWorker(worker)
        return found[worker or min(found)]


def reduced(array: Array, name: str, *, absolute: bool = False) -> Any:
    """Return a reduction of an array, as NumPy computes it.

    Raises:
        SMDebugValueError: There is no such reduction.

    Example:
        >>> float(reduced(np.array([3.0, -4.0]), "l2")), float(reduced(np.array([3.0, -4.0]), "max", absolute=True))
        (5.0, 4.0)
    """
    values = np.absolute(array) if absolute else array
    if name in NORMS:
        return np.linalg.norm(values if values.ndim else values.reshape(1), ord=int(name[1]))
    if name not in REDUCTIONS:
        raise SMDebugValueError(f'"{name}" is not a reduction; use one of {", ".join((*REDUCTIONS, *NORMS))}.')
    return getattr(np, "var" if name == "variance" else name)(values)


_SUMMARIES: Mapping[Named, Callable[[Summary], float]] = {
    ("min", False): lambda summary: summary.min,
    ("max", False): lambda summary: summary.max,
    ("mean", False): lambda summary: summary.mean,
    ("std", False): lambda summary: summary.std,
    ("variance", False): lambda summary: summary.variance,
    ("sum", False): lambda summary: summary.sum,
    ("l1", False): lambda summary: summary.l1,
    ("l2", False): lambda summary: summary.l2,
    ("max", True): lambda summary: summary.max_abs,
    ("mean", True): lambda summary: summary.mean_abs,
    ("sum", True): lambda summary: summary.sum_abs,
}
"""Reductions that a summary tells, of the finite elements."""
