"""Collects the origin of a run, concurrently with the training: what may change comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from barograph.machine.gpus import VISIBLE_VARIABLE, names_of_gpus
from barograph.model.origin import Hardware, Origin, Package, Parameter
from barograph.model.question import Question
from barograph.provenance.code import KeptCode, kept_code
from barograph.provenance.packages import interpreter_of, packages_of, this_interpreter
from barograph.provenance.parameters import parameters_of, script_at
from barograph.provenance.secrets import Secrets
from barograph.provenance.surroundings import allowed_environment, hardware_now, host_now, seeds_of, user_now

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Gathered:
    """An origin, with its files.

    Attributes:
        origin: Its fields with names of objects are still "".
        diff, untracked, settings: Contents; b"" if there are none.
    """

    origin: Origin
    diff: bytes = b""
    untracked: bytes = b""
    settings: bytes = b""


def gathered(question: Question, *, is_soon: Callable[[], None] = lambda: None) -> Gathered:
    """Return the origin of a run. Never raises: failures are listed in `problems`.

    Args:
        question: What to collect.
        is_soon: Called when everything is read that the training may change.
    """
    problems: list[str] = []
    secrets = Secrets(question.environment)
    code = _learnt(lambda: kept_code(question.directory, secrets=secrets, started_unix=question.started_unix,
                                     away=[Path(path) for path in question.away]), KeptCode(), "code", problems)
    settings = _learnt(lambda: _settings(question.settings_file, secrets), b"", "settings", problems)
    is_soon()
    problems = [*code.problems, *problems]
    words = secrets.hide_words(question.command)
    parameters: dict[str, Parameter] = _learnt(lambda: parameters_of(words), dict[str, Parameter](), "parameters",
                                               problems)
    interpreter = _learnt(
        lambda: this_interpreter() if question.by_this_python else interpreter_of(question.command), None,
        "interpreter", problems)
    packages = dict[str, Package]() if interpreter is None else _learnt(
        lambda: packages_of(interpreter, secrets), dict[str, Package](), "packages", problems)
    if interpreter is None:
        problems.append("The packages were not saved: the Python interpreter of the command is unknown.")
    no_gpus: tuple[str, ...] = ()
    gpus = _learnt(lambda: names_of_gpus(question.environment.get(VISIBLE_VARIABLE)), no_gpus, "GPUs", problems)
    program = question.command[script_at(question.command)] if question.command else ""
    root = code.code.root if code.code else ""
    origin = Origin(
        command=words, program=secrets.hide(program), script=_below(root, question.directory, program),
        directory=question.directory, interpreter=interpreter.executable if interpreter else "",
        python_version=interpreter.version if interpreter else "", code=code.code, packages=packages,
        environment=allowed_environment(question.environment, secrets),
        seeds=seeds_of(question.environment, parameters),
        hardware=_learnt(lambda: hardware_now(gpus), Hardware(), "machine", problems),
        host=_learnt(host_now, "", "host", problems), user=user_now(), parameters=parameters,
        derived_from=question.derived_from, started_unix=question.started_unix,
        problems=tuple(map(secrets.hide, problems)),
    )
    return Gathered(origin, code.diff, code.untracked, settings)


def _learnt(learn: Callable[[], _Found], otherwise: _Found, what: str, problems: list[str]) -> _Found:
    try:
        return learn()
    except Exception as error:  # noqa: BLE001 - failures are recorded in the run; the training continues
        problems.append(f"The {what} could not be saved: {type(error).__name__}: {error}.")
        return otherwise


def _settings(path: str, secrets: Secrets) -> bytes:
    return secrets.hide(Path(path).read_text(encoding="utf-8")).encode() if path else b""


def _below(root: str, directory: str, program: str) -> str:
    path = Path(directory, program)
    if not root or not path.is_file():
        return ""
    whole, top = path.resolve(), Path(root).resolve()
    return whole.relative_to(top).as_posix() if whole.is_relative_to(top) else ""
