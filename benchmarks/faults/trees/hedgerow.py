"""Benign or malignant: HistGradientBoostingClassifier with its own early stopping."""

import argparse

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_breast_cancer(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=args.seed)
model = HistGradientBoostingClassifier(max_iter=120, learning_rate=0.08, max_leaf_nodes=7, l2_regularization=1.0,
                                       early_stopping=True, validation_fraction=0.2, n_iter_no_change=15,
                                       random_state=args.seed)
model.fit(x_train, y_train)
print(f"rounds {model.n_iter_}, test accuracy {model.score(x_test, y_test):.3f}")
