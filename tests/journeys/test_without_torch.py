"""`barograph run` on scripts without PyTorch: NumPy with `attach`, and unchanged scikit-learn."""

from __future__ import annotations

import numpy as np

from barograph.model.step import Mode

NUMPY = '''
import sys
import numpy as np
import barograph

rng = np.random.default_rng(0)
x = rng.normal(size=(64, 4))
y = x @ np.array([1.0, -2.0, 0.5, 0.0])
w = np.zeros(4)
run = barograph.attach()
integration = run.integration()
for step in range(30):
    error = x @ w - y
    if step == 20:
        error[3] = np.nan
    integration.loss((error ** 2).mean())
    integration.take(barograph.Kind.GRADIENT, {"w": x.T @ error / 64})
    integration.before_update({"w": w})
    if step != 20:
        w -= 0.1 * x.T @ error / 64
    integration.after_update({"w": w})
    integration.end_step()
integration.begin_evaluation()
integration.loss(((x @ w - y) ** 2).mean())
print("torch" in sys.modules)
'''


def test_a_numpy_network_is_recorded_and_evaluated(desk):
    desk.write("train.py", NUMPY)
    ended = desk.run("--budget", "off", "--strict", "train.py")
    assert ended.code == 0, ended.err
    assert ended.text == "False\n"
    assert "G103" in ended.err or "NaN" in ended.err
    run = desk.open()
    losses = run.series("loss:total")
    assert losses.steps.tolist() == list(range(30))
    assert np.isnan(losses.values[20])
    assert run.series("gradient:w", "nan").values[20] == 4
    assert run.series("loss:total", mode=Mode.EVAL).steps.tolist() == [30]


TREES = '''
import sys
import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import SGDClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6))
y = (x[:, 2] > 0).astype(int)
GradientBoostingClassifier(n_estimators=40, random_state=0).fit(x, y)
SGDClassifier(random_state=0).partial_fit(x, y, classes=[0, 1])
print("torch" in sys.modules)
'''


def test_trees_are_recorded_and_evaluated_without_changes_to_the_script(desk):
    desk.write("train.py", TREES)
    ended = desk.run("--budget", "off", "--strict", "train.py")
    assert ended.code == 0, ended.err
    assert ended.text == "False\n"
    assert "T102" in ended.err
    assert "with tensors were not evaluated" not in ended.err
    run = desk.open()
    assert {*range(10), 10, 20, 30} <= set(run.series("tree:depth").steps.tolist())
    assert run.series("loss:total", optimizer="").steps.tolist() == list(range(40))
    assert run.series("weight:coef", "l2").steps.tolist() == [0]
    assert run.workers[0].worker.versions["sklearn"]
