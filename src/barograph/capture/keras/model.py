"""One trained Keras model: passes the results of steps and evaluations to an `ArrayIntegration`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras

from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.backends import own_value
from barograph.capture.keras.collector import Reads, Seen, Wanted
from barograph.capture.keras.loss_terms import losses_of
from barograph.capture.keras.names import KerasNames
from barograph.capture.keras.random import RandomStates
from barograph.capture.keras.recorder import KerasRecorder, packed_step
from barograph.capture.keras.results import ResultRecorder
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.keras.backends import Backend, ValueOf
    from barograph.capture.keras.functions import Functions

_OF_THE_FUNCTION = (Kind.GRADIENT, Kind.OUTPUT, Kind.INPUT, Kind.BATCH, Kind.TARGET, Kind.LABEL, Kind.CONFUSION,
                    Kind.FACT)
"""Kinds that the step function must return: others are read from variables, unless it returns them, too."""

_OF_VARIABLES = (Kind.WEIGHT, Kind.UPDATE, Kind.OPTIMIZER_STATE)

_OF_LAST_STEP = frozenset({Kind.GRADIENT, Kind.UPDATE})
"""Kinds that are incomplete if a call ends within a step's micro-batches after ending an earlier step."""

_OF_WHOLE_STEPS = frozenset({Kind.GRADIENT, *_OF_VARIABLES})
"""Kinds that are not recorded of a call that ended no step."""


