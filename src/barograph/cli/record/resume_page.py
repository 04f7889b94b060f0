"""Output of `barograph resume`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from barograph.cli.child import check_command, end_like
from barograph.cli.opening import run_at
from barograph.cli.options import replaced
from barograph.cli.record.launching import recorded
from barograph.cli.trust import check_command_of_run
from barograph.errors import ResumeFailed, RunFinished, SettingsError
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.one_line import shown_lines
from barograph.model.resume import ResumeOrder, failure_among, results_of_workers
from barograph.model.settings import settings_from_mapping
from barograph.provenance.secrets import held_back
from barograph.rules.registry import installed_alone, needs_of, rules_from_settings
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.checkpoints import Checkpoint, last_good
from barograph.runs.state.claim import Claim, claim_run
from barograph.store.base import Store


def resume(
    place: str, command: Sequence[str], *, inexact: bool, own: bool, trusts: bool, live: bool, as_json: bool
) -> None:
    """Restart the script from a checkpoint; exit like the script.

    Raises:
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
        RunInUse, RunFinished: The run is being written, or has ended normally.
        SettingsError: The script cannot run here, or the run belongs to someone else and the user did not confirm its
            command.
        ResumeFailed: There is no usable checkpoint, or the training did not reach its state.
    """
    run = run_at(place)
    words = list(command) or _as_it_was(run.manifest.command, place)
    if not command:
        check_command_of_run(run.store, words, trusts=trusts)
    check_command(words)
    settings, _ = installed_alone(settings_from_mapping(dict(run.manifest.settings)))
    settings = replaced(settings, to=run.store.url)
    checkpoint, passed_over = (None, []) if own else _checkpoint(run.store, place)
    rules = rules_from_settings(settings)
    claim = _claimed(run)
    for text in passed_over if not as_json else ():
        _say(text)
    if checkpoint is not None and not as_json:
        _say(f"resuming from step {checkpoint.steps:,} ({checkpoint.name})")
    with tempfile.TemporaryDirectory(prefix="barograph-resume-") as folder:
        result = Path(folder, "result.json")
        order = None if checkpoint is None else ResumeOrder(
            checkpoint.name, str(result), inexact, checkpoint.world_size, checkpoint.is_of_child)
        exit_code = recorded(words, Launch(settings, claim.attempt, needs_of(rules), order), run.store, rules,
                             live=live, as_json=as_json, recipients={})
        if checkpoint is not None:
            _tell(result, checkpoint, exit_code, place, quiet=as_json)
    end_like(exit_code)


def _checkpoint(store: Store, place: str) -> tuple[Checkpoint, list[str]]:
    """Return the checkpoint to resume from, and why each newer one was skipped.

    Raises:
        ResumeFailed: There is no usable checkpoint.
    """
    found, passed_over = last_good(store)
    if found is None and passed_over:
        raise ResumeFailed(f"The run has no checkpoint to resume from ({store.url}). "
                           f"{passed_over[0]} All checkpoints: barograph checkpoints {place}")
    if found is None:
        raise ResumeFailed(f"The run has no checkpoint to resume from ({store.url}). Save checkpoints with: "
                           "barograph run --checkpoint auto …")
    return found, passed_over


def _claimed(run: RunReader) -> Claim:
    try:
        return claim_run(run.store, run.manifest, clock=SystemClock())
    except RunFinished as error:
        raise RunFinished("The run has finished, so there is nothing to resume. Start a longer training as a new "
                          f"run: barograph run … ({run.store.url})") from error


def _tell(file: Path, checkpoint: Checkpoint, exit_code: int, place: str, *, quiet: bool) -> None:
    """Print whether the training continued identically.

    Raises:
        ResumeFailed: The training did not continue.
    """
    workers = results_of_workers(file)
    if failed := failure_among(workers):
        raise ResumeFailed(failed.failure + (f" Start it: barograph resume {place} …" if failed.again else ""))
    if not workers:
        raise ResumeFailed(f"The script ended with exit code {exit_code} before it reached the step of the "
                           "checkpoint.")
    # Each worker has its own batches and loss, so report any that differs.
    result = next((worker for worker in workers if worker.proof != workers[0].proof), workers[0])
    if not quiet:
        for note in dict.fromkeys(note for worker in workers for note in worker.notes):
            _say(f"different: {note}")
        _say(f"resumed from step {checkpoint.steps:,}: {result.proof}" if result.proof else
             f"resumed from step {checkpoint.steps:,}; whether the next step was identical is unknown, because the "
             "earlier run ended within it")


def _as_it_was(command: Sequence[str], place: str) -> list[str]:
    words = list(command)
    if not words:
        raise SettingsError(f"The run does not record its command. Name the script: barograph resume {place} "
                            "train.py")
    if held_back(words):
        raise SettingsError("The command of the run had a secret, which was not saved. "
                            f"Type the command: barograph resume {place} train.py …")
    return words


def _say(text: str) -> None:
    print(f"barograph: {shown_lines(text)}", file=sys.stderr, flush=True)

