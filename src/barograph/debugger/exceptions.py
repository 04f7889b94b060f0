"""smdebug's exceptions, by its names and with its attributes, below our own tree."""

from __future__ import annotations

from barograph.debugger.modes import ModeKeys
from barograph.errors import BarographError


class SMDebugError(BarographError):
    """Any error of smdebug's."""


class SMDebugTypeError(SMDebugError, TypeError):
    """A value is of the wrong type."""


class SMDebugValueError(SMDebugError, ValueError):
    """A value cannot be."""


class SMDebugNotImplementedError(SMDebugError, NotImplementedError):
    """smdebug has it, and Barograph has something else in its place."""


class InvalidCollectionConfiguration(SMDebugError):
    """A collection says neither names nor patterns."""

    def __init__(self, c_name: str) -> None:
        super().__init__(c_name)
        self.c_name = c_name

    def __str__(self) -> str:
        return f"The collection {self.c_name} names no tensor and has no pattern; give it one of them."


class _OfStep(SMDebugError):
    def __init__(self, step: int, mode: ModeKeys) -> None:
        super().__init__(str(step))
        self.step = step
        self.mode = mode

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.step, self.mode)


class StepNotYetAvailable(_OfStep):
    """The training goes on, and this step may come."""

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} is not there yet."


class StepUnavailable(_OfStep):
    """Nothing was saved of this step."""

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} was not saved."


class NoMoreData(SMDebugError):
    """The training is over, and did not come to this step."""

    def __init__(self, step: int, mode: ModeKeys, last_step: int) -> None:
        super().__init__(str(step))
        self.step = step
        self.mode = mode
        self.last_step = last_step

    def __str__(self) -> str:
        return (f"The training has ended before step {self.step} of mode {self.mode.name}; the last one saved is "
                f"{self.last_step}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.step, self.mode, self.last_step)


class TensorUnavailable(SMDebugError):
    """No tensor of that name was saved."""

    def __init__(self, tname: str) -> None:
        super().__init__(tname)
        self.tname = tname

    def __str__(self) -> str:
        return f"The tensor {self.tname} was not saved."


class TensorUnavailableForStep(SMDebugError):
    """The tensor was not saved at that step, or not as a whole."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL, has_reductions: bool = False) -> None:
        super().__init__(tname)
        self.tname = tname
        self.step = step
        self.mode = mode
        self.has_reductions = has_reductions

    def __str__(self) -> str:
        also = " Its reductions were: ask for these." if self.has_reductions else ""
        return f"The value of {self.tname} was not saved at step {self.step} of mode {self.mode.name}.{also}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.tname, self.step, self.mode, self.has_reductions)


class ShapeUnavailableForStep(TensorUnavailableForStep):
    """Neither the tensor nor its shape was saved at that step."""


class InvalidWorker(SMDebugError):
    """No worker of that name saved it."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"No worker {self.worker} saved this."


class RuleEvaluationConditionMet(SMDebugError):
    """What a rule looks for is there."""

    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        super().__init__(rule_name)
        self.rule_name = rule_name
        self.step = step
        self.end_of_rule = end_of_rule

    def __str__(self) -> str:
        return f"The rule {self.rule_name} met its condition at step {self.step}."

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.rule_name, self.step, self.end_of_rule)
