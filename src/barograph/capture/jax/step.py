"""An observed JAX training step: chooses which version runs, and records its results."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.evaluation_means import EvaluationMeans
from barograph.capture.jax import foreign
from barograph.capture.jax.blame import Blame
from barograph.capture.jax.counts import updates_before
from barograph.capture.jax.guard import JaxGuard
from barograph.capture.jax.layers import LayerWrappers, linen_interception
from barograph.capture.jax.marks import SCORES, TARGETS, Mark, observed_call
from barograph.capture.jax.numbers import number_of, numbers_in
from barograph.capture.jax.optax import Wrappers
from barograph.capture.jax.program import Compiled, Harvested, Program, Version, signature
from barograph.capture.jax.reading import Reading, Readings
from barograph.capture.jax.step_rates import StepRates, step_rates
from barograph.capture.jax.timing import FEW, MOST, Surplus
from barograph.capture.plan import Taking
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.jax.evaluation_probe import EvaluationProbe

_OPENING_STEPS = 10

_MOST_NAMED = 20

_TENSORS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OPTIMIZER_STATE, Kind.OUTPUT, Kind.INPUT})


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an observed step.

    Attributes:
        loss: Returns the loss from the results of the step; None: search.
        steps: Number of optimizer steps per call; None: from the loops around the optimizer.
        evaluation: The function is a part of an evaluation rather than a step.
        together: Compute statistics in one program with the step, which may then round differently. None: if a test
            has shown that it does not.
    """

    loss: Callable[[Any], Any] | None = None
    steps: int | None = None
    evaluation: bool = False
    together: bool | None = None


