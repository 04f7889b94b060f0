"""Digits by LightGBM: lightgbm.train."""

import argparse

import lightgbm as lgb
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_digits(return_X_y=True)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.25, random_state=args.seed)
train = lgb.Dataset(x_train, y_train)
validation = lgb.Dataset(x_val, y_val, reference=train)
params = {
    "objective": "multiclass", "num_class": 10, "metric": ["multi_logloss", "multi_error"], "num_leaves": 15,
    "learning_rate": 0.0001, "seed": args.seed, "num_threads": 1, "verbose": -1,
}  # fmt: skip
booster = lgb.train(params, train, num_boost_round=120, valid_sets=[validation], valid_names=["validation"],
                    callbacks=[lgb.log_evaluation(20)])
chances = booster.predict(x_val)
print(f"log loss {-np.mean(np.log(chances[np.arange(len(y_val)), y_val])):.3f}, "
      f"accuracy {np.mean(chances.argmax(1) == y_val):.3f}")
