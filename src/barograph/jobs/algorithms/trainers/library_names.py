"""Parameters that a library does not know, found before a job starts.

    python -m barograph.jobs.algorithms.trainers.library_names ALGORITHM PARAMETERS USUAL

A process of its own, because commands load no framework. Prints sentences as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping

from barograph.errors import nearest

_OBJECTIVES: tuple[Mapping[str, object], ...] = (
    {"objective": "reg:squarederror"}, {"objective": "binary:logistic"},
    {"objective": "multi:softprob", "num_class": 3},
)
_ROUNDS = ("num_boost_round", "num_round", "n_estimators")


def unknown_parameters(algorithm: str, parameters: Mapping[str, str], usual: Collection[str]) -> list[str]:
    """Return sentences about the parameters that the library of an algorithm does not know.

    Args:
        algorithm: Name of the algorithm.
        parameters: All parameters of a job, without the options of the script.
        usual: Names of parameters that it knows.
    """
    unusual = [name for name in parameters if name not in usual]
    if not unusual:
        return []
    known = {*usual, *_LIBRARIES[algorithm](parameters)} if algorithm in _LIBRARIES else set(usual)
    return [f'The algorithm "{algorithm}" has no parameter "{name}". {nearest(name, known)}'
            for name in unusual if name not in known]


def _of_xgboost(parameters: Mapping[str, str]) -> set[str]:
    """Return the parameters that XGBoost uses with one of the objectives: it has no list of them."""
    import numpy as np
    import xgboost

    data = xgboost.DMatrix(np.array([[1.0], [2.0]]), label=np.array([0.0, 1.0]))
    used = set(_ROUNDS)
    for objective in _OBJECTIVES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                xgboost.Booster({**objective, **parameters}, [data]).save_config()
            except xgboost.core.XGBoostError:
                return set(parameters)  # a value is wrong, of which the library says more
        unused = " ".join(str(warning.message) for warning in caught if "are not used" in str(warning.message))
        used |= set(parameters) - set(re.findall(r'"([^"]*)"', unused))
    return used


def _of_lightgbm(parameters: Mapping[str, str]) -> set[str]:
    from lightgbm.basic import _ConfigAliases

    aliases = _ConfigAliases._get_all_param_aliases()
    return {*aliases, *(alias for names in aliases.values() for alias in names)}


def _of_linear(parameters: Mapping[str, str]) -> set[str]:
    from sklearn.linear_model import LogisticRegression, Ridge

    return {*Ridge().get_params(), *LogisticRegression().get_params()}


def _of_mlp(parameters: Mapping[str, str]) -> set[str]:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    return {*MLPRegressor().get_params(), *MLPClassifier().get_params()}


_LIBRARIES: Mapping[str, Callable[[Mapping[str, str]], set[str]]] = {
    "xgboost": _of_xgboost, "lightgbm": _of_lightgbm, "linear": _of_linear, "mlp": _of_mlp,
}


if __name__ == "__main__":
    print(json.dumps(unknown_parameters(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))))
