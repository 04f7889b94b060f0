"""One Keras model under training: tells an `ArrayTap` of each step and each evaluation what its step function gave out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from barograph.capture.keras_collector import Seen, Wanted
from barograph.capture.keras_names import KerasNames, optimizer_states
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.step import Mode

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap
    from barograph.capture.keras_backends import Backend, ValueOf
    from barograph.capture.keras_functions import Functions

_LIGHT = Wanted()
_OF_THE_FUNCTION = (Kind.GRADIENT, Kind.OUTPUT, Kind.INPUT, Kind.BATCH, Kind.TARGET, Kind.LABEL, Kind.CONFUSION,
                    Kind.FACT)
"""Kinds that the step function must give out: all else is read from variables."""


class WatchedModel:
    """What is known of one model.

    Args:
        model: It.
        tap: Where its steps go.
        backend: Of Keras.
    """

    def __init__(self, model: Any, tap: ArrayTap, backend: Backend) -> None:
        self.model = model
        self.tap = tap
        self._backend = backend
        self._names: KerasNames | None = None
        self._states: Mapping[str, Any] = {}
        self._wanted: dict[bool, Wanted] = {}
        self._micro_batches = 0
        self._is_evaluating = False
        self._last_logs: Any = None

    def plan_changed(self) -> None:
        """Ask anew what is wanted."""
        self._wanted.clear()

    # A step of the training

    def train(self, functions: Functions, args: tuple[Any, ...]) -> Any:
        """Make the step, or the steps, of one call of Keras's function; return what it returns."""
        tap, backend, model = self.tap, self._backend, self.model
        names = self._names_now()
        several = getattr(model, "steps_per_execution", 1) if backend.several else 1
        args = backend.prepared(args, executes=several)
        wanted = self._wanted_of(names, training=True) if tap.due(*_OF_THE_FUNCTION) else _LIGHT
        with tap.guarded("reading weights before their update"):
            if tap.due(Kind.UPDATE):
                value = backend.values(model, args[0], training=True)
                tap.before_update(_arrays(names.trainable, value))
        logs, seen, given = self._called(functions, names, wanted, args)
        backend.keep(model, given, training=True)
        value = backend.values(model, given, training=True)
        steps, ends = self._steps_made(value, several)
        with tap.guarded("recording a step of Keras"):
            self._is_evaluating = False
            self._tell_seen(seen, logs, names, training=True)
            self._tell_losses(seen, logs)
            if ends:
                self._tell_variables(names, value)
                tap.pass_steps(steps - 1)
        if ends:
            tap.end_step(skipped=self._was_skipped(seen))
        return backend.returned(logs, given)

    def _called(self, functions: Functions, names: KerasNames, wanted: Wanted, args: tuple[Any, ...]) -> Any:
        begin, is_first = time.perf_counter(), wanted not in functions.called and bool(functions.called)
        result = functions.call(names, wanted, args)
        if is_first:
            # Another variant is compiled: that is done once, and for us.
            self.tap.session.add_startup(time.perf_counter() - begin)
        for path in functions.lost:
            self._say(f"keras within {path}", f"{path} is called within a loop or a branch of its own, from which its "
                      "inputs and outputs cannot be had")
        return result

    def _steps_made(self, value: ValueOf, several: int) -> tuple[int, bool]:
        """Return how many steps of the optimizer the call has made, and whether one has ended."""
        optimizer = self.model.optimizer
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        gathers = getattr(inner, "gradient_accumulation_steps", None) or 1
        if several > 1:
            self._say("keras steps_per_execution", f"steps_per_execution={several}: of so many steps Keras makes in one "
                      "call, the last alone is seen")
        if several == 1 and gathers == 1:
            return 1, True
        now = int(_array(value(inner._iterations)))
        before, self._iterations = self._iterations, now
        made = now // gathers - before // gathers
        return made, made > 0

    def _was_skipped(self, seen: Seen) -> bool:
        finite = seen.get("finite")
        return finite is not None and not bool(_array(finite))

    # What is told

    def _tell_seen(self, seen: Seen, logs: Any, names: KerasNames, *, training: bool) -> None:
        tap = self.tap
        if "gradients" in seen:
            tap.take(Kind.GRADIENT, {path: _lazily(item) for path, item in seen["gradients"].items()},
                     layers=names.owners)
        for group, kind in (("outputs", Kind.OUTPUT), ("inputs", Kind.INPUT)):
            calls = seen.get(group, {})
            for number in range(max(map(len, calls.values()), default=0)):
                tap.take(kind, {path: _lazily(items[number]) for path, items in calls.items() if number < len(items)},
                         layers=_classes(calls, names.leaves))
        data = {name: items[-1] for name, items in seen.get("data", {}).items()}
        if data:
            self._tell_data(data)

    def _tell_data(self, data: Mapping[str, Any]) -> None:
        tap, loss = self.tap, _loss_name(self.model)
        fed = {name[1:]: item for name, item in data.items() if name[:1] == "x"}
        tap.take(Kind.BATCH, {f"model{item}": _lazily(value) for item, value in fed.items()})
        if fed:
            tap.fact(Fact.BATCH_SIZE, float(next(iter(fed.values())).shape[0]))
        truth, answers = data.get("y"), data.get("y_pred")
        if truth is None or answers is None:
            return
        if "crossentropy" not in loss:
            tap.take(Kind.TARGET, {loss: _lazily(truth)})
        elif tap.due(Kind.LABEL, Kind.CONFUSION):
            tap.predictions(_array(truth), _probabilities(self.model, _array(answers)), loss)

    def _tell_losses(self, seen: Seen, logs: Any) -> None:
        tap = self.tap
        if "loss" in seen:
            tap.loss(_number(seen["loss"]) if self._backend.waits else float(_array(seen["loss"])))
        elif isinstance(logs, Mapping) and "loss" in logs:
            self._say("keras loss", "the step of this model computes its loss by itself: what is recorded as the loss "
                      "is the mean of the epoch so far, as Keras logs it")
            tap.loss(_number(logs["loss"]))
        if isinstance(logs, Mapping) and (tap.due() or not self._backend.waits):
            tap.metrics(_metrics(logs))
        if "learning_rate" in seen and (tap.due() or not self._backend.waits):
            tap.learning_rate(float(_array(seen["learning_rate"])))

    def _tell_variables(self, names: KerasNames, value: ValueOf) -> None:
        tap = self.tap
        if tap.due(Kind.WEIGHT, Kind.UPDATE):
            tap.after_update(_arrays(names.trainable, value), layers=names.owners)
        if tap.due(Kind.OPTIMIZER_STATE):
            if not self._states:
                self._states = optimizer_states(self.model.optimizer, names)
            tap.take(Kind.OPTIMIZER_STATE, _arrays(self._states, value), layers=names.owners)

    # An evaluation

    def test(self, functions: Functions, args: tuple[Any, ...]) -> Any:
        """Make the evaluation of a batch, or of several, of one call of Keras's function; return what it returns."""
        tap, backend, model = self.tap, self._backend, self.model
        names = self._names_now()
        args = backend.prepared(args, executes=getattr(model, "steps_per_execution", 1) if backend.several else 1)
        if not self._is_evaluating:
            tap.begin_evaluation()
            self._is_evaluating = True
        wanted = self._wanted_of(names, training=False) if tap.due(*_OF_THE_FUNCTION) else _LIGHT
        logs, seen, given = self._called(functions, names, wanted, args)
        with tap.guarded("recording an evaluation of Keras"):
            self._last_logs = logs
            self._tell_seen(seen, logs, names, training=False)
            if "loss" in seen:
                tap.loss(_number(seen["loss"]) if backend.waits else float(_array(seen["loss"])))
        return backend.returned(logs, given)

    def end_evaluation(self) -> None:
        """End the evaluation under way, with the metrics that its last batch left."""
        if not self._is_evaluating:
            return
        self._is_evaluating = False
        logs, self._last_logs = self._last_logs, None
        if isinstance(logs, Mapping):
            self.tap.metrics(_metrics(logs))
        self.tap.end_evaluation()

    # What there is, and what of it is wanted

    def _names_now(self) -> KerasNames:
        if self._names is None or not self._names.fits():
            with self.tap.guarded("reading the layers of a Keras model"):
                self._names = KerasNames(self.model)
                self._states = {}
                self._wanted.clear()
                self.tap.declare(parameters=self._names.trainable, modules=self._names.leaves)
                optimizer = self.model.optimizer
                inner = getattr(optimizer, "inner_optimizer", optimizer)
                self._iterations = self._iterations_before(inner)
        return self._names or KerasNames(self.model)

    def _iterations_before(self, optimizer: Any) -> int:
        if optimizer is None or not optimizer.built:
            return 0
        value = optimizer._iterations._value
        return 0 if value is None else int(_array(value))

    def _wanted_of(self, names: KerasNames, *, training: bool) -> Wanted:
        if training not in self._wanted:
            self._wanted[training] = Wanted(
                gradients=training and self.tap.asks_ever(Kind.GRADIENT),
                outputs=self._asked(Kind.OUTPUT, names), inputs=self._asked(Kind.INPUT, names),
                data=self.tap.asks_ever(Kind.BATCH, Kind.TARGET, Kind.LABEL, Kind.CONFUSION, Kind.FACT),
            )
        return self._wanted[training]

    def _asked(self, kind: Kind, names: KerasNames) -> frozenset[str]:
        plan = self.tap.session.plan
        everything = plan.everything()
        return frozenset(path for path, layer in names.leaves.items()
                         if plan.taking(everything, Key(kind, path), layer) is not None)

    def _say(self, cause: str, reason: str) -> None:
        self.tap.session.seen.reasons[cause] = reason


