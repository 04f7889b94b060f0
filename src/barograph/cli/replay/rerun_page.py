"""Implementation of `barograph rerun`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from barograph.cli.child import check_command, end_like
from barograph.cli.opening import run_at
from barograph.cli.options import default_config, replaced
from barograph.cli.printing import Printer
from barograph.cli.record.launching import recorded
from barograph.cli.replay.checkout_page import kept_origin, lay_settings
from barograph.cli.trust import check_command_of_run
from barograph.errors import RerunFailed, SettingsError
from barograph.experiments.artifacts import root_of
from barograph.jobs.rerunning import code_again, job_of, python_again, variables_again
from barograph.jobs.submission import Submission
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.one_line import shown_lines
from barograph.model.origin import Origin
from barograph.model.settings import Settings, settings_from_mapping
from barograph.provenance import parameters
from barograph.provenance.secrets import MARK, held_back
from barograph.rerun.checkout import Checkout
from barograph.rerun.data import checked_data, link_data
from barograph.rerun.environment import Environment, built_environment, present_environment
from barograph.rerun.repetition import Repetition, Sameness, repetition_of
from barograph.rules.registry import installed_alone, needs_of, rules_from_settings
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import new_manifest, new_place
from barograph.store.base import Store
from barograph.store.urls import store_from_url

EXIT_DIFFERENT = 1
_MOST_NAMED = 5


def rerun(
    place: str, changes: Sequence[str], *, to: str | None, out: str | None, environment: bool, data_changed: bool,
    trusts: bool, live: bool, as_json: bool,
) -> None:
    """Rerun a run, compare the two and print the verdict; exit with 1 if they differ.

    Raises:
        RerunFailed: Data or environment differ, or the command is incomplete.
        CheckoutFailed: The code cannot be restored.
        SettingsError: A change is invalid, or the run belongs to someone else and the user did not confirm its command.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    first = run_at(place)
    job = job_of(first.store)
    origin = kept_origin(first.store, place)
    command = _command(origin, changes, place)
    check_command_of_run(first.store, command, trusts=trusts)
    _check_data(origin, data_changed=data_changed)
    settings, _ = installed_alone(settings_from_mapping(dict(first.manifest.settings)))
    target = store_from_url(to or new_place(origin.program or command[0], root=root_of(first.store).url))
    settings = replaced(settings, to=target.url, findings_to="", origin=True)
    home = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="barograph-rerun-", ignore_cleanup_errors=True) as scratch:
        present = _present_python(origin, wanted=environment)
        made = code_again(first.store, origin, Path(out).absolute() if out else Path(scratch, "code"))
        try:
            for note in made.notes:
                _say(note)
            lay_settings(first.store, origin, made)
            python = present or _built_python(first.store, job, origin, made, Path(scratch, "environment"))
            if job:
                os.environ.update(variables_again(job, Path(scratch, "job")))
            link_data(origin, made.folder)
            made.make_directory()
            os.chdir(made.directory)
            words = _moved(command, origin, made.folder)
            exit_code = _run(words, settings, origin, first, python, live=live, quiet=as_json)
        finally:
            os.chdir(home)
            if not out:
                made.remove()
    verdict = repetition_of(first, RunReader(target))
    if as_json:
        Printer().json({**verdict.to_json(), "exit_code": exit_code})
    else:
        _tell(verdict)
    end_like(exit_code or (EXIT_DIFFERENT if verdict.sameness is Sameness.DIFFERENT else 0))


def _command(origin: Origin, changes: Sequence[str], place: str) -> list[str]:
    if not origin.command:
        raise RerunFailed(f"The run does not record its command ({place}).")
    wanted: dict[str, str] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingsError(f'"{text}" is not a change; write NAME=VALUE, as in lr=0.1.')
        wanted[name.lstrip("-")] = value
    words = parameters.replaced(origin.command, wanted, origin.flags)
    if held_back(words):
        raise RerunFailed(f"The command had a secret, which was replaced with {MARK}. Pass it as NAME=VALUE, or better "
                          f"let the script read it from the environment ({place}).")
    return words


