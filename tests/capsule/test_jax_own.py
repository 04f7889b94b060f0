"""A held step of JAX is made again in this process, and a function of the user's own is asked about its samples."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
pytest.importorskip("optax", reason="Optax is not installed")

import optax  # noqa: E402

import barograph  # noqa: E402
import barograph.jax  # noqa: E402
import jax_training as trainings  # noqa: E402
from barograph.capsule.ending import ReplayEnded  # noqa: E402
from barograph.capsule.jax.replay import JaxReplayer  # noqa: E402
from barograph.capsule.order import ReplayOrder, ReplayResult, result_from_text  # noqa: E402
from barograph.model.recorder import UpdateSeen  # noqa: E402

FAR, WRONG = trainings.X.copy(), trainings.Y.copy()
FAR[5] *= 100
WRONG[5] = 1 - WRONG[5]
TX = optax.adam(1e-2)

told: list[UpdateSeen] = []


def steep(update: UpdateSeen) -> str:
    told.append(update)
    return f"step {update.step}: norm {update.norm:.6g}, loss {update.losses[0]:.6g}" if update.norm > 5 else ""


def never(update: UpdateSeen) -> bool:
    return False


def fails(update: UpdateSeen) -> bool:
    raise KeyError("hidden")


def step(wrap: Callable[[Any], Any]) -> Any:
    return wrap(jax.jit(trainings.step_with(TX)))


def hold(url: str, made: Any, plain: int = 2, labels: Any = trainings.Y, **recorder: Any) -> None:
    """Train on some plain batches, and on one whose sixth sample lies far off."""
    params = trainings.weights()
    state = TX.init(params)
    with barograph.attach(to=url, watch=False, strict=True, recorder={"then": "skip", **recorder}):
        for x, y in (*[(trainings.X, trainings.Y)] * plain, (FAR, labels)):
            params, state, _ = made(params, state, x, y)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ReplayResult]:
    """Return what makes a held step again, and asks a function of this file."""
    folder: Path = tmp_path_factory.mktemp("held")
    told.clear()
    hold(str(folder / "run"), step(barograph.jax.observe), when=steep)
    (capsule,) = (folder / "run" / "capsules").iterdir()
    return partial(again, str(capsule), folder / "result.json")


def again(place: str, file: Path, when: str = "", *, samples: bool = True) -> ReplayResult:
    name = f"{__name__}:{when}" if when else ""
    replayer = JaxReplayer(ReplayOrder(place, "", str(file), framework="jax", samples=samples, when=name, trusts=True))
    with pytest.MonkeyPatch.context() as patch:
        # A script imports JAX before it.
        patch.delitem(sys.modules, "optax")
        replayer.install()
    try:
        params = trainings.weights(7)
        with pytest.raises(ReplayEnded):
            step(barograph.jax.observe)(params, TX.init(params), trainings.X, trainings.Y)
    finally:
        replayer.remove()
    return result_from_text(file.read_text(encoding="utf-8"))


def test_the_sample_that_a_function_holds_alone_is_named(held: Any) -> None:
    in_training = told[2]
    result = held("steep")
    assert result.grade.value == "bitwise"
    assert (result.guilty.rows, result.guilty.without_them) == ((5,), True)
    # It is told the same as in the training.
    assert told[3] == in_training
    assert in_training.step == 2
    assert set(in_training.norms) == {"hidden.kernel", "hidden.bias", "out.kernel"}
    assert (result.own.text, result.norm) == (steep(in_training), in_training.norm)


def test_one_that_lets_the_step_pass_names_nobody(held: Any) -> None:
    result = held("never")
    assert (result.own.holds, result.guilty) == (False, None)


def test_one_that_fails_says_so(held: Any) -> None:
    result = held("fails")
    assert (result.own.failure, result.guilty) == (f"The function {__name__}:fails fails: KeyError: 'hidden'.", None)


def test_nobody_is_asked_where_no_function_is_named(held: Any) -> None:
    result = held()
    assert (result.own, result.guilty) == (None, None)


@pytest.mark.parametrize(("plain", "labels", "setting"), [
    (2, trainings.Y, "norm_above"), (24, WRONG, "loss_above")])
def test_of_a_step_beyond_a_bound_the_sample_is_named(tmp_path: Path, plain: int, labels: Any, setting: str) -> None:
    hold(str(tmp_path / "run"), step(barograph.jax.observe), plain, labels, **{setting: 5.0})
    (capsule,) = (tmp_path / "run" / "capsules").iterdir()
    result = again(str(capsule), tmp_path / "result.json")
    assert (result.guilty.rows, result.guilty.without_them) == ((5,), True)
    assert result.finite
