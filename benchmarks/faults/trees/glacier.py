"""Progression of diabetes: GradientBoostingRegressor of scikit-learn."""

import argparse

from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=args.seed)
model = GradientBoostingRegressor(n_estimators=150, learning_rate=0.00005, max_depth=3, subsample=0.7,
                                  random_state=args.seed)
model.fit(x_train, y_train)
print(f"R2 {model.score(x_test, y_test):.3f}")
