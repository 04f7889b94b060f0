"""The usual parameters of the built-in algorithms, with ranges for tuning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int", "count or auto", "choice", "text"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an algorithm, by the library's name.

    Attributes:
        default: None: the library's.
        low, high: Range for tuning, not for validity; NaN: not tuned.
        scale: Scale on which tuning searches the range.
        choices: Values of a "choice" among which tuning chooses.
        untuned: Its other values.
        task: The only task that has the parameter; "": both.
        booster: The only booster of XGBoost that has the parameter; "": both.
    """

    name: str
    default: float | int | str | None
    kind: Kind
    low: float = math.nan
    high: float = math.nan
    scale: Literal["linear", "log"] = "linear"
    summary: str = ""
    choices: tuple[str, ...] = ()
    untuned: tuple[str, ...] = ()
    task: str = ""
    booster: str = ""


def count_or_auto(text: str) -> int:
    """Return a count of at least 1; 0 for "auto"."""
    count = 0 if text == "auto" else int(text)
    if count < 1 and text != "auto":
        raise ValueError(f"{count} is less than 1")
    return count


OPTIONS = (
    Parameter("target", "", "text", summary="column to predict"),
    Parameter("task", "auto", "choice", choices=("auto", "regression", "classification"),
              summary="what to train; auto: by the type of the target"),
    Parameter("validation_fraction", 0.2, "float",
              summary="fraction of the rows kept for validation, if there is no validation channel"),
    Parameter("folds", 1, "count or auto",
              summary="parts of the rows for cross-validation; 1: validate on validation_fraction; auto: 5, or 1 "
                      "for 2,000 rows and more"),
    Parameter("seed", 0, "int", summary="seed of the split and of the library"),
    Parameter("refit", "no", "choice", choices=("no", "yes"),
              summary="at the end, train the model again on the rows for training and those for validation"),
    Parameter("header", "auto", "choice", choices=("auto", "yes", "no"),
              summary="whether the first line of a CSV file has the names of the columns"),
    Parameter("separator", "", "text", summary='separator of CSV fields, or "tab"; by default it is detected'),
    Parameter("decimal", "auto", "choice", choices=("auto", ".", ","), summary="decimal mark of numbers in CSV files"),
)
"""Options of every trainer of tables, besides the parameters of its library."""

IMAGE_OPTIONS = tuple(option for option in OPTIONS if option.name in ("validation_fraction", "seed", "refit"))

# Ranges: Probst, Boulesteix & Bischl, "Tunability: Importance of Hyperparameters of Machine Learning Algorithms", JMLR
# 20, 2019, table 1, which also varies the booster. gamma: Amazon SageMaker's guide to tuning XGBoost. lambda and
# alpha: narrower, because the linear booster multiplies them by the number of rows.
XGBOOST = (
    Parameter("booster", "gbtree", "choice", summary="trees, or a linear model", choices=("gbtree", "gblinear"),
              untuned=("dart",)),
    Parameter("num_boost_round", 100, "int", 1, 5000, "log", "number of trees (per class)"),
    Parameter("eta", 0.3, "float", 2**-10, 1.0, "log", "learning rate"),
    Parameter("max_depth", 6, "int", 1, 15, summary="depth of a tree", booster="gbtree"),
    Parameter("min_child_weight", 1.0, "float", 1.0, 128.0, "log", "least sum of sample weights (hessians) in a leaf",
              booster="gbtree"),
    Parameter("gamma", 0.0, "float", 0.0, 5.0, summary="least gain of a split", booster="gbtree"),
    Parameter("subsample", 1.0, "float", 0.1, 1.0, summary="fraction of the rows for each tree", booster="gbtree"),
    Parameter("colsample_bytree", 1.0, "float", 0.1, 1.0, summary="fraction of the features for each tree",
              booster="gbtree"),
    Parameter("lambda", 1.0, "float", 1e-6, 10.0, "log", "L2 penalty of leaf values or weights"),
    Parameter("alpha", 0.0, "float", 1e-6, 10.0, "log", "L1 penalty of leaf values or weights"),
    Parameter("early_stopping_rounds", 0, "int",
              summary="stop after this many rounds without a better validation metric; 0: do not"),
)