def _check_data(origin: Origin, *, data_changed: bool) -> None:
    check = checked_data(origin)
    if not check.changed:
        return
    more = f", and {len(check.changed) - _MOST_NAMED:,} more" if len(check.changed) > _MOST_NAMED else ""
    names = f"{', '.join(check.changed[:_MOST_NAMED])}{more}"
    if not data_changed:
        raise RerunFailed(f"Data files of the run have changed: {names}. To continue anyway: --data-changed.")
    _say(f"data files have changed: {names}")


def _present_python(origin: Origin, *, wanted: bool) -> Environment | None:
    """Return a Python that is there; None if one must be built."""
    present = present_environment(origin)
    if not present.differing:
        return present
    more = f", and {len(present.differing) - _MOST_NAMED:,} more" if len(present.differing) > _MOST_NAMED else ""
    names = f"{', '.join(present.differing[:_MOST_NAMED])}{more}"
    if not wanted:
        _say(f"packages differ in this environment: {names}")
        return present
    _say(f"building an environment, because packages differ here: {names}")
    return None


def _built_python(
    run: Store, job: Submission | None, origin: Origin, made: Checkout, folder: Path
) -> Environment:
    """Build a Python with the packages of a run; without one, nothing is left of the checkout."""
    try:
        of_job = python_again(run, job, made.directory, progress=_say) if job else None
        return Environment(str(of_job), built=True) if of_job else built_environment(origin, folder)
    except BaseException:
        made.remove()
        raise


def _moved(command: Sequence[str], origin: Origin, folder: Path) -> list[str]:
    """Return the command with the new path of its script."""
    at = parameters.script_at(command)
    words = list(command)
    if origin.script and os.path.isabs(words[at]):
        words[at] = str(folder / origin.script)
    return words


def _run(
    words: list[str], settings: Settings, origin: Origin, first: RunReader, python: Environment, *, live: bool,
    quiet: bool,
) -> int:
    words = _with_python(words, python)
    check_command(words)
    os.environ.update({name: value for name, value in origin.seeds.items()
                       if isinstance(value, str) and name in origin.environment})
    rules = rules_from_settings(settings)
    store = store_from_url(settings.to)
    claim = claim_run(store, new_manifest(settings, command=tuple(words), clock=SystemClock()), clock=SystemClock())
    return recorded(
        words, Launch(settings, claim.attempt, needs_of(rules)), store, rules, live=live and not quiet, as_json=False,
        recipients={}, settings_file=os.path.abspath(file) if (file := default_config()) else "",
        derived_from=first.manifest.run_id, quiet=quiet,
    )


def _with_python(words: list[str], python: Environment) -> list[str]:
    """Return the command with the chosen Python: by its path, or first on the search path."""
    if python.python == sys.executable and words[0].endswith(".py"):
        return words
    folder = os.path.dirname(python.python)
    os.environ.update(PATH=os.pathsep.join([folder, *os.get_exec_path()]))
    if words[0].endswith(".py"):
        return [python.python, *words]
    program = os.path.join(folder, os.path.basename(words[0]))
    return [program if os.path.exists(program) else words[0], *words[1:]]


def _tell(verdict: Repetition) -> None:
    _say(f"{verdict.sameness}. {verdict.why}")
    print(shown_lines(f"  first     {verdict.first}\n  second    {verdict.second}"), file=sys.stderr)
    if verdict.numbers.passed_over:
        passed_over = shown_lines(", ".join(verdict.numbers.passed_over))
        print(f"  not compared: {passed_over} (time or machine)", file=sys.stderr)


def _say(text: str) -> None:
    print(f"barograph: {shown_lines(text)}", file=sys.stderr, flush=True)
