"""A training step in JAX that is observed: chooses which of its two versions runs, and tells the tap what came out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from barograph.capture.array_tap import TOTAL, ArrayTap
from barograph.capture.buffer import StepBuffer
from barograph.capture.jax_layers import LayerWrappers, linen_interception
from barograph.capture.jax_marks import Mark, observed_call
from barograph.capture.jax_names import scalars_of
from barograph.capture.jax_optax import Wrappers
from barograph.capture.jax_program import Compiled, Harvested, Program, signature
from barograph.capture.jax_reading import Reading
from barograph.capture.plan import Taking
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

_MEASURED = 3
"""Calls of each version that are waited for, to know what the statistics cost the device."""

_OPENING_STEPS = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How a step is observed.

    Attributes:
        loss: Returns the loss of what the step returned; None: it is looked for there.
        steps: Optimizer steps of one call; None: as the loops around the optimizer tell.
        evaluation: It is no step, but a part of an evaluation.
    """

    loss: Callable[[Any], Any] | None = None
    steps: int | None = None
    evaluation: bool = False


class ObservedStep:
    """One compiled step, for the life of a recording.

    Args:
        tap: Of its series of steps.
        compiled: The step.
        options: How it is observed.
        optax, layers: What has frameworks' own functions mark; shared with other steps.
    """

    def __init__(self, tap: ArrayTap, compiled: Compiled, options: Options, optax: Wrappers,
                 layers: LayerWrappers) -> None:
        self._tap, self._compiled, self._options = tap, compiled, options
        self._optax, self._layers = optax, layers
        self._programs: dict[Any, Program | None] = {}
        self._program: Program | None = None
        self._harvested: Harvested | None = None
        self._asked = 0
        self._timed: dict[bool, list[float]] = {False: [], True: []}
        self._calls = 0
        self._means = _Means()

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Make the step, or the part of an evaluation, and record it; return what the user's function returns.

        Raises:
            TrainingStopped: A finding has asked for it: between this step and the one before.
        """
        if not self._options.evaluation:
            self._tap.session.raise_if_stopped()
        due = self._is_due()
        self._harvested, self._calls = None, self._calls + 1
        instead = self._first if self._program is None else self._with_statistics if due else None
        found = self._compiled.call(instead, args, kwargs)
        with self._tap.guarded("recording a step"):
            self._record(found)
        return found

    # Which version runs

    def _is_due(self) -> bool:
        with self._tap.guarded("asking what is due"):
            self._optax.install()
            self._layers.install()
            if self._options.evaluation:
                if not self._tap.evaluating:
                    self._tap.begin_evaluation()
            selections = len(self._tap.session.plan.selections)
            if selections != self._asked:
                self._asked = selections
                for program in self._programs.values():
                    if program is not None:
                        program.forget()
            return self._tap.due() and not self._must_be_measured()
        return False

    def _must_be_measured(self) -> bool:
        """Return whether a step is left without statistics, to learn what the others cost more than it."""
        return (self._tap.session.price.budget is not None and len(self._timed[True]) >= _MEASURED
                and self._calls >= _OPENING_STEPS and len(self._timed[False]) < _MEASURED)

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        """Make the first call, of which must be known how many steps it makes."""
        return self._with_statistics(*args, **kwargs) if self._tap.due() else self._plainly(*args, **kwargs)

    def _with_statistics(self, *args: Any, **kwargs: Any) -> Any:
        program = None
        with self._tap.guarded("adding statistics to the compiled step"):
            program = self._compiled_for(args, kwargs)
        if program is None:
            return self._plainly(*args, **kwargs)
        begin, first = time.perf_counter(), program.calls == 0
        measured = not first and len(self._timed[True]) < _MEASURED
        if measured:
            jax.block_until_ready((args, kwargs))
            begin = time.perf_counter()
        try:
            found, self._harvested = program(args, kwargs)
        except Exception as error:
            # Where it is the user's own error, their own function raises it.
            self._programs = dict.fromkeys(self._programs)
            found = self._plainly(*args, **kwargs)
            self._tap.session.guard.caught(error, "running the step with statistics")
            return found
        if first:
            self._tap.session.add_startup(time.perf_counter() - begin)
        elif measured:
            jax.block_until_ready((found, self._harvested.values))
            self._timed[True].append(time.perf_counter() - begin)
        return found

    def _plainly(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled.function(*args, **kwargs)

    def _compiled_for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program | None:
        """Return the program for such arguments, with its second version; None: there can be none."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        key = signature(leaves, structure)
        if key not in self._programs or (self._programs[key] is not None and not self._programs[key].compiled):
            begin = time.perf_counter()
            try:
                self._programs[key] = None
                self._programs[key] = self._new_program(args, kwargs)
            finally:
                self._tap.session.add_startup(time.perf_counter() - begin)
        self._program = self._programs[key] or self._program
        return self._programs[key]

    def _new_program(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        with observed_call(), linen_interception():
            program = Program(self._compiled.function, args, kwargs)
        self._program = program
        on_host = all(device.platform == "cpu" for device in jax.devices())
        program.compile(self._wants, wholes=on_host and not program.many_devices)
        marks = program.marks
        self._tap.declare(parameters=[mark.path for mark in marks if mark.kind is Kind.GRADIENT],
                          modules=[mark.path for mark in marks if mark.kind is Kind.OUTPUT])
        reasons = self._tap.session.seen.reasons
        if not self._options.evaluation and not any(mark.kind is Kind.GRADIENT for mark in marks):
            reasons["jax gradients"] = ("no gradients were seen: the step updates without Optax, or was compiled before "
                                        "it was observed; name them with barograph.jax.gradients")
        for name in program.passed_over:
            reasons[f"jax {name}"] = f"what is computed within {name} of JAX was not recorded"
        return program

    def _wants(self, mark: Mark) -> Taking | None:
        plan = self._tap.session.plan
        mode = Mode.EVAL if self._options.evaluation else Mode.TRAIN
        if mark.role in ("labels", "answers"):
            asked = plan.kinds(plan.everything(mode)) & {Kind.LABEL, Kind.CONFUSION}
            return Taking() if asked else None
        return plan.taking(plan.everything(mode), Key(mark.kind, mark.path), mark.layer)

    # What came out

    def _record(self, found: Any) -> None:
        steps = self._options.steps or (self._program.steps if self._program is not None else 1)
        reading = Reading(self._harvested, steps) if self._harvested is not None else None
        losses, metrics = self._numbers(found, steps)
        for step in range(steps):
            if reading is not None:
                reading.hand_over(self._tap, step)
            if losses is not None:
                self._tap.loss(_number(losses, step, steps))
            for name, values in metrics.items():
                self._means.add(self._tap, Key(Kind.SCALAR, name), _number(values, step, steps))
            if not self._options.evaluation:
                self._charge()
                self._tap.end_explicit_step()

    def _charge(self) -> None:
        """Charge what the statistics have cost the device, as far as that is known."""
        with_statistics, without = self._timed[True], self._timed[False]
        if self._harvested is not None and with_statistics and without:
            more = statistics.median(with_statistics) - statistics.median(without)
            self._tap.session.price.charge(max(0.0, more))

    def _numbers(self, found: Any, steps: int) -> tuple[Any, Mapping[str, Any]]:
        """Return the loss and the metrics among what the step returned."""
        if self._options.loss is not None:
            return self._options.loss(found), {}
        shape = (steps,) if steps > 1 else ()
        numbers: dict[str, Any] = {}
        for part in found if isinstance(found, tuple | list) else (found,):
            for name, leaf in scalars_of(part, shape).items():
                numbers.setdefault(name, leaf)
        name = next((name for name in ("loss", "", *numbers) if name in numbers), None)
        loss = None if name is None else numbers.pop(name)
        return loss, {name: leaf for name, leaf in numbers.items() if name}


class _Means:
    """Metrics: of a step the last value, of an evaluation the mean over its parts."""

    def __init__(self) -> None:
        self._of: StepBuffer | None = None
        self._values: dict[Key, list[float]] = {}

    def add(self, tap: ArrayTap, key: Key, value: float | Callable[[], float]) -> None:
        """Have a metric recorded once its device has it."""
        def put(buffer: StepBuffer) -> None:
            if buffer is not self._of:
                self._of, self._values = buffer, {}
            values = self._values.setdefault(key, [])
            values.append(value() if callable(value) else value)
            buffer.scalars[key] = sum(values) / len(values)

        tap.defer(put)


def _number(values: Any, step: int, steps: int) -> float | Callable[[], float]:
    """Return the number of one step: at once where it is there, else a function that waits for it."""
    def read() -> float:
        array = np.asarray(values)
        return float(array[step] if steps > 1 and array.ndim else array.mean())

    if not isinstance(values, jax.Array) or values.is_ready():
        return read()
    values.copy_to_host_async()
    return read
