"""An unchanged Keras script under `barograph run`, with real images and a fault."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from barograph.model.step import Mode

for name in ("keras", "tensorflow", "sklearn"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

DIGITS = '''
import keras
import numpy as np
from sklearn.datasets import load_digits

keras.utils.set_random_seed(0)
digits = load_digits()
images, labels = (digits.images / 16).astype("float32"), digits.target
images[32 * 30 + 5, 3, 3] = np.nan
model = keras.Sequential([
    keras.layers.Input((8, 8)),
    keras.layers.Flatten(),
    keras.layers.Dense(32, activation="tanh", name="hidden"),
    keras.layers.Dense(10, activation="softmax", name="out"),
])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images[:1280], labels[:1280], batch_size=32, shuffle=False, verbose=0,
          validation_data=(images[1300:], labels[1300:]))
'''


def test_a_fit_is_recorded_and_evaluated_and_its_failing_step_is_held(desk):
    desk.environment |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    desk.write("train.py", DIGITS)
    plain = desk.run("--budget", "off", "--strict", "train.py", to="plain")
    assert plain.code == 0, plain.err
    assert "NaN" in plain.err
    run = desk.open("plain")
    losses = run.series("loss:total")
    assert losses.steps[~np.isfinite(losses.values)][0] == 30
    assert run.series("loss:total", mode=Mode.EVAL).steps.tolist() == [40]
    assert run.series("gradient:hidden.kernel", "l2").values[0] > 0
    held = desk.run("--record", "--strict", "train.py", to="held")
    assert held.code != 0
    assert "The update of step 30 was withheld" in held.err
    assert len(list((desk.folder / "held" / "capsules").glob("*/capsule.json"))) == 1
