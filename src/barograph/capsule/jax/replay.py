"""Makes a held step of JAX again within the user's own script: the first call of its observed step becomes that one.

The step is the user's own compiled function. It is called with the arrays of the capsule in the places of the script's
own, and what comes out of it is compared with what came out then.
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
from barograph.capsule.grading import graded
from barograph.capsule.guilty import Guilty, filled, guilty_among
from barograph.capsule.jax.arguments import CapturedArguments
from barograph.capsule.jax.equations import Culprit, culprit
from barograph.capsule.order import BadOperation, Grade, ReplayOrder, ReplayResult
from barograph.capture.jax.layers import LayerWrappers, linen_interception
from barograph.capture.jax.listener import call_instead
from barograph.capture.jax.marks import observed_call
from barograph.capture.jax.optax import Wrappers
from barograph.capture.jax.packed import host_array, seen_of
from barograph.capture.jax.program import Compiled, Program
from barograph.errors import ReplayFailed
from barograph.model.capsule import Held
from barograph.runs.capsules import read_capsule
from barograph.store.urls import store_from_url

_MOST_TENSORS = 4


class JaxReplayer:
    """Takes the script over for one step.

    Args:
        order: What is to be replayed, and where the result goes.

    Raises:
        BarographError: The capsule cannot be read.
    """

    def __init__(self, order: ReplayOrder) -> None:
        self._order = order
        self._capsule = read_capsule(store_from_url(order.place), order.name)
        self._name = str(self._capsule.content.get("step", ""))

    def install(self) -> None:
        """Have observed steps called by this from now on."""
        Wrappers().install()
        LayerWrappers().install()
        call_instead(self)

    def call(self, compiled: Compiled, *, loss: Callable[[Any], Any] | None, evaluation: bool, args: tuple[Any, ...],
             kwargs: Mapping[str, Any]) -> Any:
        """Make the held step in the place of the first call of its function; other steps are called as they are."""
        if evaluation or self._name not in ("", compiled.name):
            return compiled.step(*args, **kwargs)

        def instead(*args: Any, **kwargs: Any) -> Any:
            self._make_again(_Again(compiled, loss, self._capsule.content, self._capsule.tensors, args, kwargs))

        with ending_where_it_fails(self._order):
            return compiled.call(instead, args, kwargs)

    def _make_again(self, step: _Again) -> None:
        head, content = self._capsule.head, self._capsule.content
        notes = (*differences(content), *step.arguments.notes)
        then = content["seen"]
        if not then["results"]:
            raise ReplayFailed("The capsule does not say what came out of the step: there was no memory to make it "
                               "once more.")
        now = step.make()
        result = graded(then, now, held=head.held.value, bound=head.numbers.get("bound"), notes=notes)
        if result.grade is not Grade.BITWISE and head.held is Held.NORM:
            now["gradients"] = step.norms()
            again = graded({**then, "gradients": now["gradients"]}, now, held=head.held.value,
                           bound=head.numbers.get("bound"), notes=notes)
            result = replace(again, gradients=())
        result = replace(result, batches=(step.arguments.samples,) if step.arguments.samples else ())
        suspects = step.suspects()
        if suspects:
            result = step.blamed(result, suspects)
            if self._order.samples and step.arguments.batch:
                result = replace(result, guilty=step.guilty(result, suspects))
        end(self._order, result)


class _Again:
    """The held step, as often as it is asked for.

    Args:
        compiled: The script's own step.
        loss: Finds its loss.
        content, tensors: Of the capsule.
        args, kwargs: What the script calls its step with.

    Attributes:
        arguments: What it is given.
    """

    def __init__(self, compiled: Compiled, loss: Callable[[Any], Any] | None, content: Mapping[str, Any],
                 tensors: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._compiled, self._loss = compiled, loss
        own = self._traced(args, kwargs)
        arrays = {name: tensors[name] for name in content["arguments"]}
        self.arguments = CapturedArguments(own, own.leaves(args, kwargs), arrays, content["missing"])
        # Its batch may have another shape than the script's first one.
        args, kwargs = own.arguments(self.arguments.leaves())
        self._program = self._traced(args, kwargs)
        self._leaves: list[Any] = []

    def make(self, rows: Sequence[int] = ()) -> dict[str, Any]:
        """Call the user's own compiled function; return what tells one step from another."""
        args, kwargs = self._program.arguments(self.arguments.leaves(rows))
        found = self._compiled.function(*args, **kwargs)
        self._leaves = jax.tree.leaves(found)
        return seen_of(self._program, found, self._loss)

    def suspects(self) -> list[int]:
        """Return the numbers of the results that are not finite, and were not when the step was given them."""
        bad = [number for number, leaf in enumerate(self._leaves) if not is_finite(host_array(leaf))]
        given, names = self.arguments.carried, self._program.names
        carried = self._program.carried
        fresh = [number for number in bad
                 if number not in carried or is_finite(given.get(names[carried[number]], np.zeros(())))]
        return fresh or bad

    def norms(self) -> dict[str, Any]:
        """Return the norm of each gradient, as the guard sees it."""
        version = self._program.compile(lambda mark: None, on_host=False, bound=math.inf, keeps=True)
        harvested = version(*self._program.arguments(self.arguments.leaves()))
        found = {}
        for item, value in zip(harvested.version.found, harvested.values, strict=True):
            norm = math.sqrt(float(np.asarray(value).reshape(-1, 2)[:, 0].max()))
            found[item.mark.path] = {"norm": norm if math.isfinite(norm) else None}
        return found

    def blamed(self, result: ReplayResult, suspects: Sequence[int]) -> ReplayResult:
        """Return the result with what is to blame, or with why that is not known."""
        program, samples = self._program, self.arguments.samples
        names = program.names
        carried = frozenset(program.carried.values())
        try:
            found = culprit(program.closed.jaxpr, program.closed.consts, self.arguments.leaves(), suspects,
                            carried=carried)
        except Exception as error:  # noqa: BLE001 - a step may hold what cannot be run one by one
            why = f"The operation is not known: {type(error).__name__}: {error}"
            return replace(result, notes=(*result.notes, why))
        if found is None:
            return replace(result, notes=(*result.notes, "The operation is not known: what is not finite comes from a "
                                                         "constant of the step."))
        if found.argument >= 0:
            name = names[found.argument]
            array = host_array(self.arguments.leaves()[found.argument])
            return replace(result, bad_operation=handed_in((("argument", {name: array}),), samples))
        return replace(result, bad_operation=_operation(found, samples))

    def guilty(self, result: ReplayResult, suspects: Sequence[int]) -> Guilty:
        """Return the samples that alone make it fail."""
        samples, bad = self.arguments.samples, result.bad_operation

        def fails(rows: tuple[int, ...]) -> bool:
            self.make(filled(rows, samples))
            return not all(is_finite(host_array(self._leaves[number])) for number in suspects)

        return guilty_among(samples, fails, suspects=bad.rows if bad is not None else ())

    def _traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        with observed_call(), linen_interception():
            return Program(self._compiled.function, args, kwargs)


def _operation(found: Culprit, samples: int) -> BadOperation:
    inputs, outputs = ([host_array(value) for value in values] for values in (found.inputs, found.outputs))
    rows = next((rows for array in outputs if (rows := bad_rows(array, samples))), ())
    return BadOperation(found.name, "backward" if found.backward else "forward", found.scopes, found.line,
                        tuple(map(tensor_seen, inputs[:_MOST_TENSORS])),
                        tuple(map(tensor_seen, outputs[:_MOST_TENSORS])), rows=rows)
