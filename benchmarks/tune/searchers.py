"""Searches to compare: ours, Optuna's samplers, Nevergrad's NGOpt and random search, all on the same space.

Lists of numbers are ordered for all of them, other lists are categories, and ranges are real numbers.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tune.problems import Problem


class Search(NamedTuple):
    """One search.

    Attributes:
        losses: Loss of each trial, in order.
        secs: Processor time outside the problem, for each trial.
    """

    losses: list[float]
    secs: list[float]


def search(name: str, problem: Problem, trials: int, seed: int) -> Search:
    """Run a search by its name, such as "auto" or "optuna-tpe"."""
    library, _, which = name.partition("-")
    run = {"optuna": _optuna, "nevergrad": _nevergrad}.get(library, _ours)
    losses, secs = [], []
    began = time.process_time()
    steps = run(which or name if library in ("optuna", "nevergrad") else name, problem, trials, seed)
    for give in steps:
        parameters, tell = give
        between = time.process_time()
        loss = problem.loss(parameters)
        spent = time.process_time() - between
        tell(loss)
        now = time.process_time()
        losses.append(loss)
        secs.append(now - began - spent)
        began = now
    return Search(losses, secs)


@functools.cache
def version_of(name: str) -> str:
    """Return the version of a search: of its library, or a digest of the code of our strategies."""
    library = name.partition("-")[0]
    if library in ("optuna", "nevergrad"):
        return f"{library} {importlib.metadata.version(library)}"
    import barograph.tune

    home = Path(barograph.tune.__file__).parent
    names = [home / "parameter.py", home / "space.py"]
    names += [home / "strategies" / "uniform.py"] if name == "random" else [
        home / "history.py", *sorted((home / "strategies").glob("*.py"))]
    return f"barograph {digest_of(names)}"


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of the code in files, without comments and docstrings."""
    digest = hashlib.sha256()
    for file in files:
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                node.body = [one for one in node.body if not (
                    isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


Step = tuple[dict[str, Any], Callable[[float], object]]


def _ours(name: str, problem: Problem, trials: int, seed: int) -> Iterator[Step]:
    from barograph.tune import Study

    study = Study.create(None, dict(problem.space), strategy=name, seed=seed, trials=trials)
    while (trial := study.ask()) is not None:
        yield dict(trial.parameters), lambda loss, trial=trial: study.tell(trial, loss)  # type: ignore[misc]


def _optuna(name: str, problem: Problem, trials: int, seed: int) -> Iterator[Step]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    samplers: dict[str, Callable[[], Any]] = {
        "gp": lambda: optuna.samplers.GPSampler(seed=seed),
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "cma": lambda: optuna.samplers.CmaEsSampler(seed=seed),
        "qmc": lambda: optuna.samplers.QMCSampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
    }
    warnings.simplefilter("ignore")
    study = optuna.create_study(sampler=samplers[name]())
    for _ in range(trials):
        trial = study.ask()
        parameters = {}
        for one, values in problem.space.items():
            if isinstance(values, tuple):
                parameters[one] = trial.suggest_float(one, *values)
            elif _is_ordered(values):
                parameters[one] = values[trial.suggest_int(one, 0, len(values) - 1)]
            else:
                parameters[one] = trial.suggest_categorical(one, values)
        yield parameters, lambda loss, trial=trial: study.tell(trial, loss)  # type: ignore[misc]


def _nevergrad(name: str, problem: Problem, trials: int, seed: int) -> Iterator[Step]:
    import nevergrad

    warnings.simplefilter("ignore")
    kinds = nevergrad.p
    space = kinds.Dict(**{
        one: kinds.Scalar(lower=values[0], upper=values[1]) if isinstance(values, tuple) else
        kinds.TransitionChoice(values) if _is_ordered(values) else kinds.Choice(values)
        for one, values in problem.space.items()})
    space.random_state.seed(seed)
    optimizer = nevergrad.optimizers.registry[name](space, budget=trials)
    for _ in range(trials):
        candidate = optimizer.ask()
        yield candidate.value, lambda loss, candidate=candidate: optimizer.tell(candidate, loss)  # type: ignore[misc]


def _is_ordered(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)