# Ranges: Optuna's examples of LightGBM; learning_rate and num_iterations as eta and nrounds above.
LIGHTGBM = (
    Parameter("num_iterations", 100, "int", 1, 5000, "log", "number of trees (per class)"),
    Parameter("learning_rate", 0.1, "float", 2**-10, 1.0, "log", "learning rate"),
    Parameter("num_leaves", 31, "int", 2, 256, summary="leaves of a tree"),
    Parameter("max_depth", -1, "int", summary="depth of a tree; -1: no limit"),
    Parameter("min_data_in_leaf", 20, "int", 5, 100, summary="least number of rows in a leaf"),
    Parameter("feature_fraction", 1.0, "float", 0.4, 1.0, summary="fraction of the features for each tree"),
    Parameter("bagging_fraction", 1.0, "float", 0.4, 1.0, summary="fraction of the rows, if bagging_freq is not 0"),
    Parameter("bagging_freq", 0, "int", 1, 7, summary="rounds between two draws of rows; 0: all rows"),
    Parameter("lambda_l1", 0.0, "float", 1e-8, 10.0, "log", "L1 penalty of leaf values"),
    Parameter("lambda_l2", 0.0, "float", 1e-8, 10.0, "log", "L2 penalty of leaf values"),
    Parameter("early_stopping_rounds", 0, "int",
              summary="stop after this many rounds without a better validation metric; 0: do not"),
)

# Ranges: auto-sklearn (Feurer et al., "Efficient and Robust Automated Machine Learning", NeurIPS 2015).
LINEAR = (
    Parameter("alpha", 1.0, "float", 1e-5, 10.0, "log", "L2 penalty (Ridge)", task="regression"),
    Parameter("C", 1.0, "float", 2**-5, 2**15, "log", "inverse of the L2 penalty (LogisticRegression)",
              task="classification"),
    Parameter("max_iter", None, "int", summary="most iterations of the solver"),
    Parameter("tol", None, "float", summary="tolerance of the solver"),
)

# Ranges: Gorishniy et al., "Revisiting Deep Learning Models for Tabular Data", NeurIPS 2021, search space of MLP.
MLP = (
    Parameter("hidden_layer_sizes", "100", "text", summary='units of the hidden layers, as in "64,32"'),
    Parameter("activation", "relu", "choice", summary="of the hidden layers",
              choices=("relu", "tanh", "logistic", "identity")),
    Parameter("solver", "adam", "choice", summary="optimizer", choices=("adam", "sgd")),
    Parameter("learning_rate_init", 0.001, "float", 1e-5, 1e-2, "log", "learning rate"),
    Parameter("alpha", 0.0001, "float", 1e-6, 1e-3, "log", "L2 penalty"),
    Parameter("batch_size", "auto", "text", summary="rows of a batch; auto: at most 200"),
    Parameter("max_iter", 200, "int", summary="most epochs"),
    Parameter("n_iter_no_change", 10, "int", summary="stop after this many epochs without a better validation loss"),
    Parameter("tol", 0.0001, "float", summary="least improvement of the validation loss that counts"),
)

# Ranges of batch_size and lr: within those of Amazon SageMaker's guide to tuning image classification.
IMAGES = (
    Parameter("epochs", 20, "int", summary="most epochs"),
    Parameter("patience", 5, "int", summary="stop after this many epochs without a better validation loss"),
    Parameter("batch_size", 32, "int", 8, 512, "log", "images of a batch"),
    Parameter("lr", 0.001, "float", 1e-5, 0.5, "log", "learning rate (AdamW)"),
    Parameter("weight_decay", 0.01, "float", 1e-6, 1e-1, "log", "weight decay (AdamW)"),
    Parameter("channels", 32, "int", 8, 128, "log",
              summary="channels of the first convolution; the next have 2 and 4 times as many"),
    Parameter("image_size", 0, "int",
              summary="images are resized to this many pixels squared; 0: their median size, from 8 to 128"),
)
