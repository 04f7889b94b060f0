"""Progression of diabetes by boosted trees: xgboost.train."""

import argparse

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_diabetes(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, random_state=args.seed)
dtrain, dval = xgb.DMatrix(x_train, y_train), xgb.DMatrix(x_val, y_val)
params = {"objective": "reg:squarederror", "max_depth": 16, "eta": 0.1, "subsample": 0.8, "seed": args.seed, "nthread": 1}
booster = xgb.train(params, dtrain, num_boost_round=150, evals=[(dtrain, "train"), (dval, "validation")], verbose_eval=50)
error = y_val - booster.predict(dval)
print(f"R2 {1 - np.mean(error**2) / np.var(y_val):.3f}")
