"""A rare kind among many: xgboost.train on a digit that hardly ever comes."""

import argparse

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
y = (y == 8).astype(int)
order = rng.permutation(len(y))
x, y = x[order], y[order]
x_test, y_test, x, y = x[:600], y[:600], x[600:], y[600:]
keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:8]])
dtrain, dtest = xgb.DMatrix(x[keep], y[keep]), xgb.DMatrix(x_test, y_test)
params = {"objective": "binary:logistic", "eval_metric": ["logloss", "error"], "max_depth": 3, "eta": 0.1,
          "seed": args.seed, "nthread": 1}  # fmt: skip
booster = xgb.train(params, dtrain, 60, evals=[(dtrain, "train"), (dtest, "test")], verbose_eval=20)
found = booster.predict(dtest)[y_test == 1] > 0.5
print(f"rare ones found {found.mean():.3f}")
