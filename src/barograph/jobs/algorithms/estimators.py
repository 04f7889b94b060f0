"""Estimators of scikit-learn from parameters of a command line. Imports no scikit-learn itself."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms.results import say


def estimator(kind: Any, parameters: Mapping[str, Any]) -> Any:
    """Return an estimator with parameters by scikit-learn's names; strings are read as Python values.

    Raises:
        UnknownName: The class has no such parameter.
    """
    known = kind().get_params()
    for name in parameters:
        if name not in known:
            raise UnknownName(f'{kind.__name__} has no parameter "{name}". {nearest(name, known)}')
    return kind(**{name: value_of(text) for name, text in parameters.items()})


def value_of(text: Any) -> Any:
    """Return the Python value of a string, or the string itself.

    Example:
        >>> value_of("0.1"), value_of("64,32"), value_of("true"), value_of("lbfgs")
        (0.1, (64, 32), True, 'lbfgs')
    """
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval({"true": "True", "false": "False", "none": "None"}.get(text, text).strip())
    except (ValueError, SyntaxError):
        return text


@contextmanager
def fitted(kind: Any) -> Iterator[None]:
    """Turn what scikit-learn says of wrong parameters into `SettingsError`, and print its warnings in one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except (ValueError, TypeError) as error:
            raise SettingsError(f"{kind.__name__} refuses: {error}") from error
    for line in dict.fromkeys(str(warning.message).strip().splitlines()[0] for warning in caught):
        say(f"{kind.__name__}: {line}")
