"""Replays a saved JAX step inside the user's script, in place of the first call of its observed step.

The step is the user's own compiled function. It is called with the capsule's arrays instead of the script's, and its
results are compared with the original ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from barograph.capsule.arrays import bad_rows, handed_in, is_finite, tensor_seen
from barograph.capsule.circumstances import differences
from barograph.capsule.ending import end, ending_where_it_fails
from barograph.capsule.failing import Failing, failing_by, guilty_here
from barograph.capsule.grading import graded
from barograph.capsule.guilty import Guilty
from barograph.capsule.jax.arguments import CapturedArguments
from barograph.capsule.jax.equations import Culprit, culprit
from barograph.capsule.order import BadOperation, Grade, OwnResult, ReplayOrder, ReplayResult
from barograph.capsule.own_function import result_of
from barograph.capture.jax.guard import updates_seen
from barograph.capture.jax.layers import LayerWrappers, linen_interception
from barograph.capture.jax.listener import call_instead
from barograph.capture.jax.marks import observed_call
from barograph.capture.jax.optax import Wrappers
from barograph.capture.jax.packed import host_array, seen_of
from barograph.capture.jax.program import Compiled, Program, Version
from barograph.errors import ReplayFailed
from barograph.model.capsule import Held
from barograph.model.recorder import UpdateSeen
from barograph.runs.state.capsules import read_capsule
from barograph.store.urls import store_from_url

_MOST_TENSORS = 4
_SEVERAL = ("One call of this step makes several steps, and the capsule does not say which one was held: --when "
            "needs one call per step.")


class JaxReplayer:
    """Takes over the script for one step.

    Args:
        order: The step to replay, and the destination of the result.

    Raises:
        BarographError: The capsule cannot be read.
    """

    def __init__(self, order: ReplayOrder) -> None:
        self._order = order
        self._capsule = read_capsule(store_from_url(order.place), order.name)
        self._name = str(self._capsule.content.get("step", ""))
        self._wrappers = Wrappers(), LayerWrappers()

    def install(self) -> None:
        """Intercept observed steps from now on."""
        call_instead(self)

    def remove(self) -> None:
        """Stop intercepting."""
        call_instead(None)
        for wrappers in self._wrappers:
            wrappers.remove()

    def call(self, compiled: Compiled, *, loss: Callable[[Any], Any] | None, evaluation: bool, args: tuple[Any, ...],
             kwargs: Mapping[str, Any]) -> Any:
        """Replay the saved step instead of the first call of its function; other steps run unchanged."""
        if evaluation or self._name not in ("", compiled.name):
            return compiled.step(*args, **kwargs)
        for wrappers in self._wrappers:
            # Not earlier: the script imports Optax and others after JAX.
            wrappers.install()

        def instead(*args: Any, **kwargs: Any) -> Any:
            self._make_again(_Again(compiled, loss, self._capsule.content, self._capsule.tensors, args, kwargs))

        with ending_where_it_fails(self._order):
            return compiled.call(instead, args, kwargs)

    def _make_again(self, step: _Again) -> None:
        head, content = self._capsule.head, self._capsule.content
        notes = (*differences(content), *step.arguments.notes)
        then = content["seen"]
        if not then["results"]:
            raise ReplayFailed("The capsule has no results of the step: there was not enough memory to run it "
                               "again.")
        now = step.make()
        result = graded(then, now, held=head.held.value, bound=head.numbers.get("bound"), notes=notes)
        if result.grade is not Grade.BITWISE and head.held is Held.NORM:
            now["gradients"] = {path: {"norm": norm if math.isfinite(norm) else None}
                                for path, norm in step.update(head.step).norms.items()}
            again = graded({**then, "gradients": now["gradients"]}, now, held=head.held.value,
                           bound=head.numbers.get("bound"), notes=notes)
            result = replace(again, gradients=())
        result = replace(result, batches=(step.arguments.samples,) if step.arguments.samples else ())
        suspects = step.suspects()
        if suspects:
            result = step.blamed(result, suspects)
        result = self._judged(step, result, self._order.when)
        fails = failing_by(head, result, asked=bool(self._order.when))
        if self._order.samples and step.arguments.batch and (suspects or fails.held is not Held.NOT_FINITE):
            result = replace(result, guilty=self._guilty(step, result, suspects, fails))
        end(self._order, result)

    def _judged(self, step: _Again, result: ReplayResult, when: str, rows: Sequence[int] = ()) -> ReplayResult:
        """Return the result with the gate's measurements of a step, and the answer of the user's function."""
        if not when and self._capsule.head.held is not Held.NORM:
            return result
        if step.steps > 1:
            return replace(result, own=OwnResult(failure=_SEVERAL)) if when else result
        update = step.update(self._capsule.head.step, rows)
        return replace(result, norm=update.norm,
                       own=result_of(when, update, trusts=self._order.trusts) if when else None)

    def _guilty(self, step: _Again, result: ReplayResult, suspects: Sequence[int], fails: Failing) -> Guilty:
        """Return the samples that make a step fail on their own."""
        bad, asked = result.bad_operation, self._order.when if fails.held is Held.OWN else ""

        def make(rows: tuple[int, ...]) -> ReplayResult:
            made = step.make(rows)
            losses = tuple((loss, loss) for loss in map(float.fromhex, made["losses"]))
            return self._judged(step, ReplayResult(Grade.BITWISE, "", losses), asked, rows)

        def fails_by(again: ReplayResult) -> bool:
            return step.is_bad(suspects) if fails.held is Held.NOT_FINITE else fails(again)

        return guilty_here(step.arguments.samples, make, fails_by, bad.rows if bad is not None else ())


class _Again:
    """The saved step, which can run repeatedly.

    Args:
        compiled: The script's step.
        loss: Finds its loss.
        content, tensors: Content and tensors of the capsule.
        args, kwargs: The script's arguments.

    Attributes:
        arguments: Arguments of the replay.
    """

    def __init__(self, compiled: Compiled, loss: Callable[[Any], Any] | None, content: Mapping[str, Any],
                 tensors: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._compiled, self._loss = compiled, loss
        own = self._traced(args, kwargs)
        arrays = {name: tensors[name] for name in content["arguments"]}
        self.arguments = CapturedArguments(own, own.leaves(args, kwargs), arrays, content["missing"])
        # Its batch may have another shape than the script's first batch.
        args, kwargs = own.arguments(self.arguments.leaves())
        self._program = self._traced(args, kwargs)
        self._leaves: list[Any] = []
        self._judging: Version | None = None

    def make(self, rows: Sequence[int] = ()) -> dict[str, Any]:
        """Call the user's compiled function; return the values to compare."""
        args, kwargs = self._program.arguments(self.arguments.leaves(rows))
        found = self._compiled.function(*args, **kwargs)
        self._leaves = jax.tree.leaves(found)
        return seen_of(self._program, found, self._loss)

    def suspects(self) -> list[int]:
        """Return the indices of the results that are non-finite although the corresponding inputs were finite."""
        bad = [number for number, leaf in enumerate(self._leaves) if not is_finite(host_array(leaf))]
        given, names = self.arguments.carried, self._program.names
        carried = self._program.carried
        fresh = [number for number in bad
                 if number not in carried or is_finite(given.get(names[carried[number]], np.zeros(())))]
        return fresh or bad

    def is_bad(self, numbers: Sequence[int]) -> bool:
        """Return whether any of these results of the last call is non-finite."""
        return not all(is_finite(host_array(self._leaves[number])) for number in numbers)

    @property
    def steps(self) -> int:
        """Number of steps per call."""
        return self._program.steps

    def update(self, number: int, rows: Sequence[int] = ()) -> UpdateSeen:
        """Return the gate's measurements of the step, or of the first of several.

        Args:
            number: Number of the step.
            rows: Rows of the batch to use; empty: all.
        """
        if self._judging is None:
            self._judging = self._program.compile(lambda mark: None, on_host=False, bound=math.inf, keeps=True)
        harvested = self._judging(*self._program.arguments(self.arguments.leaves(rows)))
        update, _ = next(updates_seen(harvested, self.steps, self._loss, first=number))
        return update

    def blamed(self, result: ReplayResult, suspects: Sequence[int]) -> ReplayResult:
        """Return the result with the cause, or with why it is unknown."""
        program, samples = self._program, self.arguments.samples
        names = program.names
        carried = frozenset(program.carried.values())
        try:
            found = culprit(program.closed.jaxpr, program.closed.consts, self.arguments.leaves(), suspects,
                            carried=carried)
        except Exception as error:  # noqa: BLE001 - a step may contain operations that cannot run one by one
            why = f"The operation is not known: {type(error).__name__}: {error}"
            return replace(result, notes=(*result.notes, why))
        if found is None:
            return replace(result, notes=(*result.notes, "The operation is not known: the values come from a "
                                                         "constant of the step."))
        if found.argument >= 0:
            name = names[found.argument]
            array = host_array(self.arguments.leaves()[found.argument])
            return replace(result, bad_operation=handed_in((("argument", {name: array}),), samples))
        return replace(result, bad_operation=_operation(found, samples))

    def _traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        with observed_call(), linen_interception():
            return Program(self._compiled.function, args, kwargs)


def _operation(found: Culprit, samples: int) -> BadOperation:
    inputs, outputs = ([host_array(value) for value in values] for values in (found.inputs, found.outputs))
    rows = next((rows for array in outputs if (rows := bad_rows(array, samples))), ())
    return BadOperation(found.name, "backward" if found.backward else "forward", found.scopes, found.line,
                        tuple(map(tensor_seen, inputs[:_MOST_TENSORS])),
                        tuple(map(tensor_seen, outputs[:_MOST_TENSORS])), rows=rows)