def _array(value: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(value))


def _lazily(value: Any) -> Callable[[], Any]:
    return lambda: _array(value)


def _number(value: Any) -> Callable[[], float]:
    return lambda: float(np.mean(_array(value)))


def _metrics(logs: Mapping[str, Any]) -> dict[str, Callable[[], float]]:
    """Return the metrics among what Keras logs, but for the loss; those of a group under their own names."""
    found: dict[str, Callable[[], float]] = {}
    for name, value in logs.items():
        if isinstance(value, Mapping):
            found.update(_metrics(value))
        elif name != "loss":
            found[str(name)] = _number(value)
    return found


def _arrays(variables: Mapping[str, Any], value: ValueOf) -> dict[str, Callable[[], Any]]:
    return {path: (lambda variable=variable: _array(value(variable))) for path, variable in variables.items()}


def _classes(paths: Iterable[str], leaves: Mapping[str, str]) -> dict[str, str]:
    """Return the class of the layer of each path, also where an item in brackets follows it."""
    return {path: leaves.get(path.partition("[")[0], "") for path in paths}


def _loss_name(model: Any) -> str:
    """Return what the loss of a model is called: the name that it was compiled with, or that of its function."""
    loss = getattr(model, "loss", None)
    if isinstance(loss, list | tuple | dict) or loss is None:
        return "loss"
    return str(loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "loss"))


def _probabilities(model: Any, answers: Any) -> Any:
    """Return answers as `predictions` takes them: of a loss that takes logits of two classes, their probability."""
    loss = getattr(model, "loss", None)
    if answers.shape[-1:] == (1,) and getattr(loss, "from_logits", False):
        return (answers > 0).astype(np.float32)
    return answers
