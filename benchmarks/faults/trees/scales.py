"""A rare kind, weighted: xgboost.train with scale_pos_weight."""

import argparse

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
x, y = load_digits(return_X_y=True)
y = (y == 3).astype(int)
order = rng.permutation(len(y))
x, y = x[order], y[order]
x_test, y_test, x, y = x[:600], y[:600], x[600:], y[600:]
keep = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:45]])
dtrain, dtest = xgb.DMatrix(x[keep], y[keep]), xgb.DMatrix(x_test, y_test)
params = {"objective": "binary:logistic", "eval_metric": ["logloss", "aucpr"], "max_depth": 3, "eta": 0.1, "subsample": 0.8,
          "scale_pos_weight": float((y[keep] == 0).sum() / (y[keep] == 1).sum()), "seed": args.seed, "nthread": 1}
booster = xgb.train(params, dtrain, 80, evals=[(dtest, "test")], verbose_eval=20)
answers = booster.predict(dtest) > 0.5
print(f"rare ones found {answers[y_test == 1].mean():.3f}, false alarms {answers[y_test == 0].mean():.3f}")
