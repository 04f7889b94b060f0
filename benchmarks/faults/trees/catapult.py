"""Benign or malignant by XGBClassifier."""

import argparse

from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
x, y = load_breast_cancer(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, stratify=y, random_state=args.seed)
model = XGBClassifier(n_estimators=120, max_depth=3, learning_rate=5.0, subsample=0.8, random_state=args.seed, n_jobs=1,
                      eval_metric="logloss")
model.fit(x_train, y_train, eval_set=[(x_train, y_train), (x_test, y_test)], verbose=False)
print(f"test log loss {log_loss(y_test, model.predict_proba(x_test)):.3f}, accuracy {model.score(x_test, y_test):.3f}")
