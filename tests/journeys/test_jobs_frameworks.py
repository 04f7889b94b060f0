"""Scripts of several frameworks as jobs: what they leave and what is recorded of them is right."""

from __future__ import annotations

import importlib.util
import io
import json
from typing import Any

import numpy as np
import pytest

from barograph.errors import BarographError
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.machine.marked import kill_marked
from barograph.store.urls import store_from_url
from job_outputs import outputs

DIGITS = """
import json, os
import keras
import numpy as np

data = np.load(os.environ["SM_CHANNEL_TRAIN"] + "/digits.npz")
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10, name="out")])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(data["x"], data["y"], batch_size=32, epochs=2, verbose=0)
model.save(os.environ["SM_MODEL_DIR"] + "/model.keras")
np.savez(os.environ["SM_MODEL_DIR"] + "/weights.npz", *model.get_weights())
json.dump({**history.history, "end": model.evaluate(data["x"], data["y"], verbose=0)},
          open(os.environ["SM_OUTPUT_DATA_DIR"] + "/losses.json", "w"))
"""
TOGETHER_IN_TENSORFLOW = """
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
mine = int(os.environ["SM_CURRENT_HOST_RANK"])
assert json.loads(os.environ["TF_CONFIG"])["task"]["index"] == mine
data = np.load(os.environ["SM_CHANNEL_TRAIN"] + "/lines.npz")
with strategy.scope():
    weight = tf.Variable(np.zeros((3, 1), np.float32))

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight - y) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, weight))
    weight.assign_sub(0.1 * gradient)
    return loss

train = tf.function(lambda x, y: strategy.reduce("MEAN", strategy.run(step, args=(x, y)), axis=None))
losses = [float(train(data["x"][mine::2], data["y"][mine::2])) for _ in range(5)]
np.savez(os.environ["SM_MODEL_DIR"] + "/weight.npz", weight=weight.numpy(), losses=losses)
"""
TREES = """
import json, os, sys
import numpy as np
import xgboost

table = np.loadtxt(os.environ["SM_CHANNEL_TRAIN"] + "/wine.csv", delimiter=",")
data, result = xgboost.DMatrix(table[:, 1:], table[:, 0]), {}
booster = xgboost.train({"objective": "multi:softprob", "num_class": 3, "eta": float(sys.argv[2])}, data, 5,
                        evals=[(data, "train")], evals_result=result, verbose_eval=False)
booster.save_model(os.environ["SM_MODEL_DIR"] + "/model.json")
json.dump(result, open(os.environ["SM_OUTPUT_DATA_DIR"] + "/result.json", "w"))
"""
TRAIN_SH = """
set -e
python trees.py "$@"
sort -u "$SM_CHANNEL_TRAIN/wine.csv" | wc -l > "$SM_OUTPUT_DATA_DIR/rows.txt"
"""
TOGETHER_IN_TORCH = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
x, y, model = torch.randn(64, 8), torch.randint(0, 3, (64,)), torch.nn.Linear(8, 3)
mine = TensorDataset(x[dist.get_rank()::2], y[dist.get_rank()::2])
parallel = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for inputs, labels in DataLoader(mine, batch_size=8):
        optimizer.zero_grad()
        cross_entropy(parallel(inputs), labels).backward()
        optimizer.step()
    print("epoch", epoch, flush=True)
    while epoch == 1 and os.path.exists(sys.argv[1]):
        time.sleep(0.05)
if dist.get_rank() == 0:
    torch.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/weights.pt")
