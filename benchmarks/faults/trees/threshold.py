"""Which patients get much worse: HistGradientBoostingClassifier on a target cut from a measurement."""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split

MUCH_WORSE = 340

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, progression = load_diabetes(return_X_y=True)
y = (progression > MUCH_WORSE).astype(int)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, random_state=args.seed)
model = HistGradientBoostingClassifier(max_iter=80, learning_rate=0.1, max_leaf_nodes=8, random_state=args.seed,
                                       early_stopping=False)
model.fit(x_train, y_train)
# Judged by who is in the upper third a year later.
worse = progression[train_test_split(np.arange(len(y)), test_size=0.4, random_state=args.seed)[1]] > 180
print(f"balanced accuracy {balanced_accuracy_score(worse, model.predict(x_test)):.3f}")
