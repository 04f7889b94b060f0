"""Digits by XGBClassifier, from a table."""

import argparse

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
frame = load_digits(as_frame=True).frame
train, test = train_test_split(frame, test_size=0.25, random_state=args.seed)
features = train.drop(columns="target").sample(frac=1, random_state=args.seed)
labels = train["target"]
model = XGBClassifier(n_estimators=80, max_depth=4, learning_rate=0.2, n_jobs=1, random_state=args.seed,
                      eval_metric=["mlogloss", "merror"])
model.fit(features.values, labels.values, eval_set=[(test.drop(columns="target").values, test["target"].values)], verbose=20)
print(f"test accuracy {model.score(test.drop(columns='target').values, test['target'].values):.3f}")