class ObservedStep:
    """One observed step, for the lifetime of a recording.

    Args:
        integration: Integration of its series of steps.
        compiled: The step.
        options: Options.
        optax, layers: Wrappers that mark values of framework functions; shared with other steps.
        probe: Collects samples of an evaluation; None: nothing.
    """

    def __init__(self, integration: ArrayIntegration, compiled: Compiled, options: Options, optax: Wrappers,
                 layers: LayerWrappers, probe: EvaluationProbe | None = None) -> None:
        self._integration, self._compiled, self._options = integration, compiled, options
        self._optax, self._layers, self._probe = optax, layers, probe
        recorder = integration.session.settings.recorder
        guards = recorder is not None and not options.evaluation
        self._guard = (
            JaxGuard(integration, recorder, compiled, options.loss) if recorder is not None and guards else None
        )
        self._versions: dict[Any, Version | None] = {}
        self._programs: dict[Any, Program] = {}
        self._program: Program | None = None
        self._alone: tuple[Program, str] | None = None
        self._given: tuple[tuple[Any, ...], Mapping[str, Any]] | None = None
        self._blame = Blame(integration)
        self._is_compiled = self._has_read = self._loss_is_within = False
        self._is_together = bool(options.together)
        self._due = False
        self._held: tuple[int, ...] = ()
        self._failed: Exception | None = None
        self._harvested: Harvested | None = None
        self._readings = Readings()
        self._rates: dict[Any, StepRates | None] = {}
        self._rates_now: StepRates | None = None
        self._rate_reading: Reading | None = None
        self._plain_rates: Sequence[Any] = ()
        self._rates_secs = 0.0
        self._forms: dict[Any, int] = {}
        self._form: int | None = None
        self._asked = 0
        most = FEW if integration.session.price.budget is None else MOST
        self._surplus = {apart: Surplus(most) for apart in (False, True)}
        self._is_apart = False
        self._calls = self._plain_calls = 0
        self._means = EvaluationMeans()

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Make the step, or the part of an evaluation, and record it; return the function's results.

        Raises:
            TrainingStopped: A finding stopped the training, between this step and the previous one.
        """
        if not self._options.evaluation:
            self._integration.session.steering.raise_if_stopped()
            if not self._calls and not self._integration.has_begun:
                self._go_on_from(args, kwargs)
        self._begin_call()
        self._given = (args, kwargs) if self._compiled.takes_arguments_as_they_are else None
        if self._is_together and self._is_plain_to_be_timed():
            found = self._timed_plain(args, kwargs)
        else:
            other = (self._due or self._guard is not None or self._program is None or self._computes_rates
                     or self._probe is not None)
            found = self._compiled.call(self._instead if other else None, args, kwargs)
        if self._failed is not None:
            error, self._failed = self._failed, None
            self._integration.session.guard.caught(error, "running the step with statistics")
        try:
            self._record(found)
        finally:
            self._given = None  # only `Blame` may keep the inputs of the step, until its loss is available
        if self._held:
            # The update is withheld, so nothing is lost if this raises.
            self._integration.session.steering.raise_if_stopped()
        return found

    def _go_on_from(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Continue counting from a restored optimizer's step count."""
        before = 0
        with self._integration.guarded("reading the optimizer's step count"):
            before = updates_before((args, kwargs))
        if before:
            self._integration.begin_training(before)

    # Choice of the version to run

    def _begin_call(self) -> None:
        self._due = self._is_due()
        self._harvested, self._form, self._held, self._calls = None, None, (), self._calls + 1
        self._rate_reading, self._plain_rates, self._rates_secs = None, (), 0.0

    def _is_due(self) -> bool:
        due = False
        with self._integration.guarded("checking what to record"):
            self._optax.install()
            self._layers.install()
            if self._options.evaluation and not self._integration.evaluating:
                self._integration.begin_evaluation()
            elif self._integration.evaluating and not self._options.evaluation:
                self._integration.end_evaluation()
            selections = len(self._integration.session.plan.selections)
            if selections != self._asked:
                self._asked = selections
                self._forget_versions()
            kinds = _TENSORS if self._program is None else self._program.kinds
            due = bool(kinds) and self._integration.due(*kinds)
        return due

    def _is_plain_to_be_timed(self) -> bool:
        """Return whether to run the step without statistics, to measure their cost; usually none are due."""
        if self._integration.session.price.budget is None or self._guard is not None or self._calls < _OPENING_STEPS:
            return False
        surplus = self._surplus[False]
        return surplus.wants(recorded=False) if not self._due else surplus.lacks_plain and not self._options.evaluation

    def _timed_plain(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Make the step without statistics, and measure its duration."""
        jax.block_until_ready((args, kwargs))
        first, programs = not (self._plain_calls or self._is_compiled), self._compiled.programs
        begin = time.perf_counter()
        with self._integration.session.startup.apart_from_training() if first else nullcontext():
            instead = self._plainly_with_rates if self._computes_rates else None
            found = jax.block_until_ready(self._compiled.call(instead, args, kwargs))
        if self._plain_calls and self._compiled.programs == programs:
            self._surplus[False].add(time.perf_counter() - begin - self._rates_secs, recorded=False)
        self._plain_calls += 1  # the first one has compiled it
        return found

    def _instead(self, *args: Any, **kwargs: Any) -> Any:
        """Make the step with additional results, in the user's own function if possible."""
        self._given = args, kwargs
        if self._program is None:
            with self._integration.guarded("tracing the step"), self._integration.session.startup.apart_from_training():
                self._program = self._program_for(args, kwargs)
        self._read_rates(args, kwargs)
        if self._probe is not None:
            with self._integration.guarded("recording the probe"):
                self._probe.take(self._program_for(args, kwargs), args, kwargs, self._integration)
        if self._due and self._options.together is None:
            version = self._candidate(args, kwargs)
            if version is not None and not version.proof.holds:
                return self._tried(version, args, kwargs)
            self._is_together = version is not None
        apart = self._due and not self._is_together
        if apart:
            self._harvested = self._run(args, kwargs, due=True, apart=True)
        held = None
        if self._guard is not None or (self._due and not apart):
            held = self._run(args, kwargs, due=self._due and not apart, apart=False)
        if held is None:
            return self._plainly(*args, **kwargs)
        self._harvested = self._harvested if apart else held
        if self._guard is not None:
            with self._integration.guarded("checking the gradients"):
                steps = held.version.program.steps
                self._held = self._guard.looks(held, steps)
        return held.results

    @property
    def _computes_rates(self) -> bool:
        """Whether a program for the learning rates of the next step is called."""
        return self._rates_now is not None and not self._rates_now.constants

    def _plainly_with_rates(self, *args: Any, **kwargs: Any) -> Any:
        self._read_rates(args, kwargs)
        return self._compiled.function(*args, **kwargs)

    def _read_rates(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Compute the learning rates of the step before it, because it may donate their inputs."""
        program, integration = self._program, self._integration
        if program is None or self._options.evaluation or not integration.asks_ever(Kind.LEARNING_RATE):
            return
        begin = time.perf_counter()
        with integration.guarded("computing the learning rate"):
            leaves, structure = program.flat(args, kwargs)
            if structure not in self._rates:
                self._rates[structure] = None  # try once, even if it fails
                with integration.session.startup.apart_from_training():
                    self._rates[structure] = step_rates(self._program_for(args, kwargs))
            rates = self._rates_now = self._rates[structure]
            if rates is not None and not rates.constants:
                values = rates(leaves)
                if rates.are_plain:
                    self._plain_rates = values
                else:
                    self._rate_reading = self._readings.of(rates, values, {}, program.steps)
        self._rates_secs = time.perf_counter() - begin

    def _record_rates(self, step: int) -> None:
        if self._rate_reading is not None:
            self._rate_reading.hand_over(self._integration, step)
        elif self._rates_now is not None:
            # The small program's results are separate arrays, which nobody donates.
            for group, rate in zip(self._rates_now.groups, self._plain_rates, strict=False):
                self._integration.learning_rate(_number(rate, 0, 1, None), group)
            for group, constant in self._rates_now.constants.items():
                self._integration.learning_rate(constant, group)

    def _candidate(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Version | None:
        """Return the version that may make the step itself; None: only the user's function may."""
        version = None
        if self._guard is None and foreign.is_on_host() and jax.process_count() == 1:
            with self._integration.guarded("adding statistics to the compiled step"):
                version = self._version_for(args, kwargs, due=True, apart=False)
        if version is None or version.program.many_devices or version.program.branches or version.proof.refuted:
            return None
        return version

    def _tried(self, version: Version, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Make the step by the user's own function, and by a version that returns statistics as well; compare them."""
        with self._integration.session.startup.apart_from_training():
            self._harvested = self._run(args, kwargs, due=True, apart=False, tried=True)
            jax.block_until_ready(args if self._harvested is None else self._harvested.outs)
        begin, was_compiled = time.perf_counter(), self._is_compiled
        found = self._plainly(*args, **kwargs)
        if self._harvested is not None:
            jax.block_until_ready(found)
            if was_compiled:
                self._plain_calls += 1
                self._surplus[False].add(time.perf_counter() - begin, recorded=False)
            with (
                self._integration.guarded("comparing two versions of the step"),
                self._integration.session.startup.apart_from_training(),
            ):
                version.proof.compare(self._harvested.outs, jax.tree.leaves(found))
            if version.proof.refuted:
                self._forget_what_they_cost()
        return found

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, due: bool, apart: bool, tried: bool = False
             ) -> Harvested | None:
        """Call another version of the step; None: there is none, or it failed, as the user's function then may.

        Args:
            args, kwargs: Arguments of the user's function.
            due: Statistics are due.
            apart: It computes nothing else.
            tried: The user's function is called as well, with the donated arguments.
        """
        with self._integration.guarded("adding statistics to the compiled step"):
            version = None
            version = self._version_for(args, kwargs, due=due, apart=apart)
        if version is None:
            return None
        surplus = self._surplus[apart]
        self._is_apart = apart if due else self._is_apart
        timed = due and not tried and version.calls > 0 and surplus.wants(recorded=True)
        if timed:
            jax.block_until_ready((args, kwargs))
        begin, first = time.perf_counter(), version.calls == 0
        try:
            with self._integration.session.startup.apart_from_training() if first else nullcontext():
                harvested = version(args, kwargs, keeps=tried)
        except Exception as error:  # noqa: BLE001 - the user's function can still be called
            # If the error is the user's, their own function raises it, too.
            self._versions = dict.fromkeys(self._versions)
            self._failed = error
            return None
        if timed:
            jax.block_until_ready((harvested.outs, harvested.values, harvested.joined))
            surplus.add(time.perf_counter() - begin, recorded=True)
            if apart:
                surplus.add(0.0, recorded=False)  # all of it is additional to the step
        return harvested

    def _plainly(self, *args: Any, **kwargs: Any) -> Any:
        first, self._is_compiled = not self._is_compiled, True
        with self._integration.session.startup.apart_from_training(ours=False) if first else nullcontext():
            return self._compiled.function(*args, **kwargs)

    def _version_for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, due: bool, apart: bool
                     ) -> Version | None:
        """Return the version for such arguments, with statistics if due; None: not possible."""
        key = (self._form_of(args, kwargs), due, apart)
        if key not in self._versions:
            self._versions[key] = None
            with self._integration.session.startup.apart_from_training():
                self._program = self._program_for(args, kwargs)
                self._versions[key] = self._new_version(self._program, due=due, apart=apart)
        return self._versions[key]

    def _form_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        """Return the number of the traced form for the current call's arguments; cached."""
        if self._form is None:
            self._form = self._forms.setdefault(signature(*jax.tree.flatten((args, kwargs))), len(self._forms))
        return self._form

    def _program_for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        form = self._form_of(args, kwargs)
        if form not in self._programs:
            self._programs[form] = self._new_program(args, kwargs)
        return self._programs[form]

    def _new_program(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        with observed_call(probed=self._probe is not None), linen_interception():
            program = Program(self._compiled.function, args, kwargs)
        marks = program.marks
        self._integration.declare(parameters=[mark.path for mark in marks if mark.kind is Kind.GRADIENT],
                          modules=[mark.path for mark in marks if mark.kind is Kind.OUTPUT])
        if not self._options.evaluation and not any(mark.kind is Kind.GRADIENT for mark in marks):
            self._integration.session.seen.reasons["jax gradients"] = (
                "no gradients were recorded: the step updates without Optax; mark them with barograph.jax.gradients")
        return program

    def _new_version(self, program: Program, *, due: bool, apart: bool) -> Version:
        guard = self._guard
        # Separate statistics also need the bound if a call continues after a withheld iteration.
        bound = None if guard is None or (apart and program.steps == 1) else guard.bound
        version = program.compile(self._wants if due else lambda mark: None, apart=apart,
                                  on_host=foreign.is_on_host() and not program.many_devices, bound=bound,
                                  keeps=guard is not None and guard.keeps)
        for name in version.passed_over:
            self._integration.session.seen.reasons[f"jax {name}"] = (
                f"values inside JAX's {name} were not recorded"
            )
        return version

    def _wants(self, mark: Mark) -> Taking | None:
        plan = self._integration.session.plan
        mode = Mode.EVAL if self._options.evaluation else Mode.TRAIN
        if mark.role in (SCORES, TARGETS):
            return None
        if mark.kind is Kind.LOSS and mark.role and self._loss_is_within:
            return Taking()
        if mark.kind is Kind.LEARNING_RATE and self._rates_now is not None:
            return None  # recorded at every step
        if mark.kind is Kind.LOSS or (
                mark.kind in (Kind.GRADIENT, Kind.UPDATE) and self._stillness_holds(mark.path)):
            return None
        if mark.role in ("labels", "predictions", "codes"):
            asked = plan.kinds(plan.everything(mode)) & {Kind.LABEL, Kind.CONFUSION}
            return Taking() if asked else None
        return plan.taking(plan.everything(mode), Key(mark.kind, mark.path), mark.layer)

    def _stillness_holds(self, path: str) -> bool:
        """Return whether the optimizer deliberately freezes a parameter: then it counts as one without gradient."""
        return self._program is not None and path in self._program.stillness.held

    # Results

    def _record(self, found: Any) -> None:
        steps = self._options.steps or (self._program.steps if self._program is not None else 1)
        reading, losses, metrics, alone = None, None, dict[str, Any](), ""
        with self._integration.guarded("finding the loss"):
            mapped = self._program is not None and self._program.is_mapped
            losses, metrics = numbers_in(found, steps, self._options.loss, mapped=mapped)
            if losses is None:
                self._look_within()
            if losses is not None and self._program is not None:
                alone = self._alone_of(self._program, found, losses)
        first, self._has_read = self._harvested is not None and not self._has_read, True
        with self._integration.guarded("fetching statistics"):
            if self._harvested is not None:
                returned = self._harvested
                reading = self._readings.of(returned.version, returned.values, returned.joined, steps)
        for step in range(steps):
            with self._integration.guarded("recording a step"), self._reading_first(first and step == 0):
                if losses is not None:
                    loss = _number(losses, step, steps, self._program)
                    self._integration.loss(loss)
                    if steps == 1 and not self._options.evaluation:
                        self._blame.take(loss, self._program, self._given)
                    if alone:
                        self._integration.loss(loss, alone)
                self._record_rates(step)
                for name, values in metrics.items():
                    value = _number(values, step, steps, self._program)
                    self._means.add(self._integration, Key(Kind.SCALAR, name), value)
                if reading is not None:
                    reading.hand_over(self._integration, step)
                    self._tell_stillness()
                    self._charge(steps)
            if not self._options.evaluation:
                self._integration.end_explicit_step(skipped=step in self._held)

    def _look_within(self) -> None:
        """Return the loss with the statistics, for a step that does not return it but marks it."""
        if self._loss_is_within or self._program is None or self._options.evaluation:
            return
        self._loss_is_within = True
        marked = any(mark.kind is Kind.LOSS and mark.role for mark in self._program.marks)
        self._integration.session.seen.reasons["jax loss"] = (
            "the step does not return its loss as a scalar: " + (
                "it is recorded only with tensors, from the second such step on; return it to record it at every step"
                if marked else "return it, or pass observe(step, loss=…)"))
        if marked:
            self._forget_versions()

    def _reading_first(self, first: bool) -> AbstractContextManager[None]:
        """Return a context that counts the first read of statistics, which creates rows and names, as start-up."""
        return self._integration.session.startup.apart_from_training() if first else nullcontext()

    def _alone_of(self, program: Program, found: Any, loss: Any) -> str:
        if self._alone is None or self._alone[0] is not program:
            self._alone = program, program.loss_alone(found, loss)
        return self._alone[1]

    def _tell_stillness(self) -> None:
        """Record which parameters cannot change."""
        if self._program is None or not self._program.stillness.parameters:
            return
        stillness = self._program.stillness
        self._integration.fact(Fact.PARAMETERS, len(stillness.parameters))
        for name, paths in ((Fact.FROZEN, stillness.held), (Fact.UNREACHED, stillness.unreached)):
            self._integration.fact(name, len(paths))
            for path in sorted(paths)[:_MOST_NAMED]:
                self._integration.fact(name, 1.0, path)

    def _charge(self, steps: int) -> None:
        """Charge one step of a call with its share, using the upper estimate of the cost if the budget depends on
        it."""
        price, surplus = self._integration.session.price, self._surplus[self._is_apart]
        price.charge((surplus.secs if price.budget is None else surplus.likely_secs) / steps)

    def _forget_versions(self) -> None:
        """Discard the versions after a change of what to record."""
        self._versions.clear()
        self._forget_what_they_cost()

    def _forget_what_they_cost(self) -> None:
        for surplus in self._surplus.values():
            surplus.forget()


def _number(values: Any, step: int, steps: int, program: Program | None) -> float | Callable[[], float]:
    """Return the number of one step: its value if available, otherwise a function that waits for it."""
    if not isinstance(values, jax.Array) or values.is_ready():
        return number_of(values, step, steps)
    if program is not None and program.may_donate(values):
        values = jnp.copy(values)
    values.copy_to_host_async()
    return functools.partial(number_of, values, step, steps)
