"""Conformance suite for integrations: inherit it and implement one small training; pytest runs it.

    import numpy as np
    from barograph.testing.frameworks import FrameworkConformance, Task

    class TestMine(FrameworkConformance):
        framework = "mine"

        def train(self, task, run):
            weights = {"w": np.ones(3)}
            for step in range(task.steps):
                ...
            return weights

The module does not import pytest: each test is a method that raises `AssertionError` with a message.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, ClassVar

import numpy as np

from barograph.attached import AttachedRun
from barograph.attaching import attach
from barograph.capture.array_read import ArrayReader
from barograph.capture.guard import BarographWarning
from barograph.capture.plan import Plan
from barograph.measures import native
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.reader import open as open_run

_OURS = str(Path(__file__).resolve().parent.parent)
_MEMORY = itertools.count()
_OF_PARAMETERS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
_OF_THE_MOMENT = (Kind.TIME, Kind.MACHINE, Kind.FACT, Kind.LEARNING_RATE, Kind.SCALAR)
"""Kinds that two recordings of one training need not tell alike: what a clock said, what had changed, what a library
logs, its own clocks among it."""


@dataclass(frozen=True, slots=True)
class Task:
    """The small training that a conformance test requests.

    Attributes:
        steps: Optimizer steps, or rounds.
        seed: Seed of weights, data and order.
        accumulate: Micro-batches per step.
        evaluate_every: Evaluate after every so many steps, on separate data. 0: never.
        nan_at: Step whose batch contains NaN, so that its loss and gradients are NaN. None: no step.
    """

    steps: int = 8
    seed: int = 0
    accumulate: int = 1
    evaluate_every: int = 0
    nan_at: int | None = None


OF_A_CLASSIFICATION = frozenset({
    Kind.LOSS, Kind.LEARNING_RATE, Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OUTPUT, Kind.BATCH, Kind.LABEL,
    Kind.CONFUSION})
"""Kinds that rules ask for when a network learns classes, whatever way it is trained."""


def recorded_kinds(train: Callable[[AttachedRun], object]) -> frozenset[Kind]:
    """Return the kinds of data that are recorded for a training.

    Rules need the same kinds however a script trains (a `fit`, one call per batch, a custom step or loop): compare this
    for each way with `OF_A_CLASSIFICATION`.

    Args:
        train: Trains a small classifier; takes the run.

    Raises:
        BarographError: Any error in the recording, which is strict.
    """
    url = f"memory://conformance/kinds/{next(_MEMORY)}"
    with attach(to=url, watch=False, strict=True, budget=None, preset="everything") as run:
        train(run)
    recorded = open_run(url)
    return frozenset(kind for view in recorded.views() if view.step.mode is Mode.TRAIN for kind in view.kinds)


class Planted(Exception):
    """The error that the suite raises inside the recording."""


class FrameworkConformance:
    """Conformance suite for integrations: inherit it and implement `train`.

    For a feature that the framework lacks, give the reason in `without_…`; its tests then pass. Repeat the reason in
    the documentation of the integration.

    Attributes:
        framework: Top-level module of the framework; no Barograph object may remain in it.
        without_accumulation: Why gradients cannot be accumulated. "": they can.
        without_evaluation: Why there is no evaluation. "": there is.
        without_nan: Why no NaN can be injected. "": it can.
        without_weights: Why the results of `train` are not recorded tensors, as with trees. "": they are.
        many_steps: Steps of a training that is long enough for a budget to skip some.
    """

    framework: ClassVar[str] = ""
    without_accumulation: ClassVar[str] = ""
    without_evaluation: ClassVar[str] = ""
    without_nan: ClassVar[str] = ""
    without_weights: ClassVar[str] = ""
    many_steps: ClassVar[int] = 200

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        """Train a small model from its seed, and return its weights.

        Args:
            task: The training to run.
            run: The recording, for an integration that needs a line in the script, such as a callback. None: train
                without one. An integration that hooks in automatically ignores it.

        Returns:
            Path to array, under the names expected in the record. For a model without weights: arrays that differ for
            different models, such as predictions.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement train(task, run)")

    # It changes nothing

    def test_the_same_seed_gives_the_same_bits_with_and_without_us(self) -> None:
        """Recording everything at every step draws no random number and changes no weight."""
        for task in self._tasks():
            bare, again = self.train(task, None), self.train(task, None)
            _same_bits(bare, again, f"two trainings without Barograph differ, so the test cannot compare: {task}")
            _, watched = self._recorded(task, preset="everything", budget=None)
            _same_bits(bare, watched, f"recording changes the training: {task}")

    def test_nothing_is_left_behind_after_close(self) -> None:
        """No hook, wrapper, thread, import finder or warning filter remains."""
        self.train(Task(), None)  # what the framework makes with its first training is its own
        before = self._left()
        self._recorded(Task(), preset="everything", budget=None)
        left = self._left() - before
        assert not left, f"Barograph leaves behind: {', '.join(sorted(left))}"

    def test_an_error_of_ours_never_reaches_the_training(self) -> None:
        """An error becomes a warning and is stored in the run; the training reaches the same weights."""
        task = Task()
        bare = self.train(task, None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run, watched = self._recorded(task, fails=True, preset="everything", budget=None, strict=False)
        _same_bits(bare, watched, "an error in the recording changed the training")
        assert any(issubclass(item.category, BarographWarning) for item in caught), "the error issued no warning"
        assert _made(run) == task.steps, f"after an error, {_made(run)} of {task.steps} steps are counted"

    def test_strict_raises_an_error_of_ours(self) -> None:
        """With `strict=True`, an error in the recording is raised."""
        try:
            self._recorded(Task(), fails=True, preset="everything", budget=None)
        except Planted:
            return
        raise AssertionError("strict=True did not raise the error in the recording")

    # It counts right

    def test_steps_are_those_of_the_optimizer(self) -> None:
        """Steps are numbered from 0, each once, in order."""
        run, _ = self._recorded(Task(), budget=None)
        _expect(_steps(run), list(range(Task().steps)), "steps")

    def test_micro_batches_make_one_step(self) -> None:
        """Gradient accumulation does not change the number of steps."""
        if self.without_accumulation:
            return
        task = Task(accumulate=3)
        run, _ = self._recorded(task, budget=None)
        _expect(_steps(run), list(range(task.steps)), "steps with three micro-batches each")

    def test_an_evaluation_is_no_step_and_says_how_many_were_made(self) -> None:
        """An evaluation has its own mode and the number of the steps before it."""
        if self.without_evaluation:
            return
        task = Task(evaluate_every=2)
        run, _ = self._recorded(task, budget=None)
        _expect(_steps(run), list(range(task.steps)), "steps with evaluations in between")
        made, wanted = sorted(set(_steps(run, Mode.EVAL))), list(range(2, task.steps + 1, 2))
        assert made == wanted, f"evaluations are recorded after steps {made}, but ran after steps {wanted}"

    def test_a_training_that_goes_on_counts_on(self) -> None:
        """`attach(first_step=…)` sets the number of the first step."""
        run, _ = self._recorded(Task(), budget=None, first_step=100)
        _expect(_steps(run), list(range(100, 100 + Task().steps)), "steps of a training that resumes at step 100")

    def test_under_a_budget_steps_are_passed_over_and_the_others_have_their_numbers(self) -> None:
        """A step recorded under a budget has the same values as without one."""
        task = Task(steps=self.many_steps)
        recorded, _ = self._recorded(task, budget=None)
        thinned, _ = self._recorded(task, budget=1e-7)
        assert _made(thinned) == task.steps, f"under a budget, {_made(thinned)} of {task.steps} steps are counted"
        whole, thin = _recorded_values(recorded), _recorded_values(thinned)
        expensive = [sum(any(map(_is_expensive, keys)) for keys in found.values()) for found in (whole, thin)]
        assert expensive[1] < expensive[0], (
            f"a tiny budget skips nothing: {expensive[1]} of {expensive[0]} steps are recorded in full")
        for number, keys in whole.items():
            for key in keys:
                assert key.kind is not Kind.LOSS or key in thin.get(number, {}), (
                    f"under a budget, {key} of step {number} is missing: losses must be recorded at every step")
        for number, keys in thin.items():
            for key, values in keys.items():
                wanted = whole[number].get(key, values)
                assert np.array_equal(values, wanted, equal_nan=True), (
                    f"under a budget, {key} of step {number} is {values}, without one {wanted}")

    def test_the_default_settings_count_every_step(self) -> None:
        """The default budget does not change the number of counted steps."""
        run, _ = self._recorded(Task())
        assert _made(run) == Task().steps, f"{_made(run)} steps are counted, {Task().steps} were made"

    # It says what is what

    def test_keys_are_canonical(self) -> None:
        """Paths have no wrapper or device names; parameters keep their names."""
        run, weights = self._recorded(Task(), preset="everything", budget=None)
        keys = run.keys()
        assert keys, "nothing is recorded"
        for key in keys:
            assert key.path, f"{key} has no path"
            assert canonical_path(key.path) == key.path, f"{key} contains the name of a wrapper"
            assert not key.path.endswith(":0"), f"{key} ends in an output number, as in TensorFlow's tensor names"
            assert "/" not in key.path or key.kind not in _OF_PARAMETERS, f"{key} contains a slash; use dots"
            assert key.path == key.path.strip(), f"{key} begins or ends with a space"
        if not self.without_weights:
            recorded = {key.path for key in keys if key.kind is Kind.WEIGHT}
            assert recorded == set(weights), (
                f"weights are recorded as {sorted(recorded)} instead of {sorted(weights)}")

    def test_the_last_weights_recorded_are_the_weights(self) -> None:
        """The last recorded weights are those after the last step."""
        if self.without_weights:
            return
        run, weights = self._recorded(Task(), preset="exact", budget=None)
        for path, value in weights.items():
            array = np.asarray(value, np.float64)
            for name, wanted in (("min", array.min()), ("max", array.max()), ("l2", math.sqrt((array**2).sum()))):
                last = float(run.series(Key(Kind.WEIGHT, path), name).values[-1])
                assert math.isclose(last, float(wanted), rel_tol=1e-4, abs_tol=1e-12), (
                    f"the last recorded {name} of {path} is {last} instead of {wanted}")

    def test_a_nan_is_found_at_the_step_it_arose(self) -> None:
        """A NaN is recorded in the loss and the gradients of its step, also under a tiny budget."""
        if self.without_nan:
            return
        choices: tuple[dict[str, Any], ...] = ({"budget": None}, {})
        for settings in choices:
            task = Task(steps=12, nan_at=5)
            run, _ = self._recorded(task, **settings)
            losses = run.series("loss:total")
            bad = losses.steps[~np.isfinite(losses.values)]
            assert len(bad), f"no non-finite loss is recorded ({settings or 'default settings'})"
            assert bad[0] == 5, f"the NaN of step 5 is recorded at step {bad[0]} ({settings or 'default settings'})"
            for key in run.keys(kind=Kind.GRADIENT):
                lost = run.series(key, "nonfinite")
                steps = lost.steps[lost.values > 0]
                assert not len(steps) or steps[0] >= 5, f"{key} is not finite at step {steps[0]}, before its loss"

    # What the tests are made of

    def _tasks(self) -> Iterator[Task]:
        yield Task()
        if not self.without_evaluation:
            yield Task(seed=1, evaluate_every=3)
        if not self.without_accumulation:
            yield Task(seed=2, accumulate=2)

    def _recorded(self, task: Task, *, fails: bool = False, **settings: Any) -> tuple[RunReader, Mapping[str, Any]]:
        """Return the run of a training that is recorded, and the weights it ended with.

        Args:
            task: What it does.
            fails: Have an error come up in everything that is read.
            settings: Of the recording; strict, unless they say otherwise.
        """
        url = f"memory://conformance/{type(self).__name__}/{next(_MEMORY)}"
        with contextlib.ExitStack() as stack:
            run = stack.enter_context(attach(to=url, watch=False, **{"strict": True, **settings}))
            if fails:
                stack.enter_context(_planted_error(with_tensors=not self.without_weights))
            weights = self.train(task, run)
        return open_run(url), weights

    def _left(self) -> set[str]:
        """Return what there is of Barograph in this process, outside its own modules."""
        gc.collect()
        threads = {f"the thread {thread.name}" for thread in threading.enumerate() if thread.is_alive()}
        finders = {f"the import finder {type(finder).__name__}" for finder in sys.meta_path if _is_ours(type(finder))}
        filters = {f"the warning filter {item}" for item in warnings.filters}
        hook = {"sys.excepthook"} if _is_ours(sys.excepthook) else set()
        return {*threads, *finders, *filters, *hook, *_in_framework(self.framework)}


def _in_framework(framework: str) -> Iterator[str]:
    """Yield what of ours hangs on a framework: attributes of its modules and of their classes."""
    if not framework:
        return
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and (name == framework or name.startswith(f"{framework}.")):
            for attribute, value in list(vars(module).items()):
                if _is_ours(value):
                    yield f"{name}.{attribute}"
                if issubclass(type(value), type) and value.__module__.partition(".")[0] == framework:
                    yield from (f"{name}.{attribute}.{item}" for item, inner in list(vars(value).items())
                                if _is_ours(inner))


def _is_ours(value: Any) -> bool:
    """Return whether something is made of our code; one that wraps another says that it is the other."""
    # By its type and nothing else: whatever is asked of a framework's objects may have them do something.
    kind = type(value)
    if issubclass(kind, type):
        return str(value.__module__).partition(".")[0] == "barograph"
    if issubclass(kind, MethodType | staticmethod | classmethod):
        value = value.__func__
    elif issubclass(kind, property):
        value = value.fget
    if issubclass(type(value), FunctionType):
        return bool(value.__code__.co_filename.startswith(_OURS))
    return kind.__module__.partition(".")[0] == "barograph"


@contextlib.contextmanager
def _planted_error(*, with_tensors: bool) -> Iterator[None]:
    """Make every read of a tensor by an integration fail, or every question before a number is recorded."""

    def fail(*_: Any, **__: Any) -> Any:
        raise Planted("planted by the conformance suite")

    with contextlib.ExitStack() as stack:
        reads = ((native, "summarize_many"), (native, "summarize_into"), (native, "difference_many"),
                 (native, "difference_into"), *_of_devices())
        for holder, name in reads if with_tensors else ((Plan, "taking"),):
            stack.enter_context(_replaced(holder, name, fail))
        yield


def _of_devices() -> Iterator[tuple[Any, str]]:
    """Yield what reads where a device has made the statistics, which no loop of ours sees."""
    yield ArrayReader, "row"
    if reading := sys.modules.get("barograph.capture.torch.read"):
        yield reading, "fetch_later"


@contextlib.contextmanager
def _replaced(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = vars(holder)[name]
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def _steps(run: RunReader, mode: Mode = Mode.TRAIN) -> list[int]:
    """Return the numbers of the steps of a mode that were published, in the order they were made."""
    # What the machine does between two steps makes no step, nor does what is logged there.
    return [view.step.number for view in run.views()
            if view.step.mode is mode and view.kinds - {Kind.MACHINE, Kind.SCALAR}]


def _made(run: RunReader) -> int:
    """Return how many steps were counted, published or not."""
    last = run.workers[0].last if run.workers else None
    return last.coverage.steps if last is not None else 0


def _recorded_values(run: RunReader) -> dict[int, dict[Key, list[float]]]:
    """Return what was recorded of each step of training: its plain numbers, and the moments of its tensors."""
    by_step: dict[int, dict[Key, list[float]]] = {}
    for view in run.views():
        if view.step.mode is Mode.TRAIN:
            for rows in view.rows.values():
                found = {key: [value] for key, value in rows.scalars.items() if key.kind not in _OF_THE_MOMENT}
                for subject, moments in zip(rows.table.subjects, rows.moments.tolist(), strict=True):
                    if moments[0]:
                        found[subject.key] = moments
                by_step.setdefault(view.step.number, {}).update(found)
    return by_step


def _is_expensive(key: Key) -> bool:
    """Return whether a budget passes this over before it passes over the loss."""
    return key.kind not in (Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.CUSTOM)


def _same_bits(one: Mapping[str, Any], other: Mapping[str, Any], what: str) -> None:
    assert set(one) == set(other), f"{what}: {sorted(set(one) ^ set(other))}"
    for path in one:
        first, second = np.ascontiguousarray(one[path]), np.ascontiguousarray(other[path])
        same = first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
        assert same, f"{what}: {path} is not bit-identical"


def _expect(found: list[int], wanted: list[int], what: str) -> None:
    assert found == wanted, f"{what}: {_short(found)} are recorded, {_short(wanted)} were made"


def _short(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) <= 20 else f"{len(numbers)} from {numbers[:5]} on"
