"""A failing step of Keras, a TensorFlow loop or JAX is held, listed and replayed in another process."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from forking import AVAILABLE

FIT = '''
import sys
import keras
import numpy as np

keras.utils.set_random_seed(int(sys.argv[1]))
x = np.random.default_rng(0).uniform(1, 2, (160, 6)).astype("float32")
y = x[:, :1] * 2
if sys.argv[2] == "steep":
    y[48 + 5] *= 1e4
if sys.argv[2] == "zero":
    x[48 + 5] = 0


class Logarithm(keras.layers.Layer):
    def call(self, x):
        return keras.ops.log(x)


model = keras.Sequential([Logarithm(name="logs"), keras.layers.BatchNormalization(name="norm"),
                          keras.layers.Dense(int(sys.argv[3]), activation="relu", name="hidden"),
                          keras.layers.Dropout(0.4, name="drop"), keras.layers.Dense(1, name="out")])
how = sys.argv[4] if len(sys.argv) > 4 else ""
optimizer = keras.optimizers.Adam(gradient_accumulation_steps=2 if how == "gathered" else None)
if how == "scaled":
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1.0)
model.compile(optimizer, "mse", steps_per_execution=2 if how == "two in one" else 1)
model.fit(x, y, batch_size=16, shuffle=False, verbose=0)
'''

LOOP = '''
import sys
import keras
import numpy as np
import tensorflow as tf
import barograph.tensorflow

keras.utils.set_random_seed(int(sys.argv[1]))
x = np.random.default_rng(0).uniform(1, 2, (160, 6)).astype("float32")
y = (x[:, 0] > 1.5).astype("int32")
x[48 + 5] = 0
model = keras.Sequential([keras.layers.Lambda(keras.ops.log, name="logs"), keras.layers.Dense(8, name="hidden"),
                          keras.layers.Dropout(0.4), keras.layers.Dense(2, name="out")])
optimizer, loss_of = keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@barograph.tensorflow.step
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for begin in range(0, 160, 16):
    step(x[begin:begin + 16], y[begin:begin + 16])
'''

STEEP = '''
def steep(update):
    return max(update.norms.values()) > 1000 and f"step {update.step} is too steep, loss {update.losses[0]:g}"
'''

MIRRORED = '''
import sys
import keras
import numpy as np
import tensorflow as tf

two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
x = np.random.default_rng(0).uniform(1, 2, (160, 6)).astype("float32")
x[48 + 13] = 0
keras.utils.set_random_seed(int(sys.argv[1]))
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Lambda(keras.ops.log, name="logs"),
                              keras.layers.Dense(8, activation="tanh"), keras.layers.BatchNormalization(),
                              keras.layers.Dropout(0.4), keras.layers.Dense(1, name="out")])
    model.compile("adam", "mse")
model.fit(x, x[:, :1] * 2, batch_size=16, shuffle=False, verbose=0)
'''

JAX = '''
import sys
import jax
import jax.numpy as jnp
import numpy as np
import optax
import barograph.jax
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec

x = np.random.default_rng(0).uniform(1, 2, (160, 6)).astype(np.float32)
y = (x[:, 0] > 1.5).astype(np.int32)
x[48 + 5] = 0
tx = optax.adam(1e-2)
first, second = jax.random.split(jax.random.key(int(sys.argv[1])))
wide = int(sys.argv[2])
params = {"fc1": jax.random.normal(first, (6, wide)), "fc2": jax.random.normal(second, (wide, 2))}
state = tx.init(params)
mesh = Mesh(np.array(jax.devices()), ("rows",))
by_row, everywhere = NamedSharding(mesh, PartitionSpec("rows")), NamedSharding(mesh, PartitionSpec())
params, state = jax.device_put((params, state), everywhere)
print(len(jax.devices()), "devices")


def loss_fn(params, key, x, y, activation):
    logarithms = jnp.log(x)
    hidden = activation(logarithms @ params["fc1"])
    hidden = hidden * jax.random.bernoulli(key, 0.7, hidden.shape)
    return optax.softmax_cross_entropy_with_integer_labels(hidden @ params["fc2"], y).mean()


@barograph.jax.observe
@partial(jax.jit, static_argnums=(5,), static_argnames=("scaled",))
def step(params, state, key, x, y, activation, *, scaled):
    loss, gradients = jax.value_and_grad(loss_fn)(params, key, x, y, activation)
    gradients = jax.tree.map(lambda gradient: gradient / 2, gradients) if scaled else gradients
    updates, state = tx.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


for number in range(10):
    batch = slice(number * 16, number * 16 + 16)
    fed = jax.device_put((x[batch], y[batch]), by_row)
    params, state, loss = step(params, state, jax.random.key(number), *fed, jax.nn.gelu, scaled=True)
'''


def needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.fixture
def on(desk: Any, fork_servers: Callable[..., Any]) -> Callable[..., None]:
    """Have the commands of the desk run with modules and variables that are loaded once."""

    def on(*modules: str, **variables: str) -> None:
        needs(*modules)
        desk.environment |= variables
        if AVAILABLE:
            desk.programs = fork_servers(*modules, **variables).programs

    return on


def held(desk: Any, script: str, *words: str, settings: tuple[str, ...] = (), step: int = 3) -> dict[str, Any]:
    """Hold the step of a script's fourth batch; return what `barograph capsules` lists."""
    desk.write("train.py", script)
    ended = desk.run("--record", "--rules", "none", *settings, "train.py", "0", *words)
    assert ended.code == 79, ended.err
    (found,) = json.loads(desk.end(desk.start("barograph", "capsules", "run", "--json")).out)
    assert found["step"] == step
    return dict(found)


