"""A compiled JAX step that is observed: the same bits, right steps, canonical names, whichever library is used."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
optax = pytest.importorskip("optax", reason="Optax is not installed")

import jax.numpy as jnp  # noqa: E402

import barograph  # noqa: E402
import barograph.jax  # noqa: E402
import jax_training as trainings  # noqa: E402
from barograph.capture.jax import foreign  # noqa: E402
from barograph.capture.jax import proof as jax_proof  # noqa: E402
from barograph.capture.jax import reading as jax_reading  # noqa: E402
from barograph.capture.jax import step as jax_step  # noqa: E402
from barograph.capture.jax.program import Program  # noqa: E402
from barograph.capture.jax.timing import FEW, Surplus  # noqa: E402
from barograph.capture.price import Price  # noqa: E402
from barograph.errors import TrainingStopped, UnsupportedCapture  # noqa: E402
from barograph.measures.summary import summarize  # noqa: E402
from barograph.model.key import Kind  # noqa: E402
from barograph.model.selection import Histogram  # noqa: E402
from barograph.testing.frameworks import FrameworkConformance, Task  # noqa: E402
from jax_training import X, Y  # noqa: E402

_RUNS = itertools.count()


def recorded(train: Callable[..., Any], **settings: Any) -> tuple[Any, list[float], Any]:
    url = f"memory://jax/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, **{"strict": True, "budget": None, "preset": "moments", **settings}):
        weights, losses = train(barograph.jax.observe)
    return weights, losses, barograph.open(url)


def same_bits(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


_ACCUMULATES = optax.adam(1e-2)
_evaluating = jax.jit(trainings.loss_of)


@jax.jit
def _accumulating(params: Any, state: Any, xs: Any, ys: Any) -> tuple[Any, Any, Any]:
    def micro(gathered: Any, batch: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(trainings.loss_of)(params, *batch)
        return jax.tree.map(lambda a, b: a + b / len(xs), gathered, gradients), loss

    gradients, losses = jax.lax.scan(micro, jax.tree.map(lambda leaf: leaf * 0, params), (xs, ys))
    updates, state = _ACCUMULATES.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, losses.mean()


@pytest.mark.usefixtures("unoptimized_but_bits")
class TestOptax(FrameworkConformance):
    framework = "jax"

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        rng = np.random.default_rng(task.seed)
        params = trainings.weights(task.seed)
        state = _ACCUMULATES.init(params)
        wrap = barograph.jax.observe if run is not None else lambda function, **_: function
        step, evaluate = wrap(_accumulating), wrap(_evaluating, evaluation=True)
        for number in range(task.steps):
            x = rng.normal(size=(task.accumulate, 16, 8)).astype(np.float32)
            y = (x[..., 0] > 0).astype(np.int32)
            if number == task.nan_at:
                x[0, 0, 0] = np.nan
            params, state, loss = step(params, state, x, y)
            float(loss)
            if task.evaluate_every and (number + 1) % task.evaluate_every == 0:
                evaluate(params, x[0], y[0])
        return {"hidden.kernel": params["hidden"]["kernel"], "hidden.bias": params["hidden"]["bias"],
                "out.kernel": params["out"]["kernel"]}


def test_flax_nnx_is_the_same_to_the_last_bit_and_its_layers_have_their_paths() -> None:
    pytest.importorskip("flax", reason="Flax is not installed")
    bare = trainings.train_nnx(trainings.same)
    weights, losses, run = recorded(trainings.train_nnx)
    assert losses == bare[1]
    assert same_bits(weights, bare[0])
    assert run.series("gradient:blocks.1.fc.kernel", "l2").steps.tolist() == list(range(6))
    outputs = {key.path for key in run.keys(kind="output")}
    assert outputs == {"blocks.0.fc", "blocks.0.norm", "blocks.1.fc", "blocks.1.norm", "drop", "out"}


def test_flax_linen_is_the_same_to_the_last_bit_and_its_metrics_are_named() -> None:
    pytest.importorskip("flax", reason="Flax is not installed")
    bare = trainings.train_linen(trainings.same)
    weights, losses, run = recorded(trainings.train_linen)
    assert losses == bare[1]
    assert same_bits(weights, bare[0])
    assert run.series("loss:total").values.tolist() == pytest.approx(losses)
    assert run.series("scalar:accuracy").values.tolist() == [0.5] * 6
    assert {key.path for key in run.keys(kind="output")} == {"hidden", "out"}
    assert {key.path for key in run.keys(kind="weight")} == {"hidden.kernel", "hidden.bias", "out.kernel", "out.bias"}


def test_equinox_is_the_same_to_the_last_bit_under_vmap() -> None:
    pytest.importorskip("equinox", reason="Equinox is not installed")
    bare = trainings.train_equinox(trainings.same)
    weights, losses, run = recorded(trainings.train_equinox)
    assert losses == bare[1]
    assert same_bits(weights, bare[0])
    assert run.series("output:layers.0", "count").values.tolist() == [32 * 16] * 6
    assert run.series("weight:layers.1.weight", "l2").steps.tolist() == list(range(6))


def test_each_turn_of_a_scan_is_a_step_and_has_the_numbers_it_has_alone() -> None:
    _, losses, single = recorded(lambda wrap: trainings.train_plain(wrap, 8), preset="exact")
    scanned, many, run = recorded(trainings.train_scan, preset="exact")
    assert many == pytest.approx(losses)
    assert run.series("loss:total").steps.tolist() == list(range(8))
    for key in ("gradient:hidden.kernel", "weight:out.kernel", "output:relu"):
        wanted, found = single.series(key, "l2"), run.series(key, "l2")
        assert found.steps.tolist() == list(range(8))
        assert found.values == pytest.approx(wanted.values, rel=1e-4)
    zeros = single.series("output:relu", "zeros").values
    assert run.series("output:relu", "zeros").values == pytest.approx(zeros, abs=3)
    assert same_bits(scanned, trainings.train_scan(trainings.same)[0])


def test_micro_batches_of_a_scan_within_a_step_are_one() -> None:
    tx = optax.sgd(0.1)

    def step(params: Any, state: Any, xs: Any) -> tuple[Any, Any, Any]:
        def micro(total: Any, x: Any) -> tuple[Any, Any]:
            loss, gradient = jax.value_and_grad(lambda w: (barograph.jax.record("scores", x @ w) ** 2).mean())(params)
            return total + gradient, loss

        gradient, losses = jax.lax.scan(micro, params * 0, xs)
        updates, state = tx.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, losses.mean()

    def train(wrap: Any) -> tuple[Any, list[float]]:
        params, observed = np.ones(8, np.float32), wrap(jax.jit(step))
        state = tx.init(params)
        for _ in range(3):
            params, state, _ = observed(params, state, X.reshape(4, 8, 8))
        return params, []

    _, _, run = recorded(train)
    assert run.series("output:scores", "count").values.tolist() == [32] * 3
    assert run.series("gradient:parameter", "count").values.tolist() == [8] * 3


def test_memory_that_is_given_away_is_no_obstacle() -> None:
    bare = trainings.train_plain(trainings.same, donate=(0, 1))
    weights, losses, run = recorded(lambda wrap: trainings.train_plain(wrap, donate=(0, 1)))
    assert losses == bare[1]
    assert same_bits(weights, bare[0])
    assert run.series("weight:hidden.kernel", "l2").values[-1] == pytest.approx(
        float(np.linalg.norm(weights["hidden"]["kernel"])))


@pytest.mark.usefixtures("unoptimized")
def test_labels_and_answers_that_a_step_names_are_counted() -> None:
    _, _, run = recorded(lambda wrap: trainings.train_plain(wrap, 3), preset="everything")
    assert run.series("optimizer_state:out.kernel[mu]", "l2").values[-1] > 0
    counted = [run.series(f"label:predictions[{number}]").values for number in (0, 1)]
    assert (counted[0] + counted[1]).tolist() == [32] * 3
    assert counted[1][0] == Y.sum()


def rates_of(run: Any, optimizer: str = "") -> list[float]:
    series = run.series("learning_rate:group0", optimizer=optimizer)
    assert series.steps.tolist() == list(range(len(series.steps)))
    return [float(value) for value in series.values]


NO_ROOM = {"budget": 1e-9, "preset": "standard"}
"""Only steps 0, 1, 2, 4, 8 … record tensors."""
SCHEDULE = optax.linear_schedule(0.4, 0.0, 20)
SCHEDULED = [0.4 * (1 - step / 20) for step in range(12)]


@pytest.mark.parametrize(("tx", "rates", "donate"), [
    (optax.adam(0.25), [0.25] * 12, ()),
    (optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(SCHEDULE)), SCHEDULED, (0, 1)),
    (optax.inject_hyperparams(optax.sgd)(learning_rate=SCHEDULE), SCHEDULED, ()),
    (optax.MultiSteps(optax.sgd(SCHEDULE), 2), [SCHEDULED[step // 2] for step in range(12)], ()),
])
def test_the_learning_rate_of_every_step_is_recorded(tx: Any, rates: list[float], donate: tuple[int, ...]) -> None:
    weights, _ = trainings.train_plain(trainings.same, 12, tx=tx, donate=donate)
    recorded_weights, _, run = recorded(
        lambda wrap: trainings.train_plain(wrap, 12, tx=tx, donate=donate), **NO_ROOM)
    assert rates_of(run) == pytest.approx(rates)
    assert same_bits(weights, recorded_weights)


@pytest.mark.usefixtures("unoptimized")
def test_a_learning_rate_that_the_script_sets_is_recorded_at_every_step() -> None:
    tx = optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)

    def train(wrap: Any) -> Any:
        params = trainings.weights()
        state, step = tx.init(params), wrap(jax.jit(trainings.step_with(tx), donate_argnums=(0, 1)))
        for number in range(12):
            state.hyperparams["learning_rate"] = jnp.asarray(SCHEDULED[number])
            params, state, _ = step(params, state, X, Y)
        return params, []

    assert rates_of(recorded(train, **NO_ROOM)[2]) == pytest.approx(SCHEDULED)


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("train", [trainings.train_nnx, trainings.train_pmap])
def test_the_learning_rate_of_every_step_of_a_library_is_recorded(train: Any) -> None:
    _, _, run = recorded(lambda wrap: train(wrap, 12, tx=optax.adam(SCHEDULE)), **NO_ROOM)
    assert rates_of(run) == pytest.approx(SCHEDULED)


@pytest.mark.usefixtures("unoptimized")
def test_each_of_several_steps_in_one_call_has_its_learning_rate() -> None:
    _, _, run = recorded(lambda wrap: trainings.train_scan(wrap, 3, 4, tx=optax.adam(SCHEDULE)), **NO_ROOM)
    assert rates_of(run) == pytest.approx(SCHEDULED)


@pytest.mark.usefixtures("unoptimized")
def test_a_step_that_prints_prints_once() -> None:
    printed: list[int] = []
    tx = optax.adam(SCHEDULE)

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        jax.debug.callback(lambda: printed.append(1))
        return trainings.step_with(tx)(params, state, x, y)

    def train(wrap: Any) -> Any:
        params, observed = trainings.weights(), wrap(jax.jit(step))
        state = tx.init(params)
        for _ in range(12):
            params, state, _ = observed(params, state, X, Y)
        jax.effects_barrier()
        return params, []

    assert rates_of(recorded(train, preset="free", budget=1e-9)[2]) == pytest.approx(SCHEDULED)
    assert len(printed) == 12


def test_a_result_that_the_next_call_donates_is_copied_while_it_is_in_computation() -> None:
    def takes_long(x: Any) -> Any:
        return jax.lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y) * 0 + 1, x).mean()

    donates = jax.jit(lambda state: state, donate_argnums=0)
    program = Program(donates, (jnp.float32(0.0),), {})
    result = jax.jit(takes_long)(jnp.eye(500))
    number = jax_step._number(result, 0, 1, program)
    donates(result)
    value = number() if callable(number) else number
    assert value == 1.0


@pytest.mark.usefixtures("unoptimized")
def test_units_of_a_layer_tell_which_are_dead() -> None:
    _, _, run = recorded(lambda wrap: trainings.train_plain(wrap, 2), preset="units")
    assert run.units("output:relu", step=1).count == 32


class Counts:
    """A compiled function that notes in which steps it is called."""

    def __init__(self, compiled: Any, called: list[int]) -> None:
        self.step, self._compiled, self._called = 0, compiled, called

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)

    def __call__(self, *args: Any) -> Any:
        self._called.append(self.step)
        return self._compiled(*args)


def test_together_only_what_is_not_due_runs_the_users_own_function() -> None:
    called: list[int] = []
    only = barograph.Selection("mine", kinds=frozenset({barograph.Kind.GRADIENT}), schedule=barograph.Schedule(every=3))

    def train(wrap: Any) -> tuple[Any, list[float]]:
        tx = optax.sgd(0.1)
        compiled = jax.jit(trainings.step_with(tx))
        observed = wrap(compiled, together=True)
        counts = Counts(compiled, called)

        params = trainings.weights()
        state = tx.init(params)
        observed._compiled.function = observed._compiled.step = counts
        for counts.step in range(6):
            params, state, _ = observed(params, state, X, Y)
        return params, []

    _, _, run = recorded(train, preset="free", collections=(only,))
    assert called == [1, 2, 4, 5]
    assert run.series("gradient:out.kernel", "l2").steps.tolist() == [0, 3]
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("differs", [False, True])
def test_one_program_makes_the_step_once_it_has_been_seen_to_make_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    monkeypatch.setattr(jax_proof, "NUMBERS", 0)
    if differs:
        compared: list[int] = []
        alike = jax_proof._are_alike
        monkeypatch.setattr(jax_proof, "_are_alike", lambda one, other: not compared.append(0) and (
            len(compared) < 9 and alike(one, other)))
    called: list[int] = []

    def train(wrap: Any) -> tuple[Any, list[float]]:
        tx = optax.adam(0.1)
        compiled = jax.jit(trainings.step_with(tx), donate_argnums=(0, 1))
        observed = wrap(compiled)
        counts = Counts(compiled, called)

        params = trainings.weights()
        state, losses = tx.init(params), []
        observed._compiled.function = observed._compiled.step = counts
        for counts.step in range(8):
            params, state, loss = observed(params, state, X, Y)
            losses.append(float(loss))
        return params, losses

    weights, losses, run = recorded(train)
    assert called == (list(range(8)) if differs else [0, 1, 2])
    assert run.series("gradient:out.kernel", "l2").steps.tolist() == list(range(8))
    tx = optax.adam(0.1)
    params, state = trainings.weights(), tx.init(trainings.weights())
    plain = jax.jit(trainings.step_with(tx))
    for loss in losses:
        params, state, expected = plain(params, state, X, Y)
        assert loss == float(expected)
    assert same_bits(weights, params)


def test_what_a_device_reduces_comes_in_few_arrays_and_is_what_the_loop_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(wrap: Any) -> Any:
        return trainings.train_plain(wrap, tx=optax.adam(0.1), batches={3: np.full_like(X, 1e-30), 4: X * 1e25})

    chosen = barograph.Selection("all", kinds=frozenset(Kind), histogram=Histogram.EXACT, units=True)
    *_, told = recorded(train, collections=(chosen,))
    came: list[int] = []
    reading = jax_reading.Reading.__init__

    def counting(self: Any, version: Any, values: Any, joined: Any, *rest: Any) -> None:
        came.append(len(jax.tree.leaves((list(values), joined))))
        reading(self, version, values, joined, *rest)

    monkeypatch.setattr(jax_reading.Reading, "__init__", counting)
    monkeypatch.setattr(foreign, "is_on_host", lambda: False)
    *_, reduced = recorded(train, collections=(chosen,))
    kinds = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE, Kind.OUTPUT, Kind.OPTIMIZER_STATE)
    keys = {key for kind in kinds for key in told.keys(kind=kind)}
    assert len(keys) > 12
    assert came[0] < len(keys), "four for all tensors, and what is no statistics"
    for key in keys:
        for step in range(6):
            one, other = told.summary(key, step), reduced.summary(key, step)
            assert (one.count, one.zeros, one.min, one.max) == (other.count, other.zeros, other.min, other.max), key
            assert other.l2 == pytest.approx(one.l2, rel=1e-6), key
            assert one.exponents == other.exponents, key
    for step in range(6):
        ours, theirs = (run.units("output:relu", step=step).columns for run in (told, reduced))
        np.testing.assert_allclose(theirs, ours, rtol=1e-5)


def test_no_part_of_an_evaluation_is_left_out_to_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Surplus, "lacks_plain", True)
    monkeypatch.setattr(Price, "affords_evaluation", lambda *_: True)  # else a busy machine makes them too expensive
    monkeypatch.setattr(Price, "evaluation_goes_on", lambda *_: True)
    chosen = barograph.Selection("outputs", kinds=frozenset({Kind.OUTPUT}), schedule=barograph.Schedule(
        modes=frozenset({barograph.Mode.EVAL})))

    def train(wrap: Any) -> tuple[Any, list[float]]:
        evaluate = wrap(jax.jit(lambda x: barograph.jax.record("twice", 2 * x)), evaluation=True, together=True)
        for number in range(15):
            evaluate(jnp.full(4, float(number)))
        return None, []

    *_, run = recorded(train, preset="free", collections=(chosen,), budget=0.9)
    assert run.summary("output:twice", 0, mode="eval").count == 4 * 15


def test_a_step_for_which_a_program_is_made_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_proof, "NUMBERS", 0)
    monkeypatch.setattr(Surplus, "likely_secs", 0.25)
    now, timed = [0], set[int]()

    def train(wrap: Any) -> tuple[Any, list[float]]:
        step = wrap(jax.jit(trainings.step_with(optax.sgd(0.1))))
        params, state = trainings.weights(), optax.sgd(0.1).init(trainings.weights())
        for now[0] in range(40):
            if now[0] == 20:
                monkeypatch.setattr(Surplus, "wants", lambda self, *, recorded: not recorded)
                monkeypatch.setattr(Surplus, "add", lambda self, secs, *, recorded: timed.add(now[0]))
            short = len(X) - (now[0] in (25, 26)) * 3
            params, state, _ = step(params, state, X[:short], Y[:short])
        return params, []

    *_, run = recorded(train, preset="moments", budget=0.01)
    due = set(run.series("gradient:out.kernel", "l2").steps.tolist())
    assert set(range(20, 40)) - timed - due == {25}, "the step of another shape, and not the one after it"


def test_a_device_tells_tensors_of_several_types_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "is_on_host", lambda: False)
    with jax.enable_x64(True):
        given = {"wide": jnp.arange(6.0, dtype=jnp.float64) / 7, "narrow": jnp.arange(5, dtype=jnp.float32) - 2.5,
                 "half": jnp.full(3, 0.1, jnp.bfloat16), "turned": jnp.array([3 + 4j, 1j], jnp.complex64),
                 "number": jnp.array([7, -9], jnp.int32), "long": jnp.array([2**40, 1], jnp.int64)}

        def train(wrap: Any) -> tuple[Any, list[float]]:
            step = wrap(jax.jit(lambda given: {name: barograph.jax.record(name, leaf) for name, leaf in given.items()}))
            return step(given), []

        chosen = barograph.Selection("all", kinds=frozenset({Kind.OUTPUT}), histogram=Histogram.EXACT)
        *_, run = recorded(train, collections=(chosen,))
        for name, array in given.items():
            found = run.summary(f"output:{name}", 0)
            wanted = summarize(np.asarray(array), histogram=Histogram.EXACT)
            assert (found.count, found.zeros, found.min, found.max, found.exponents) == (
                wanted.count, wanted.zeros, wanted.min, wanted.max, wanted.exponents), name
            assert found.l2 == pytest.approx(wanted.l2, rel=1e-6), name


def test_under_a_budget_steps_with_statistics_and_without_are_timed_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_proof, "NUMBERS", 0)
    timed: list[bool] = []
    add = Surplus.add
    monkeypatch.setattr(Surplus, "add", lambda self, secs, *, recorded: (
        timed.append(recorded), add(self, secs, recorded=recorded)))
    monkeypatch.setattr(Surplus, "likely_secs", 0.25)

    def train(wrap: Any) -> tuple[Any, list[float]]:
        step = wrap(jax.jit(trainings.step_with(optax.sgd(0.1))))
        params, state = trainings.weights(), optax.sgd(0.1).init(trainings.weights())
        for number in range(40):
            params, state, _ = step(params, state, X, Y)
            if number == 30:
                spent.append(step._step._integration.session.price.spent_secs)
        return params, []

    spent: list[float] = []
    *_, run = recorded(train, preset="moments", budget=0.01)
    told = len(run.series("gradient:out.kernel", "l2").steps)
    assert 5 <= told < 40
    assert spent[0] > 0.25 * (told - 2), "what the device is likely to take is charged for each recorded step"
    plain = timed.count(False)
    assert plain >= timed.count(True) >= FEW, "steps of which nothing is due are timed, too, as long as they lag behind"


def test_what_is_told_never_to_be_one_program_is_not_tried() -> None:
    seen: list[bool] = []

    def train(wrap: Any) -> tuple[Any, list[float]]:
        step = wrap(jax.jit(trainings.step_with(optax.sgd(0.1))), together=False)
        params, state = trainings.weights(), optax.sgd(0.1).init(trainings.weights())
        for _ in range(5):
            params, state, _ = step(params, state, X, Y)
            seen.append(step._step._is_together)
        return params, []

    recorded(train)
    assert seen == [False] * 5


@pytest.mark.parametrize(("one", "other"), [
    ([1.0], [1.0, 2.0]), ([np.float32(1)], [np.float32(1 + 2**-23)]), ([np.float32(0)], [np.float32(-0.0)]),
    ([np.float32(1)], [np.int32(1065353216)]), ([np.zeros((2, 3))], [np.zeros((3, 2))]),
])
def test_other_bits_forms_and_numbers_of_results_refute(
    one: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax_proof, "NUMBERS", 3)
    proof = jax_proof.Proof()
    for results in ([one, one],) * 3:
        assert not proof.holds
        proof.compare(*([jax.numpy.asarray(item) for item in side] for side in results))
    assert proof.holds
    proof.compare(*([jax.numpy.asarray(item) for item in side] for side in (one, other)))
    assert proof.refuted
    assert not proof.holds


def test_of_a_few_hundred_numbers_a_step_nothing_is_believed() -> None:
    proof, results = jax_proof.Proof(), [jax.numpy.ones(300)]
    for _ in range(jax_proof.MOST_STEPS - 1):
        proof.compare(results, results)
        assert not proof.refuted
    proof.compare(results, results)
    assert proof.refuted
    assert not proof.holds


def test_units_of_a_branch_that_was_not_taken_count_for_nothing() -> None:
    def train(wrap: Any) -> tuple[Any, list[float]]:
        @wrap
        @jax.jit
        def step(taken: Any, x: Any) -> Any:
            first = barograph.jax.record("inner", x + 9)
            return jax.lax.cond(taken, lambda x: barograph.jax.record("inner", x * 2).sum(), lambda x: x.sum(), first)

        return None, [float(step(taken, X)) for taken in (True, False)]

    _, _, run = recorded(train, preset="units")
    assert run.series("output:inner", "count").values.tolist() == [2 * X.size, X.size]
    units = [run.units("output:inner", step=step) for step in (0, 1)]
    assert [found.count for found in units] == [2 * len(X), len(X)]
    assert units[1].columns[:, 3].tolist() == (X + np.float32(9)).min(0).tolist()


@pytest.mark.usefixtures("unoptimized")
def test_steps_say_nothing_of_a_branch_that_they_did_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_proof, "NUMBERS", 0)
    for tx, together in ((optax.sgd(0.1), True), (optax.apply_if_finite(optax.sgd(0.1), 3), False)):
        seen: list[bool] = []

        def train(wrap: Any, tx: Any = tx, seen: list[bool] = seen) -> tuple[Any, list[float]]:
            step = wrap(jax.jit(trainings.step_with(tx)))
            params, state = trainings.weights(), tx.init(trainings.weights())
            for _ in range(5):
                params, state, _ = step(params, state, X, Y)
                seen.append(step._step._is_together)
            return params, []

        recorded(train)
        together = together and foreign.is_on_host()  # elsewhere the two programs are not compared
        assert seen == [False, False, False, together, together]


def test_what_is_no_number_and_keys_of_random_numbers_are_compared_by_their_bits() -> None:
    results = [jax.numpy.asarray([np.nan, np.inf]), jax.random.key(3), jax.numpy.asarray(1, jax.numpy.bfloat16)]
    proof = jax_proof.Proof()
    proof.compare(results, results)
    assert not proof.refuted
    proof.compare(results, [results[0], jax.random.key(4), results[2]])
    assert proof.refuted


def test_a_step_that_was_traced_before_is_traced_anew() -> None:
    step = jax.jit(trainings.step_with(optax.sgd(0.1)))

    def train(wrap: Any) -> tuple[Any, list[float]]:
        params, state = trainings.weights(), optax.sgd(0.1).init(trainings.weights())
        step(params, state, X, Y)
        observed = wrap(step)
        observed(params, state, X, Y)
        return params, []

    _, _, run = recorded(train)
    assert run.series("gradient:out.kernel", "l2").steps.tolist() == [0]


def test_without_a_recording_the_step_is_as_it_was() -> None:
    step = jax.jit(lambda x: x + 1)
    observed = barograph.jax.observe(step)
    assert observed(1) == 2
    assert observed.lower(1).compile()(1) == 2
    assert not isinstance(optax.GradientTransformation.__dict__["update"], property)


def test_a_function_that_is_not_compiled_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnsupportedCapture, match=r"observe\(jax\.jit\(step\)\)"):
        barograph.jax.observe(lambda x: x)


def test_an_error_of_the_users_own_step_is_theirs() -> None:
    def step(x: Any) -> Any:
        raise ZeroDivisionError("of the user")

    with barograph.attach(to="memory://jax/error", watch=False), pytest.raises(ZeroDivisionError, match="of the user"):
        barograph.jax.observe(jax.jit(step))(1.0)


@pytest.mark.usefixtures("unoptimized")
def test_gradients_are_named_where_optax_is_not_used() -> None:
    def step(params: Any, x: Any) -> tuple[Any, Any]:
        loss, gradients = jax.value_and_grad(lambda w: ((x @ w) ** 2).mean())(params)
        gradients = barograph.jax.gradients({"w": gradients})
        return params - 0.1 * gradients["w"], loss

    def train(wrap: Any) -> tuple[Any, list[float]]:
        params, observed = np.ones(8, np.float32), wrap(jax.jit(step))
        for _ in range(2):
            params, _ = observed(params, X)
        return params, []

    _, _, run = recorded(train)
    assert run.series("gradient:w", "l2").steps.tolist() == [0, 1]


def test_a_step_without_gradients_to_see_says_so() -> None:
    with barograph.attach(to="memory://jax/none", watch=False, budget=None) as run:
        barograph.jax.observe(jax.jit(lambda w: (w * 0.9, w.sum())))(np.ones(3, np.float32))
        reasons = run._recording.session.status().coverage.reasons
    assert any("barograph.jax.gradients" in reason for reason in reasons)


def test_what_is_held_is_withheld_and_the_training_goes_on() -> None:
    bad = X.copy()
    bad[3, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights, losses, run = recorded(
            lambda wrap: trainings.train_plain(wrap, 6, donate=(0, 1), batches={3: bad}), recorder={"then": "skip"})
    without, _ = trainings.train_plain(trainings.same, 5)
    assert np.isnan(losses).tolist() == [False, False, False, True, False, False]
    assert same_bits(weights, without)
    assert run.series("loss:total").steps.tolist() == list(range(6))


@pytest.mark.parametrize("donate", [(), (0, 1)], ids=["kept", "given away"])
def test_a_held_step_stops_the_training_and_is_saved_whole(donate: tuple[int, ...]) -> None:
    from barograph.runs.state.capsules import capsule_names, read_capsule
    from barograph.store.urls import store_from_url

    bad = X.copy()
    bad[3, 0] = np.inf
    url = f"memory://jax/held{len(donate)}"
    before, _ = trainings.train_plain(trainings.same, 3)
    with (pytest.raises(TrainingStopped, match=r"gradient of hidden\.bias, hidden\.kernel, out\.kernel"),
          barograph.attach(to=url, watch=False, strict=True, recorder=True)):
        trainings.train_plain(barograph.jax.observe, 6, donate=donate, batches={3: bad})
    (name,) = capsule_names(store_from_url(url))
    capsule = read_capsule(store_from_url(url), name)
    assert (capsule.head.step, capsule.head.withheld, str(capsule.head.held)) == (3, True, "not finite")
    assert np.array_equal(capsule.tensors["2"], bad)
    assert np.array_equal(capsule.tensors["0.hidden.kernel"], before["hidden"]["kernel"])
    assert capsule.tensors["1.0.count"] == 3
    assert capsule.content["missing"] == []
    assert capsule.content["versions"]["jax"] == jax.__version__
    assert capsule.content["machine"]["world_size"] == 1
    assert "tests/jax_training.py" in capsule.content["script"]["sources"]


def test_in_a_scan_the_turn_that_fails_is_withheld_alone() -> None:
    xs, ys = np.stack([X] * 4), np.stack([Y] * 4)
    xs[2, 0, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weights, losses, run = recorded(lambda wrap: trainings.train_scan(wrap, 1, batches=(xs, ys)),
                                        recorder={"then": "skip"})
    without, _ = trainings.train_scan(trainings.same, 1, 3)
    assert np.isnan(losses).tolist() == [False, False, True, False]
    assert same_bits(weights, without)
    # What is recorded of later turns goes on from the weights as they were.
    assert run.series("weight:out.kernel", "l2").values[-1] == pytest.approx(
        float(np.linalg.norm(weights["out"]["kernel"])), rel=1e-5)
    assert run.series("gradient:out.kernel", "nan").values.tolist() == [0, 0, 32, 0]


@pytest.mark.parametrize("settings", [{"norm_above": 50.0}, {"when": lambda seen: seen.norm > 50 and "too steep"}],
                         ids=["norm", "own"])
def test_a_bound_or_a_function_of_the_users_holds_a_step(settings: Any) -> None:
    steep = X * 1e4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        weights, _, _ = recorded(
            lambda wrap: trainings.train_plain(wrap, 4, donate=(0, 1), batches={2: steep}),
            recorder={"then": "skip", **settings})
    assert any("step 2 was withheld" in str(item.message) for item in caught)
    assert same_bits(weights, trainings.train_plain(trainings.same, 3)[0])


def test_the_guard_alone_changes_no_bit() -> None:
    for train in (trainings.train_plain, trainings.train_scan):
        weights, losses, _ = recorded(train, recorder=True, preset="free")
        bare = train(trainings.same)
        assert losses == bare[1]
        assert same_bits(weights, bare[0])


TWO_DEVICES = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, jax.numpy as jnp, numpy as np, optax
import jax_training as trainings
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import barograph, barograph.jax

assert jax.device_count() == 2
bare = trainings.train_pmap(trainings.same)
with barograph.attach(to="memory://pmap", watch=False, strict=True, budget=None, preset="moments"):
    watched = trainings.train_pmap(barograph.jax.observe)
assert bare[1] == watched[1]
assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(bare[0]), jax.tree.leaves(watched[0])))
run = barograph.open("memory://pmap")
assert run.series("weight:hidden.kernel", "count").values.tolist() == [8 * 16] * 4
assert run.series("output:relu", "count").values.tolist() == [32 * 16] * 4
assert np.allclose(run.series("loss:total").values, watched[1])
spread = NamedSharding(Mesh(jax.devices(), ("batch",)), P("batch"))
trainings.X = jax.device_put(trainings.X, spread)
bare = trainings.train_plain(trainings.same)
with barograph.attach(to="memory://sharded", watch=False, strict=True, budget=None, preset="moments"):
    watched = trainings.train_plain(barograph.jax.observe)
assert bare[1] == watched[1]
assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(bare[0]), jax.tree.leaves(watched[0])))
run = barograph.open("memory://sharded")
assert run.series("output:relu", "count").values.tolist() == [32 * 16] * 6
explicit = jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
spread, whole = NamedSharding(explicit, P("batch")), NamedSharding(explicit, P())
with jax.set_mesh(explicit):
    tx, x = optax.adam(1e-2), jax.device_put(trainings.X, spread)
    def one(params, state, x):
        loss, gradients = jax.value_and_grad(lambda params: jnp.mean((x @ params["kernel"]) ** 2))(params)
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, loss
    def train(wrap):
        params = jax.device_put({"kernel": jnp.ones((8, 4))}, whole)
        state, step = tx.init(params), wrap(jax.jit(one))
        for _ in range(3):
            params, state, loss = step(params, state, x)
        return np.asarray(params["kernel"])
    bare = train(trainings.same)
    settings = {"strict": True, "budget": None, "preset": "moments", "recorder": True}
    with barograph.attach(to="memory://explicit", watch=False, **settings):
        watched = train(barograph.jax.observe)
assert np.array_equal(bare, watched)
run = barograph.open("memory://explicit")
assert run.series("output:kernel", "count").values.tolist() == [32 * 4] * 3
assert run.series("gradient:kernel", "count").values.tolist() == [8 * 4] * 3
mesh, data = Mesh(jax.devices(), ("batch",)), np.ones((4, 8), np.float32)
def shared(params, state, x):
    loss, gradients = jax.value_and_grad(lambda w: barograph.jax.record("scores", x @ w).sum())(params)
    if not checked:
        gradients = jax.lax.psum(gradients, "batch")
    updates, state = tx.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, jax.lax.pmean(loss, "batch")
for checked in (True, False):
    places = {"in_specs": (P(), P(), P("batch")), "out_specs": P(), "check_vma": checked}
    def train(wrap):
        params, step = jnp.ones(8), wrap(jax.jit(jax.shard_map(shared, mesh=mesh, **places)))
        state = tx.init(params)
        for _ in range(2):
            params, state, loss = step(params, state, data)
        return np.asarray(params)
    bare, url = train(trainings.same), f"memory://shared/{checked}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None, preset="everything"):
        watched = train(barograph.jax.observe)
    assert np.array_equal(bare, watched)
    run = barograph.open(url)
    assert run.series("output:scores", "count").values.tolist() == [4] * 2
    assert run.series("gradient:parameter", "count").values.tolist() == [8] * 2
    assert run.series("gradient:parameter", "max").values.tolist() == [4] * 2
    assert np.allclose(run.series("update:parameter", "sum").values.sum(), bare.sum() - 8)
print("well")
"""


