"""Keras and loops of TensorFlow under `MirroredStrategy`: two replicas share each step, on one processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.capsules import capsule_names, read_capsule
from barograph.store.urls import store_from_url

pytest.importorskip("tensorflow", reason="tensorflow is not installed")
keras = pytest.importorskip("keras", reason="keras is not installed")

_KERAS = tuple(map(int, keras.__version__.split(".")[:2]))
WORKER = Path(__file__).with_name("mirrored_worker.py")
SUMMARISED = {"weight", "gradient", "update", "output", "input", "batch"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all trainings have been put; they are made once, in a process that has two devices."""
    place = tmp_path_factory.mktemp("mirrored")
    done = subprocess.run(
        [sys.executable, str(WORKER), str(place)], capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"})
    assert done.returncode == 0, done.stderr[-6000:]
    return place


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "told.json").read_text()))


def reasons(run: RunReader) -> str:
    last = run.workers[0].last
    assert last is not None
    return "; ".join(last.coverage.reasons)


@pytest.mark.parametrize("training", ["fit", "loop", "eager loop"])
def test_replicas_come_to_the_same_bits_with_and_without_us(told: dict[str, Any], training: str) -> None:
    assert told[training] is True


@pytest.mark.skipif(_KERAS < (3, 8), reason="before 3.8 Keras added up the losses of replicas: two trained unlike one")
def test_a_fit_of_two_replicas_shows_what_one_device_shows(folder: Path) -> None:
    two, one = barograph.open(folder / "two"), barograph.open(folder / "one")
    ours, others = ([key for key in keys if key.kind != "machine"] for keys in (one.keys(), two.keys()))
    assert set(ours) == set(others)
    assert {"gradient:hidden.kernel", "output:out", "input:hidden", "batch:model", "fact:batch_size",
            "label:sparse_categorical_crossentropy[0]", "learning_rate:group0"} <= set(map(str, ours))
    for key in ours:
        for mode in (Mode.TRAIN, Mode.EVAL):
            statistic = "l2" if key.kind in SUMMARISED else "value"
            wanted, found = (run.series(key, statistic, mode=mode) for run in (one, two))
            assert found.steps.tolist() == wanted.steps.tolist(), (key, mode)
            np.testing.assert_allclose(found.values, wanted.values, rtol=2e-4, atol=1e-6, err_msg=str(key))
    assert reasons(two) == ""


@pytest.mark.parametrize(("key", "statistic", "values"), [
    ("output:out", "count", [24, 24, 12]), ("input:hidden", "count", [32, 32, 16]),
    ("batch:model", "count", [32, 32, 16]), ("fact:batch_size", "value", [8, 8, 4]),
])
def test_the_parts_of_replicas_add_up(folder: Path, key: str, statistic: str, values: list[int]) -> None:
    assert barograph.open(folder / "two").series(key, statistic).values.tolist() == values


def test_a_loop_of_two_replicas_shows_what_one_device_shows(folder: Path) -> None:
    two, one = barograph.open(folder / "loop"), barograph.open(folder / "loop of one")
    np.testing.assert_allclose(two.series("loss:total").values, one.series("loss:total").values, rtol=1e-5)
    for path in ("table.embeddings", "hidden.kernel", "out.bias"):
        wanted, found = (run.series(f"gradient:{path}", "l2").values for run in (one, two))
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert two.series("output:out", "count").values.tolist() == one.series("output:out", "count").values.tolist()
    assert "optimizer_state:out.kernel[exp_avg]" in set(map(str, two.keys()))


def test_a_bad_sample_of_one_replica_has_the_update_withheld_on_all(folder: Path, told: dict[str, Any]) -> None:
    (warned,) = told["skips"]
    assert "The update of step 1 was withheld" in warned
    assert told["finite"] is True
    losses = barograph.open(folder / "skips").series("loss:total").values
    assert np.isnan(losses).tolist() == [False, True, False]


def test_a_held_step_is_saved_with_the_batch_of_all_replicas(folder: Path, told: dict[str, Any]) -> None:
    assert "The update of step 1 was withheld" in told["held"]
    store = store_from_url(str(folder / "held"))
    (name,) = capsule_names(store)
    held = read_capsule(store, name)
    x = np.random.default_rng(0).normal(size=(20, 4)).astype("f4")[8:16]
    x[6, 1] = np.nan
    np.testing.assert_array_equal(held.tensors["batch/batch[0]"], x)
    assert held.content["replicas"] == {"batch[0]": [4, 4], "batch[1]": [4, 4]}


def test_a_function_of_the_users_is_asked_of_sums_over_replicas(folder: Path, told: dict[str, Any]) -> None:
    one = barograph.open(folder / "loop of one")
    np.testing.assert_allclose([loss for _, loss in told["asked"]], one.series("loss:total").values, rtol=1e-5)
    keys = one.keys()
    norms = np.sqrt(sum(one.series(key, "l2").values ** 2 for key in keys if key.kind == "gradient"))
    np.testing.assert_allclose([norm for norm, _ in told["asked"]], norms, rtol=1e-4)


def test_what_a_function_within_computes_is_said_to_be_missing(folder: Path) -> None:
    run = barograph.open(folder / "within")
    assert "weight:hidden.kernel" in set(map(str, run.keys()))
    assert "the optimizer is called inside a loop, a branch or a nested tf.function" in reasons(run)
    assert "cannot be held" in reasons(run)


def test_a_saved_batch_is_shared_as_it_was_or_refused(told: dict[str, Any]) -> None:
    assert told["parts"] == "[[5, 4], [2, 4]]"
    assert "ran on 3 replicas, but the script's strategy has 2 now" in told["other parts"]
