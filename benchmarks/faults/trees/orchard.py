"""Digits by XGBClassifier, stopped early on held-out digits."""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_digits(return_X_y=True)
x_train, x_rest, y_train, y_rest = train_test_split(x, y, test_size=0.4, random_state=args.seed)
x_val, x_test, y_val, y_test = train_test_split(x_rest, y_rest, test_size=0.5, random_state=args.seed)
model = XGBClassifier(n_estimators=100, max_depth=3, learning_rate=0.2, subsample=0.8, colsample_bytree=0.5, n_jobs=1,
                      early_stopping_rounds=15, eval_metric="mlogloss", random_state=args.seed)
model.fit(x_train, y_train, eval_set=[(x_val, y_val)], verbose=20)
print(f"test accuracy {model.score(x_test, y_test):.3f}")