def test_several_devices_by_pmap_and_by_sharded_arrays() -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", TWO_DEVICES, os.path.dirname(trainings.__file__)], env=environment,
                          capture_output=True, text=True, timeout=600)
    assert done.stdout == "well\n", done.stderr


def _no_loss(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, list[float]]]:
    """Return a training whose step gives its state back under names, and what else is named; "": nothing is."""
    tx = optax.sgd(0.1)

    def step(params: Any, state: Any) -> dict[str, Any]:
        loss, gradients = jax.value_and_grad(trainings.loss_of)(params, X, Y)
        updates, state = tx.update(gradients, state, params)
        found = {"params": optax.apply_updates(params, updates), "state": state}
        return {**found, **{name: loss if "loss" in name else loss * 0 for name in names}}

    def train(wrap: Any) -> tuple[Any, list[float]]:
        params, observed = trainings.weights(), wrap(jax.jit(step))
        losses, state = [], tx.init(params)
        for _ in range(3):
            losses.append(float(trainings.loss_of(params, X, Y)))
            found = observed(params, state)
            params, state = found["params"], found["state"]
        return params, losses

    return train


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("names", [("loss", "a_metric"), ("accuracy", "train_loss")])
def test_a_loss_among_named_results_is_found_beside_the_state(names: tuple[str, ...]) -> None:
    _, losses, run = recorded(_no_loss(names))
    assert np.allclose(run.series("loss:total").values, losses)