dist.destroy_process_group()
"""


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment |= {"BAROGRAPH_HOME": str(desk.folder / "home"), "KERAS_BACKEND": "tensorflow",
                         "TF_CPP_MIN_LOG_LEVEL": "3"}
    return desk


def needs(*modules: str) -> None:
    for name in modules:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def submit(jobs: Any, *words: str) -> None:
    done = jobs.end(jobs.start("barograph", "submit", "--name", "job", "--wait", *words))
    assert done.code == 0, done.text + done.err


def test_a_keras_script_leaves_its_model_and_its_losses_are_recorded(jobs: Any) -> None:
    needs("keras", "tensorflow", "sklearn")
    from sklearn.datasets import load_digits

    digits = load_digits()
    x, y = (digits.data[:640] / 16).astype(np.float32), digits.target[:640]
    np.savez(jobs.folder / "digits.npz", x=x, y=y)
    jobs.write("train.py", DIGITS)
    submit(jobs, "--data", "train=digits.npz", "train.py")
    found = outputs(jobs, "job")
    told = json.loads(found["output/losses.json"])
    recorded = jobs.open("barograph-runs/job").series("loss:total").values
    assert len(recorded) == 40
    assert recorded.reshape(2, 20).mean(axis=1) == pytest.approx(told["loss"], rel=1e-4)
    weights = np.load(io.BytesIO(found["model/weights.npz"]))
    logits = x @ weights["arr_0"] + weights["arr_1"]
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y]
    assert losses.mean() == pytest.approx(told["end"], rel=1e-4)
    assert found["model/model.keras"].startswith(b"PK")


def test_two_instances_of_tensorflow_train_one_model(jobs: Any) -> None:
    needs("tensorflow")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(16, 3)).astype(np.float32)
    y = x @ np.array([[1], [2], [3]], np.float32)
    np.savez(jobs.folder / "lines.npz", x=x, y=y)
    jobs.write("train.py", TOGETHER_IN_TENSORFLOW)
    submit(jobs, "--instances", "2", "--data", "train=lines.npz", "train.py")
    weight, losses = np.zeros((3, 1)), []
    for _ in range(5):
        losses.append(((x @ weight - y) ** 2).mean())
        weight -= 0.1 * 2 * x.T @ (x @ weight - y) / len(x)
    found = outputs(jobs, "job")
    for name in ("model/weight.npz", "algo-2/model/weight.npz"):
        left = np.load(io.BytesIO(found[name]))
        assert left["losses"] == pytest.approx(losses, rel=1e-4)
        assert left["weight"] == pytest.approx(weight, rel=1e-4)


def test_a_shell_script_that_starts_xgboost_leaves_its_model_and_its_losses_are_recorded(jobs: Any) -> None:
    needs("xgboost", "sklearn")
    import xgboost
    from sklearn.datasets import load_wine

    wine = load_wine()
    np.savetxt(jobs.folder / "wine.csv", np.column_stack([wine.target, wine.data]), delimiter=",")
    jobs.write("trees.py", TREES)
    jobs.write("train.sh", TRAIN_SH)
    submit(jobs, "--data", "train=wine.csv", "train.sh", "--eta", "0.5")
    found = outputs(jobs, "job")
    told = json.loads(found["output/result.json"])["train"]["mlogloss"]
    recorded = jobs.open("barograph-runs/job").series("loss:total")
    assert recorded.values.tolist() == pytest.approx(told)
    booster = xgboost.Booster(model_file=bytearray(found["model/model.json"]))
    predicted = booster.predict(xgboost.DMatrix(wine.data))
    assert -np.log(predicted[np.arange(len(wine.target)), wine.target]).mean() == pytest.approx(told[-1], rel=1e-4)
    assert found["output/rows.txt"].strip() == b"178"


def losses_of_workers(jobs: Any) -> list[int]:
    """Return how many losses of each worker are in the store: what is not yet dies with it."""
    try:
        run = jobs.open("barograph-runs/job")
        return [len(run.series("loss:cross_entropy", worker=name).values) for name in ("r0", "r1")]
    except BarographError:
        return []


def test_two_instances_of_pytorch_train_on_where_they_were_after_one_was_killed(jobs: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    jobs.write("train.py", TOGETHER_IN_TORCH)
    jobs.write("hold", "")
    started = jobs.end(jobs.start("barograph", "submit", "--name", "job", "--instances", "2", "--checkpoint-every",
                                  "every=1", "train.py", jobs.folder / "hold"))
    assert started.code == 0, started.err
    jobs.wait_until(lambda: losses_of_workers(jobs) == [8, 8], "two epochs of both are recorded")
    log = EventLog(store_from_url(str(jobs.folder / "barograph-runs" / "job")), EVENTS)
    mark = next(event.data["handle"]["mark"] for event in log.new()
                if event.kind == "started" and event.data["index"] == 1)
    assert kill_marked("BAROGRAPH_INSTANCE", mark)
    (jobs.folder / "hold").unlink()
    done = jobs.end(jobs.start("barograph", "wait", "job", "--json"))
    report = json.loads(done.out)
    assert (done.code, report["attempt"], report["interruptions"]) == (0, 1, 1), done.text
    assert report["repeated_steps"] <= 1

    torch.manual_seed(0)
    x, y, model = torch.randn(64, 8), torch.randint(0, 3, (64,)), torch.nn.Linear(8, 3)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(4):
        for first in range(0, 64, 16):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[first:first + 16]), y[first:first + 16])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    recorded = jobs.open("barograph-runs/job").series("loss:cross_entropy").values
    assert recorded.tolist() == pytest.approx(losses, rel=1e-4)
    left = torch.load(io.BytesIO(outputs(jobs, "job")["model/weights.pt"]))
    for name, expected in model.state_dict().items():
        torch.testing.assert_close(left[name], expected)
