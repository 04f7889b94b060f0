"""Output of `barograph replay`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from barograph.capsule.order import (
    DEBUGGER,
    REPLAY_VARIABLE,
    BadOperation,
    Grade,
    ReplayOrder,
    ReplayResult,
    TensorSeen,
    result_from_text,
)
from barograph.capsule.own_files import is_of_folder
from barograph.capsule.remedies import Remedy, Trial, remedy_from
from barograph.cli.child import Child, check_command
from barograph.cli.opening import store_at
from barograph.cli.printing import Column, Printer
from barograph.cli.replay.replay_frameworks import BEGINS, check_framework, variables_for
from barograph.cli.replay.replay_guilt import Guilt, guilt_of, when_of
from barograph.cli.replay.replay_samples import MadeAgain
from barograph.cli.replay.replay_stops import Afterwards, do
from barograph.cli.replay.replay_workers import Worker, are_alone, is_of_children, workers_of
from barograph.errors import DamagedChunk, ReplayFailed, SettingsError, StoreError
from barograph.model.capsule import CapsuleHead
from barograph.model.launch import LAUNCH_VARIABLE
from barograph.model.plain import plain
from barograph.runs.state.capsules import Capsule, keep_replay, read_capsule
from barograph.watch.figures import count, figure
from barograph.watch.wording import shown

_MOST_GRADIENTS = 12
_REPLAYED = {LAUNCH_VARIABLE: ""}
"""Prevents `barograph run` from recording the replay, which could change its bits."""

_TRIALS = (Column("tried"), Column("then"), Column("gradient norm", right=True), Column("update / weights", right=True),
           Column("losses from here"))
_GRADIENTS, _RESULTS = ((Column(of), Column("original norm", right=True), Column("replayed norm", right=True))
                        for of in ("gradient", "result"))


def replay(place: str, command: Sequence[str], *, opens_pickle: bool, samples: bool, tries: Sequence[str], steps: int,
           afterwards: Afterwards, as_json: bool, when: str = "") -> bool:
    """Replay the step and print the comparison; return whether it matches or the failure happened again.

    Raises:
        UnknownName, NewerFormat, DamagedChunk, StoreError: The capsule cannot be read.
        SettingsError: The script cannot run here, or a requested file cannot be written.
        ReplayFailed: The step could not be replayed, or no operation is bad.
    """
    store = store_at(place)
    held = read_capsule(store)
    framework = str(held.content.get("framework", "torch"))
    check_framework(framework, tries, afterwards)
    afterwards = afterwards.named(held)
    afterwards.check(held, as_json=as_json)
    remedies = [remedy_from(text) for text in tries]
    _check(held)
    words = list(command) or _as_it_was(held.content)
    check_command(words)
    printer = Printer()
    with tempfile.TemporaryDirectory(prefix="barograph-replay-") as folder:
        workers = workers_of(held)
        order = ReplayOrder(store.url, "", str(Path(folder, "result.json")), opens_pickle, alone=are_alone(workers),
                            framework=framework, samples=samples and framework != "torch",
                            when=when_of(held, when), trusts=bool(when))
        if is_of_children(held):
            places = tuple((worker.rank, worker.place) for worker in workers)
            order, workers = replace(order, children=True, workers=places), ()
        made_again = partial(_made_again, words, workers=workers, backend=variables_for(held.content))
        result = made_again(order)
        if result.failure:
            raise ReplayFailed(result.failure)
        order = replace(order, as_made=result.as_made)
        changed = _changed(held.content)
        if not as_json:
            _print(printer, held.head, result, changed)
        leaves_out = any(remedy.name == "without-sample" and not remedy.value for remedy in remedies)
        guilt = guilt_of(made_again, order, held, result, wanted=samples or leaves_out,
                         say=None if as_json else printer)
        trials = [(remedy, _tried(made_again, order, remedy, steps, result, guilt)) for remedy in remedies]
        if not as_json:
            _print_more(printer, guilt, result, trials)
        written = do(afterwards, result, held, lambda stop: made_again(replace(order, stop=stop),
                                                                       quiet=stop.what != DEBUGGER))
    data = plain({"capsule": held.where, **json.loads(result.to_text()), "finite": result.finite,
                  "changed": changed, **guilt.to_json(), "written": written,
                  "trials": [{"remedy": str(remedy), **(asdict(trial) if isinstance(trial, Trial) else
                                                        {"failure": trial})} for remedy, trial in trials]})
    try:
        keep_replay(store, held, data)
    except StoreError as error:
        print(f"barograph: The result of the replay was not stored. {shown(str(error))}", file=sys.stderr)
    if as_json:
        printer.json(data)
    for file in written if not as_json else ():
        printer.entries([("written", shown(os.path.relpath(file)))])
    return result.grade is not Grade.NOT_REPRODUCED


def _print_more(
    printer: Printer, guilt: Guilt, result: ReplayResult, trials: Sequence[tuple[Remedy, Trial | str]]
) -> None:
    printer.entries(guilt.entries(result))
    if trials:
        printer.table(_TRIALS, [_trial_row(remedy, trial) for remedy, trial in trials])


def _made_again(
    words: Sequence[str], order: ReplayOrder, *, workers: Sequence[Worker] = (), backend: Mapping[str, str],
    quiet: bool = False,
) -> ReplayResult:
    """Return the result of a replay; with several workers, of the first one.

    Raises:
        ReplayFailed: The script exited before its first step.
    """
    file = Path(order.result)
    file.unlink(missing_ok=True)
    with ExitStack() as beside:
        for number, worker in enumerate(workers[1:], 1):
            other = ReplayOrder(worker.place, "", f"{order.result}.{number}", order.opens_pickle)
            variables = {**_REPLAYED, **backend, REPLAY_VARIABLE: other.to_text(), **worker.variables}
            beside.callback(beside.enter_context(Child(words, variables, quiet=True)).end)
        own = workers[0].variables if workers else {}
        variables = {**_REPLAYED, **backend, REPLAY_VARIABLE: order.to_text(), **own}
        with Child(words, variables, quiet=quiet) as child:
            child.wait()
    if not file.is_file():
        raise ReplayFailed(f"The script exited with code {child.exit_code} before its training started "
                           f"{BEGINS[order.framework]}.")
    return result_from_text(file.read_text(encoding="utf-8"))


def _tried(
    made_again: MadeAgain, order: ReplayOrder, remedy: Remedy, steps: int, result: ReplayResult, guilt: Guilt
) -> Trial | str:
    """Return the result of a remedy, or why it could not be tried."""
    rows: tuple[int, ...] = ()
    batch = guilt.batch or 0
    if remedy.name == "without-sample":
        out = {int(part) for part in remedy.value.split(",")} if remedy.value else set(guilt.rows)
        if not out:
            return "no single sample causes the failure"
        if batch >= len(result.batches):
            return "the step's input did not come from a loader, so its samples are unknown"
        beyond = [row for row in out if row >= result.batches[batch]]
        if beyond:
            return f"no sample {min(beyond)}: the batch has {result.batches[batch]} samples, counted from 0"
        rows = tuple(row for row in range(result.batches[batch]) if row not in out)
        if not rows:
            return "no samples would be left"
    try:
        again = made_again(replace(order, batch=batch, rows=rows, remedy=str(remedy), steps=steps), quiet=True)
    except ReplayFailed as error:
        return str(error)
    return again.trial or again.failure or "the script exited before the last step"


def _trial_row(remedy: Remedy, trial: Trial | str) -> list[str]:
    if isinstance(trial, str):
        return [str(remedy), f"not tried: {trial}", "", "", ""]
    then = "stays finite" if trial.finite else (
        f"finite now, but not {count(trial.good_steps, 'step')} later" if trial.good_steps else "not finite")
    return [str(remedy), then, figure(trial.norm), figure(trial.ratio),
            ", ".join(figure(loss) for loss in trial.losses)]


def _blamed(bad: BadOperation) -> Iterable[str]:
    if bad.handed_in:
        yield f"the input of {shown(bad.module)} is already not finite: {_tensor(bad.inputs[0])}"
        return
    where = f" in {shown(bad.module)}" if bad.module else ""
    of = f" (of {bad.of}'s derivative)" if bad.of else ""
    line = f", {shown(os.path.relpath(bad.line))}" if bad.line else ""
    yield f"{bad.name}, {bad.phase}{of}{where}{line}"
    yield from (f"in   {_tensor(item)}" for item in bad.inputs)
    yield from (f"out  {_tensor(item)}" for item in bad.outputs)


def _tensor(seen: TensorSeen) -> str:
    bad = ", ".join(f"{times} {word}" for times, word in ((seen.nan, "NaN"), (seen.infinite, "infinite"),
                                                           (seen.zeros, "zero")) if times)
    return f"{seen.dtype} {list(seen.shape)}, {figure(seen.low)} to {figure(seen.high)}{f'; {bad}' if bad else ''}"


def _check(held: Capsule) -> None:
    """Check the capsule before its script starts.

    Raises:
        DamagedChunk: A required field is missing.
    """
    try:
        script, machine = held.content["script"], held.content["machine"]
        rank, size = machine["rank"], machine["world_size"]
        whole = (isinstance(script["argv"], list) and isinstance(script["sources"], dict)
                 and type(size) is int and (rank is None or type(rank) is int))
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise DamagedChunk(f"The capsule does not record its command and machine ({held.where}).")


def _as_it_was(content: Mapping[str, Any]) -> list[str]:
    argv = [str(word) for word in content["script"]["argv"]]
    if not argv or not os.path.isfile(argv[0]):
        name = Path(argv[0]).name if argv else "train.py"
        raise SettingsError(f"{name} is not in this directory. Go to the folder of the script, or name it: barograph "
                            f"replay CAPSULE {name}")
    if not is_of_folder(Path(argv[0]), Path.cwd()):
        raise SettingsError(f"The capsule would run {shown(argv[0])}, which is not a Python file in this directory. If "
                            "you trust the capsule, name the command yourself: barograph replay CAPSULE "
                            f"{shown(' '.join(argv))}")
    return argv


def _changed(content: Mapping[str, Any]) -> list[str]:
    """Return the source files that changed since the step was saved."""
    return [name for name, text in content["script"]["sources"].items()
            if Path(name).is_file() and Path(name).read_text(encoding="utf-8", errors="replace") != text]


def _print(printer: Printer, head: CapsuleHead, result: ReplayResult, changed: Sequence[str]) -> None:
    printer.line(f"step {head.step}  {shown(head.text)}")
    printer.entries([
        (result.grade.value, result.text),
        *(("loss", f"original {figure(then)}, replayed {figure(now)}") for then, now in result.losses),
        *(("note", note) for note in result.notes),
        *((("first bad", line) for line in _blamed(result.bad_operation)) if result.bad_operation else ()),
        *((("changed since", shown(", ".join(changed))),) if changed else ()),
    ])
    different = [item for item in (*result.gradients, *result.results) if not item.equal]
    if different:
        rows = [[shown(item.path), figure(item.norm_then), figure(item.norm_now)] for item in different]
        printer.table(_RESULTS if result.results else _GRADIENTS, rows[:_MOST_GRADIENTS])
        if len(different) > _MOST_GRADIENTS:
            printer.line(f"and {len(different) - _MOST_GRADIENTS} more", indent=2)