@pytest.mark.usefixtures("unoptimized")
def test_a_loss_that_the_step_does_not_return_is_seen_where_gradients_are_computed() -> None:
    """As in the steps of Flax NNX, which keep it in a metric: with the statistics, and that is said."""
    _, losses, run = recorded(_no_loss(()))
    assert run.series("loss:total").steps.tolist() == [1, 2]
    assert np.allclose(run.series("loss:total").values, losses[1:])
    last = run.workers[0].last
    assert last is not None
    assert any("the step does not return its loss as a scalar" in reason for reason in last.coverage.reasons)


def _resumed(tx: Any, *, before: int) -> list[int]:
    """Return the steps recorded of a training that goes on after so many."""
    step, params = jax.jit(trainings.step_with(tx)), trainings.weights()
    state = tx.init(params)
    for _ in range(before):
        params, state, _ = step(params, state, X, Y)
    url = f"memory://jax/{next(_RUNS)}"
    with barograph.attach(to=url, watch=False, strict=True, budget=None, preset="moments"):
        observed = barograph.jax.observe(step)
        for _ in range(2):
            params, state, _ = observed(params, state, X, Y)
    return barograph.open(url).series("loss:total").steps.tolist()


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(("tx", "steps"), [
    (optax.adam(1e-2), [3, 4]),
    (optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(optax.constant_schedule(0.1))), [3, 4]),
    (optax.sgd(0.1), [0, 1]),
    (optax.MultiSteps(optax.adam(1e-2), 2), [0, 1]),
], ids=["adam", "schedule", "sgd", "micro-batches"])
def test_a_training_whose_optimizer_was_restored_goes_on_counting(tx: Any, steps: list[int]) -> None:
    assert _resumed(tx, before=3) == steps
