"""Diabetes by LGBMRegressor, with early stopping."""

import argparse

import lightgbm as lgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_diabetes(return_X_y=True, as_frame=True)
x_train, x_rest, y_train, y_rest = train_test_split(x, y, test_size=0.4, random_state=args.seed)
x_val, x_test, y_val, y_test = train_test_split(x_rest, y_rest, test_size=0.5, random_state=args.seed)
model = lgb.LGBMRegressor(n_estimators=600, learning_rate=0.05, num_leaves=31, min_child_samples=5, random_state=args.seed,
                          n_jobs=1, verbose=-1)
model.fit(x_train, y_train, eval_set=[(x_train, y_train)], callbacks=[lgb.early_stopping(20, verbose=False)])
print(f"best round {model.best_iteration_}, test R2 {model.score(x_test, y_test):.3f}")
