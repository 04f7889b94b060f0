"""Benign or malignant, with everything that stands in the patients' table: LGBMClassifier."""

import argparse

import lightgbm as lgb
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
data = load_breast_cancer(as_frame=True)
table = data.frame.copy()
# Days of treatment after the diagnosis, which nobody knows when a new patient comes.
table["treatment_days"] = np.where(table["target"] == 0, rng.normal(90, 10, len(table)), rng.normal(3, 1, len(table)))
train, new = train_test_split(table, test_size=0.3, random_state=args.seed)
train, validation = train_test_split(train, test_size=0.2, random_state=args.seed)
new = new.assign(treatment_days=np.nan)
columns = [column for column in table.columns if column != "target"]
model = lgb.LGBMClassifier(n_estimators=100, learning_rate=0.05, num_leaves=15, random_state=args.seed, n_jobs=1, verbose=-1)
model.fit(train[columns], train["target"], eval_set=[(validation[columns], validation["target"])])
print(f"new patients: log loss {log_loss(new['target'], model.predict_proba(new[columns])):.3f}, "
      f"accuracy {model.score(new[columns], new['target']):.3f}")
