"""Diabetes by lightgbm.train: small trees, held back, stopped early."""

import argparse

import lightgbm as lgb
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_diabetes(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.3, random_state=args.seed)
train = lgb.Dataset(x_train, y_train)
validation = lgb.Dataset(x_val, y_val, reference=train)
params = {"objective": "regression", "metric": "l2", "learning_rate": 0.03, "num_leaves": 4, "min_data_in_leaf": 20,
          "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5.0, "seed": args.seed, "num_threads": 1, "verbose": -1}
booster = lgb.train(params, train, 400, valid_sets=[validation], callbacks=[lgb.early_stopping(15), lgb.log_evaluation(50)])
error = y_val - booster.predict(x_val)
print(f"R2 {1 - np.mean(error**2) / np.var(y_val):.3f}")
