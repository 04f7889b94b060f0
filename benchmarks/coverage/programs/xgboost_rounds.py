"""Rounds of XGBoost on random data, evaluated on training and validation data.

    python xgboost_rounds.py ROUNDS
"""

import sys

import numpy as np
import xgboost

from benchmarks.coverage.meter import Meter

ROUNDS = int(sys.argv[1])


class Count(xgboost.callback.TrainingCallback):
    """Notes the loss of each round."""

    def after_iteration(self, model, epoch, evals_log):
        meter.step(evals_log["train"]["logloss"][-1], 0.1)
        return False


meter = Meter()
rng = np.random.default_rng(0)
x = rng.normal(size=(6000, 30)).astype(np.float32)
y = (x[:, :5].sum(1) + rng.normal(size=len(x)) > 0).astype(np.int64)
train, held_out = xgboost.DMatrix(x[:5000], y[:5000]), xgboost.DMatrix(x[5000:], y[5000:])
params = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.1, "nthread": 1, "tree_method": "hist"}
xgboost.train(params, train, ROUNDS, evals=[(train, "train"), (held_out, "held_out")], verbose_eval=False,
              callbacks=[Count()])
meter.done()