def replayed(desk: Any, *words: str) -> dict[str, Any]:
    ended = desk.end(desk.start("barograph", "replay", "--json", *words))
    assert ended.code == 0, ended.err
    # What the script prints comes first.
    return dict(json.loads(ended.out[ended.out.index(b"{"):]))


@pytest.mark.parametrize(("backend", "setting"), [("tensorflow", "norm_above=1000"), ("torch", "when=checks:steep")])
def test_a_keras_step_replays_bit_for_bit(
    desk: Any, on: Callable[..., None], backend: str, setting: str
) -> None:
    on("keras", backend, KERAS_BACKEND=backend, TF_CPP_MIN_LOG_LEVEL="3")
    desk.write("checks.py", STEEP)
    found = held(desk, FIT, "steep", "8", settings=("--set", f"recorder.{setting}"))
    # Whatever the script and the environment would have done.
    del desk.environment["KERAS_BACKEND"]
    result = replayed(desk, "run", "train.py", "7", "steep", "8")
    assert result["grade"] == "bitwise"
    assert result["notes"] == []
    assert {item["path"] for item in result["gradients"]} >= {"hidden.kernel", "norm.gamma", "out.bias"}
    assert result["finite"] is True
    assert (result["guilty"]["rows"], result["guilty"]["without_them"]) == ([5], True)
    if backend == "torch":
        # The function is told the same as in the training.
        assert found["text"] == f"{result['own']['text']}."
        assert found["text"].startswith("step 3 is too steep, loss ")
    if backend == "tensorflow":
        other = desk.end(desk.start("barograph", "replay", "run", "train.py", "7", "steep", "12"))
        assert other.code != 0
        assert "hidden.kernel is 6 × 12 and was 6 × 8" in other.err
        refused = desk.end(desk.start("barograph", "replay", "--pdb", "run"))
        assert refused.code != 0
        assert "--pdb works for PyTorch only, and this is a step of Keras. Instead, put breakpoint()" in refused.err


@pytest.mark.parametrize(("how", "step"), [("", 3), ("two in one", 3), ("gathered", 1), ("scaled", 3)])
def test_the_layer_and_the_sample_are_named(desk: Any, on: Callable[..., None], how: str, step: int) -> None:
    on("keras", "jax", KERAS_BACKEND="jax")
    held(desk, FIT, "zero", "8", how, step=step)
    result = replayed(desk, "run")
    assert result["grade"] == "bitwise"
    bad = result["bad_operation"]
    assert (bad["name"], bad["module"], bad["rows"]) == ("Logarithm", "logs", [5])
    assert bad["line"].rpartition(":")[0].endswith("train.py")
    assert (result["guilty"]["rows"], result["guilty"]["without_them"]) == ([5], True)


def test_a_step_of_a_tensorflow_loop_is_replayed(desk: Any, on: Callable[..., None]) -> None:
    on("keras", "tensorflow", KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
    held(desk, LOOP)
    result = replayed(desk, "run", "train.py", "7")
    assert result["grade"] == "bitwise"
    assert (result["bad_operation"]["name"], result["bad_operation"]["module"]) == ("Lambda", "logs")
    assert result["guilty"]["rows"] == [5]


def test_a_step_of_two_replicas_is_replayed(desk: Any, on: Callable[..., None]) -> None:
    on("keras", "tensorflow", KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
    held(desk, MIRRORED)
    result = replayed(desk, "run", "train.py", "7")
    assert result["grade"] == "bitwise"
    assert (result["bad_operation"]["name"], result["bad_operation"]["rows"]) == ("Lambda", [13])
    assert (result["guilty"]["rows"], result["guilty"]["without_them"]) == ([13], True)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_jax_step_is_replayed(desk: Any, on: Callable[..., None], devices: int) -> None:
    on("jax", "optax")
    desk.environment |= {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    found = held(desk, JAX, "8")
    result = replayed(desk, found["place"], "train.py", "7", "8")
    assert result["grade"] == "bitwise"
    assert result["notes"] == []
    bad = result["bad_operation"]
    assert (bad["name"], bad["phase"], bad["rows"]) == ("log", "forward", [5])
    lines = JAX.splitlines()
    assert bad["line"].endswith(f"train.py:{lines.index('    logarithms = jnp.log(x)') + 1}")
    assert result["guilty"]["rows"] == [5]
    if devices == 1:
        other = desk.end(desk.start("barograph", "replay", "run", "train.py", "7", "12"))
        assert other.code != 0
        assert "0.fc1 is [6, 12] and was [6, 8]" in other.err