class WatchedModel:
    """A model that is being recorded.

    Args:
        model: The model.
        integration: Records its steps.
        backend: Backend of Keras.
        recorder: Flight recorder; None: off.

    Attributes:
        model: The model.
        integration: Records its steps.
        is_trained: It has made a step.
    """

    def __init__(
        self, model: Any, integration: ArrayIntegration, backend: Backend, recorder: KerasRecorder | None = None
    ) -> None:
        self.model = model
        self.integration = integration
        self._backend = backend
        self._telling = ResultRecorder(integration, waits=backend.waits, reader=backend.reader)
        self._recorder = recorder
        self._light = Wanted() if recorder is None else Wanted(gate=True, norm_above=recorder.settings.norm_above)
        self._passing: tuple[Functions, Wanted] | None = None
        self._names: KerasNames | None = None
        self._wanted: dict[tuple[bool, int], Wanted] = {}
        self._iterations = 0
        self._is_evaluating = False
        self._last_logs: Any = None
        self._adds: bool | None = None
        self.is_trained = False
        self._value: ValueOf | None = None

    @property
    def standing(self) -> tuple[Any, ValueOf]:
        """The model, and a function for the current values of its variables, also in the middle of a step."""
        return self.model, self._value or own_value

    def plan_changed(self) -> None:
        """Check the plan again."""
        self._wanted.clear()
        self._passing = None

    # Training steps

    def train(self, functions: Functions, args: tuple[Any, ...]) -> Any:
        """Make the steps of one call of Keras's function; return its result."""
        self.end_evaluation()  # for example of `test_on_batch`: a training step ends it
        integration, backend, model = self.integration, self._backend, self.model
        names = self._names_now(backend.values(model, args[0], training=True))
        several = getattr(model, "steps_per_execution", 1) if backend.several else 1
        args = backend.prepared(args, executes=several, eager=model.run_eagerly)
        reads_variables = self._backend.tells(model) and functions.gives_out
        is_due = integration.due(*_OF_THE_FUNCTION, *(_OF_VARIABLES if reads_variables else ()))
        wanted = self._wanted_of(names, training=True) if is_due else self._passing_of(functions)
        with (
            integration.guarded("reading weights before their update"),
            self._reading_first(wanted not in functions.called),
        ):
            if integration.due(Kind.UPDATE) and not reads_variables:
                self._telling.before(names, backend.values(model, args[0], training=True))
        random = RandomStates() if self._recorder is not None else None
        first = wanted not in functions.called
        reads = backend.reads(integration, names) if is_due else None
        logs, seen, given = self._called(functions, names, wanted, args, reads)
        backend.keep(model, given, training=True)
        value = backend.values(model, given, training=True)
        steps, ends, is_whole = self._steps_made(value, several)
        with integration.guarded("recording a step of Keras"), self._reading_first(first):
            is_whole = is_whole or (several == 1 and self._is_withheld(seen))
            self._tell(seen, logs, names, but=() if is_whole else _OF_LAST_STEP if ends else _OF_WHOLE_STEPS)
            self._telling.parameters(names, functions.modes, value)
            if ends and "statistics" not in seen:
                self._telling.after(names, model.optimizer, value)
            # The optimizer does not count a withheld step: all counted ones came before.
            last_is_withheld = several > 1 and self._is_withheld(seen)
            integration.pass_steps(steps if last_is_withheld else max(0, steps - 1))
        held = self._was_held(functions, seen, names, value, wanted, random)
        if held:
            # Changes of a forward pass, such as moving statistics, are restored, too.
            given = backend.put_back(model, given, {
                id(names.untrained[path]): before for path, before in seen["before"].items()
                if keras.backend.is_float_dtype(keras.backend.standardize_dtype(before.dtype))})
            backend.keep(model, given, training=True)
        if ends or held:
            self.is_trained, self._value = True, value
            try:
                integration.end_step(skipped=held or self._was_skipped(seen))
            finally:
                self._value = None
        return backend.returned(logs, given)

    def _called(self, functions: Functions, names: KerasNames, wanted: Wanted, args: tuple[Any, ...],
                reads: Reads | None) -> Any:
        eager = self.model.run_eagerly
        if wanted in functions.called or (eager and reads is None):
            result = functions.call(names, wanted, args, reads)
        else:
            # Something is compiled, once: the first variant instead of the script's function, others for us. If nothing
            # is compiled, tensors are read for the first time.
            with self.integration.session.startup.apart_from_training(ours=bool(functions.called) and not eager):
                result = functions.call(names, wanted, args, reads)
        if not functions.is_seen:
            self._say("keras replicas", f"{functions.replicas} devices share each step: only weights and the metrics "
                      "that Keras logs are recorded, not gradients, layer outputs or data")
        self._telling.lost(functions.lost)
        return result

    def _reading_first(self, first: bool) -> AbstractContextManager[None]:
        """Return a context that counts the first read of a variant's tensors as start-up."""
        return self.integration.session.startup.apart_from_training() if first else nullcontext()

    def _steps_made(self, value: ValueOf, several: int) -> tuple[int, bool, bool]:
        """Return the number of optimizer steps of the call, whether one has ended, and whether at the end of the
        call."""
        optimizer = self.model.optimizer
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        gathers = _gathers(inner)
        if several > 1:
            self._say("keras steps_per_execution", f"steps_per_execution={several}: Keras runs several steps in "
                      "one call; only the last is recorded")
        if several == 1 and gathers == 1:
            return 1, True, True
        now = int(array_of(value(inner._iterations)))
        before, self._iterations = self._iterations, now
        made = now // gathers - before // gathers
        return made, made > 0, made > 0 and now % gathers == 0

    def _was_skipped(self, seen: Seen) -> bool:
        finite = seen.get("finite")
        return finite is not None and not bool(array_of(finite))

    def _is_withheld(self, seen: Seen) -> bool:
        return "withheld" in seen and bool(array_of(seen["withheld"]))

    def _was_held(self, functions: Functions, seen: Seen, names: KerasNames, value: ValueOf, wanted: Wanted,
                  random: RandomStates | None) -> bool:
        """Return whether the update was withheld; if so, save the step."""
        recorder = self._recorder
        if recorder is None or "withheld" not in seen:
            if recorder is not None:
                self._say("the flight recorder", "the flight recorder: steps of this training cannot be held")
            return False
        verdict = functions.verdict
        if verdict is None and not self._is_withheld(seen):
            return False
        with self.integration.guarded("holding a step"):
            paths = functions.paths
            recorder.hold(verdict or recorder.verdict(seen, paths), "", self.integration.step,
                          lambda: packed_step(self.model, self.model.optimizer, names, seen, value, paths, wanted,
                                              random))
        return True

    def _tell(self, seen: Seen, logs: Any, names: KerasNames, *, but: Container[Kind]) -> None:
        telling = self._telling
        telling.tensors(seen, names, losses_of(self.model), but)
        if "loss" in seen:
            telling.loss(seen["loss"], self._alone())
            telling.penalty(seen)
            telling.blame(seen)
            if "data" not in seen:
                # If the loss is out of range, everything is due.
                telling.fed(seen)
        elif isinstance(logs, Mapping) and "loss" in logs:
            self._say("keras loss", "this model computes its loss inside train_step: the recorded loss "
                      "is the epoch's running mean, as Keras logs it")
            telling.loss(logs["loss"])
        telling.metrics(logs)
        telling.learning_rate(seen)

    # An evaluation

    def test(self, functions: Functions, args: tuple[Any, ...]) -> Any:
        """Evaluate the batches of one call of Keras's function; return its result."""
        integration, backend, model = self.integration, self._backend, self.model
        names = self._names_now(_own_value)
        several = getattr(model, "steps_per_execution", 1) if backend.several else 1
        args = backend.prepared(args, executes=several, eager=model.run_eagerly)
        if not self._is_evaluating:
            integration.begin_evaluation()
            self._is_evaluating = True
        is_due = integration.due(*_OF_THE_FUNCTION)
        wanted = self._wanted_of(names, training=False) if is_due else self._light
        first = wanted not in functions.called
        reads = backend.reads(integration, names) if is_due else None
        logs, seen, given = self._called(functions, names, wanted, args, reads)
        with integration.guarded("recording an evaluation of Keras"), self._reading_first(first):
            self._last_logs = logs
            self._telling.tensors(seen, names, losses_of(model))
            if "loss" in seen:
                self._telling.loss(seen["loss"], self._alone())
            self._telling.evaluated(functions.modes)
        return backend.returned(logs, given)

    def end_evaluation(self) -> None:
        """End the current evaluation, with the metrics of its last batch."""
        if not self._is_evaluating:
            return
        self._is_evaluating = False
        logs, self._last_logs = self._last_logs, None
        self._telling.metrics(logs, always=True)
        self.integration.end_evaluation()

    # Requests

    def _names_now(self, value: ValueOf) -> KerasNames:
        if self._names is None or (self.integration.due() and not self._names.fits()):
            with self.integration.guarded("reading the layers of a Keras model"):
                self._names = KerasNames(self.model)
                self._wanted.clear()
                self.integration.declare(parameters=self._names.trainable, modules=self._names.leaves)
                optimizer = self.model.optimizer
                inner = getattr(optimizer, "inner_optimizer", optimizer)
                self._iterations = self._iterations_before(inner, value)
                if not self.integration.has_begun and self._iterations:
                    # A loaded model has an optimizer with a step count.
                    self.integration.begin_training(self._iterations // _gathers(inner))
        return self._names or KerasNames(self.model)

    def _iterations_before(self, optimizer: Any, value: ValueOf) -> int:
        if optimizer is None or not optimizer.built:
            return 0
        count = value(optimizer._iterations)
        return 0 if count is None else int(array_of(count))

    def _wanted_of(self, names: KerasNames, *, training: bool) -> Wanted:
        which = training, len(names.leaves)
        if which not in self._wanted:
            self._wanted[which] = replace(
                self._light, gradients=training and self.integration.asks_ever(Kind.GRADIENT),
                outputs=self._asked(Kind.OUTPUT, names), inputs=self._asked(Kind.INPUT, names),
                data=self.integration.asks_ever(Kind.BATCH, Kind.TARGET, Kind.LABEL, Kind.CONFUSION, Kind.FACT),
                modes=self.integration.asks_ever(Kind.FACT), fed=self.integration.asks_ever(Kind.BATCH),
                asked=self._backend.asked(self.integration.session.plan, Mode.TRAIN if training else Mode.EVAL),
            )
        return self._wanted[which]

    def _passing_of(self, functions: Functions) -> Wanted:
        """Return the requested results of a step with nothing due."""
        if self._passing is None or self._passing[0] is not functions:
            self._passing = functions, replace(self._light, fed=self._may_keep_fed())
        return self._passing[1]

    def _may_keep_fed(self) -> bool:
        """Return whether a step with nothing due can return its inputs at no cost.

        Not if the loss comes later, nor from XLA, which would copy them, nor from a loop of steps.
        """
        xla = getattr(self.model, "jit_compile", False) and not self.model.run_eagerly
        several = getattr(self.model, "steps_per_execution", 1) > 1
        return not (self._backend.waits or xla or several or self._backend.is_mirrored(self.model)) and (
            self.integration.asks_ever(Kind.BATCH))

    def _asked(self, kind: Kind, names: KerasNames) -> frozenset[str]:
        plan = self.integration.session.plan
        everything = plan.everything()
        return frozenset(path for path, layer in names.leaves.items()
                         if plan.taking(everything, Key(kind, path), layer) is not None)

    def _alone(self) -> str:
        """Return the name of the loss function if Keras adds nothing to its result; otherwise ""."""
        if self._adds is None:
            layers = list(self.model._flatten_layers())
            weights = self.model.trainable_variables
            # Check Keras's own additions last: on JAX that fails within a step with weight penalties.
            self._adds = any(getattr(weight, "regularizer", None) is not None for weight in weights) or any(
                getattr(layer, "activity_regularizer", None) is not None for layer in layers) or bool(self.model.losses)
        loss = getattr(self.model, "loss", None)
        several = loss is None or isinstance(loss, list | tuple | dict)
        return "" if self._adds or several else losses_of(self.model).alone

    def _say(self, cause: str, reason: str) -> None:
        self.integration.session.seen.reasons[cause] = reason


def _own_value(variable: Any) -> Any:
    # In an evaluation JAX gets no optimizer variables, so read them directly.
    return variable._value


def _gathers(optimizer: Any) -> int:
    """Return the number of batches per optimizer step."""
    return getattr(optimizer, "gradient_accumulation_steps", None) or 1
