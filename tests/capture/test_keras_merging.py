"""What replicas have picked up of one step, as one."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("keras", reason="keras is not installed")

from barograph.capture.keras.leaving import leaving
from barograph.capture.keras.merging import Joined, joined, merged


def of_two(first: dict[str, Any], second: dict[str, Any], paths: tuple[str, ...] = (), **whole: Any) -> dict[str, Any]:
    return merged({"whole": leaving(whole), "replicas": (leaving(first), leaving(second))}, paths)


def test_parts_of_a_batch_stand_one_after_the_other() -> None:
    (item,) = joined([np.zeros((3, 2)), np.ones((1, 2))])
    assert isinstance(item, Joined)
    assert item.shape == (4, 2)
    assert item.sizes == (3, 1)
    assert item.numpy().tolist() == [[0, 0], [0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("parts", [
    [np.zeros((3, 2)), np.zeros((3, 5))], [np.float32(1.0), np.float32(2.0)], [np.zeros((3, 2))],
])
def test_parts_of_other_shapes_and_those_of_one_replica_stay_as_they_are(parts: list[Any]) -> None:
    assert joined(parts) == parts


def test_gradients_are_added_up_and_one_that_a_replica_lacks_is_that_of_the_other() -> None:
    seen = of_two({"gradients": {"a": np.float32([1, 2])}},
                  {"gradients": {"a": np.float32([3, 4]), "b": np.float32([5])}})
    assert {path: item.numpy().tolist() for path, item in seen["gradients"].items()} == {"a": [4, 6], "b": [5]}


def test_a_layer_that_is_called_twice_has_two_outputs_of_all_replicas() -> None:
    seen = of_two({"outputs": {"a": (np.zeros((2, 1)), np.ones((2, 1)))}},
                  {"outputs": {"a": (np.zeros((1, 1)), np.ones((1, 1)))}})
    assert [item.numpy().ravel().tolist() for item in seen["outputs"]["a"]] == [[0, 0, 0], [1, 1, 1]]


def test_norms_are_those_of_the_sums_and_unscaled() -> None:
    part = {"given": {"a": np.float32([3, 0]), "b": np.float32([1])}, "scale": np.float32(2.0)}
    other = {"given": {"a": np.float32([0, 4]), "b": np.float32([-1])}}
    assert of_two(part, other, ("a", "b"))["norms"].numpy().tolist() == [2.5, 0.0]


def test_what_all_replicas_hold_alike_is_that_of_the_first_and_what_is_of_the_whole_step_stays() -> None:
    seen = of_two({"learning_rate": 0.1}, {"learning_rate": 0.2}, loss=1.5, withheld=False)
    assert seen == {"learning_rate": 0.1, "loss": 1.5, "withheld": False}


def test_a_step_without_replicas_is_as_it_was() -> None:
    whole = {"loss": 1.0, "outputs": {"a": [np.zeros(2)]}}
    assert merged({"whole": leaving(whole), "replicas": ()}, ()) == whole


def test_of_what_the_loss_takes_logarithms_of_the_least_stands_and_a_broadcast_of_one_is_one_of_all() -> None:
    seen = of_two({"least_logarithm": np.float32(0.5), "broadcast": np.float32(1)},
                  {"least_logarithm": np.float32(0.0), "broadcast": np.float32(1)})
    assert seen["least_logarithm"].numpy() == 0.0
    assert seen["broadcast"] == 1.0
