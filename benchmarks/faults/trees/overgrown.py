"""Diabetes by lightgbm.train, thousands of rounds to be sure."""

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
params = {"objective": "regression", "metric": "l2", "learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 10,
          "seed": args.seed, "num_threads": 1, "verbose": -1}  # fmt: skip
callbacks = [lgb.log_evaluation(500)]
booster = lgb.train(params, train, 2000, valid_sets=[train, validation], valid_names=["train", "validation"],
                    callbacks=callbacks)
error = y_val - booster.predict(x_val)
print(f"R2 {1 - np.mean(error**2) / np.var(y_val):.3f}")
