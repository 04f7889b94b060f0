"""What a held step of Keras was made of, in the places where the script has its own."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import pytest

for name in ("keras", "tensorflow"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)
keras = pytest.importorskip("keras")

from barograph.capsule.keras.asked import SavedRequest  # noqa: E402
from barograph.capsule.keras.batch import CapturedBatch  # noqa: E402
from barograph.capsule.keras.layers import LayerSearch  # noqa: E402
from barograph.capsule.keras.state import CapturedState, assign  # noqa: E402
from barograph.capture.keras.asked import in_plain_data  # noqa: E402
from barograph.capture.keras.backends import backend_named  # noqa: E402
from barograph.capture.keras.names import KerasNames  # noqa: E402
from barograph.capture.keras.random import RandomStates, put_back  # noqa: E402
from barograph.capture.plan import Taking  # noqa: E402
from barograph.errors import ReplayFailed  # noqa: E402
from barograph.model.key import Kind  # noqa: E402
from barograph.model.selection import Histogram  # noqa: E402


def captured(**arrays: Any) -> CapturedBatch:
    return CapturedBatch({"batch": {path: {"array": path} for path in arrays}}, arrays)


def test_a_batch_takes_the_form_of_the_scripts_own() -> None:
    tensors = {"x[image]": np.ones((4, 2), np.float32), "y[0]": np.arange(4), "y[1]": np.zeros(4)}
    batch = captured(**tensors)
    assert batch.samples == 4
    own = ({"image": np.zeros((9, 2), np.float32)}, [np.zeros(9, np.int64), np.zeros(9)])
    x, y = batch.in_place_of_data(own, rows=(3, 3))
    assert np.array_equal(x["image"], np.ones((2, 2)))
    assert np.array_equal(y[0], [3, 3])
    assert batch.notes == []


def test_what_has_no_place_ends_it_and_what_is_missing_is_said() -> None:
    with pytest.raises(ReplayFailed, match="had the inputs sample_weight, which the script's step does not have"):
        captured(x=np.ones(2), sample_weight=np.ones(2)).in_place_of_data((np.ones(2), np.ones(2)))
    batch = captured(x=np.ones(2))
    batch.in_place_of_data((np.ones(2), np.ones(2)))
    assert batch.notes == ["y is not in the capsule: the script's own value was used."]


def model(width: int, optimizer: str = "adam") -> Any:
    made = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(width, name="hidden"),
                             keras.layers.BatchNormalization(name="norm")])
    made.compile(optimizer, "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def state_of(made: Any, value: float) -> CapturedState:
    names, tensors = KerasNames(made), {}
    groups = {"weights": names.trainable, "untrained": names.untrained,
              "optimizer_variables": {str(item.path): item for item in made.optimizer.variables}}
    content: dict[str, Any] = {"optimizer": {"class": "keras.optimizers.Adam"}}
    for group, variables in groups.items():
        content[group] = {path: {"array": f"{group}/{path}"} for path in variables}
        tensors.update({f"{group}/{path}": np.full(tuple(item.shape), value) for path, item in variables.items()})
    return CapturedState(content, tensors)


def test_every_variable_is_given_back_what_it_held() -> None:
    state, other = state_of(model(4), 2.0), model(4)
    assign(state.values(KerasNames(other), other.optimizer))
    assert all(np.all(np.asarray(item) == 2) for item in (*other.variables, *other.optimizer.variables))


def test_another_model_or_optimizer_is_refused_with_what_differs() -> None:
    state = state_of(model(4), 2.0)
    wider, sgd = model(5), model(4, "sgd")
    with pytest.raises(ReplayFailed, match=r"hidden\.kernel is 3 × 5 and was 3 × 4; hidden\.bias is 5 and was 4"):
        state.values(KerasNames(wider), wider.optimizer)
    with pytest.raises(ReplayFailed, match="optimizer SGD has other variables than the capsule's Adam"):
        state.values(KerasNames(sgd), sgd.optimizer)


def test_the_first_layer_that_makes_what_is_not_finite_is_found_and_no_update_made() -> None:
    made = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4, name="hidden"),
                             keras.layers.Rescaling(np.inf, name="scales"), keras.layers.Dense(2, name="out")])
    made.compile("sgd", "mse")
    search = LayerSearch(KerasNames(made), backend_named(keras.backend.backend()).reach(()), 5)
    for layer in made.layers:
        search.layer_begins(layer, {})
        outputs = keras.ops.ones((5, 4)) * (np.inf if layer.name in ("scales", "out") else 1.0)
        search.layer_ends()
        search.layer_called(layer, (keras.ops.ones((5, 4)) * (np.inf if layer.name == "out" else 1.0),), {}, outputs)
    assert search.bad is not None
    assert (search.bad.name, search.bad.module, search.bad.rows) == ("Rescaling", "scales", (0, 1, 2, 3, 4))


def test_generators_go_on_where_they_stood() -> None:
    np.random.seed(3)
    np.random.normal()
    held = RandomStates().arrays()
    drawn = [np.random.normal(), np.random.random()]
    put_back(held)
    assert [np.random.normal(), np.random.random()] == drawn


def test_what_was_asked_then_is_asked_again() -> None:
    taken = [(Kind.OUTPUT, "hidden", Taking(Histogram.EXACT, units=True)),
             (Kind.WEIGHT, "out.kernel", Taking(raw=True))]
    again = SavedRequest(json.loads(json.dumps(in_plain_data(taken))))
    assert [again.taking(kind, path, "Dense") for kind, path, _ in taken] == [taking for *_, taking in taken]
    assert again.taking(Kind.INPUT, "hidden", "Dense") is None


@pytest.mark.parametrize("said", [5, [["output"]], [["nothing", "hidden", 0, False, False]],
                                  [["output", "hidden", 7, False, False]]])
def test_what_was_asked_in_another_form_is_refused(said: Any) -> None:
    with pytest.raises(ReplayFailed, match="in an unknown form"):
        SavedRequest(said)
