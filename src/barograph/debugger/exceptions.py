"""smdebug's exceptions, with its names and attributes, as part of our tree of errors."""

from __future__ import annotations

from barograph.debugger.modes import ModeKeys
from barograph.errors import BarographError


class SMDebugError(BarographError):
    """Base of smdebug's errors."""


class SMDebugTypeError(SMDebugError, TypeError):
    """A value has the wrong type."""


class SMDebugValueError(SMDebugError, ValueError):
    """A value is invalid."""


class SMDebugNotImplementedError(SMDebugError, NotImplementedError):
    """Barograph does not implement this smdebug feature."""


class InvalidCollectionConfiguration(SMDebugError):
    """A collection has neither names nor patterns."""

    def __init__(self, c_name: str) -> None:
        super().__init__(c_name)
        self.c_name = c_name

    def __str__(self) -> str:
        return f"The collection {self.c_name} has no tensor names and no patterns; add one."


class _OfStep(SMDebugError):
    def __init__(self, step: int, mode: ModeKeys) -> None:
        super().__init__(str(step))
        self.step = step
        self.mode = mode

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.step, self.mode)


class StepNotYetAvailable(_OfStep):
    """The step is not available yet; training goes on."""

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} is not available yet."


class StepUnavailable(_OfStep):
    """The step was not saved."""

    def __str__(self) -> str:
        return f"Step {self.step} of mode {self.mode.name} was not saved."


class NoMoreData(SMDebugError):
    """The training ended before this step."""

    def __init__(self, step: int, mode: ModeKeys, last_step: int) -> None:
        super().__init__(str(step))
        self.step = step
        self.mode = mode
        self.last_step = last_step

    def __str__(self) -> str:
        return (f"The training ended before step {self.step} of mode {self.mode.name}; the last saved step is "
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
    """The tensor, or its value, was not saved at that step."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL, has_reductions: bool = False) -> None:
        super().__init__(tname)
        self.tname = tname
        self.step = step
        self.mode = mode
        self.has_reductions = has_reductions

    def __str__(self) -> str:
        also = " Its reductions were; read those." if self.has_reductions else ""
        return f"The value of {self.tname} was not saved at step {self.step} of mode {self.mode.name}.{also}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.tname, self.step, self.mode, self.has_reductions)


class ShapeUnavailableForStep(TensorUnavailableForStep):
    """Neither the tensor nor its shape was saved at that step."""


class InvalidWorker(SMDebugError):
    """No worker of that name saved data."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"Worker {self.worker} did not save this."


class RuleEvaluationConditionMet(SMDebugError):
    """The condition of a rule is met."""

    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        super().__init__(rule_name)
        self.rule_name = rule_name
        self.step = step
        self.end_of_rule = end_of_rule

    def __str__(self) -> str:
        return f"The rule {self.rule_name} met its condition at step {self.step}."

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.rule_name, self.step, self.end_of_rule)
