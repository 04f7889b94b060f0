"""What `barograph replay` does at the operation that is to blame: the debugger, a script, a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from barograph.capsule.order import DEBUGGER, NOTEBOOK, SCRIPT, BadOperation, ReplayResult, StopAt
from barograph.cli.replay.replay_files import file_name
from barograph.errors import ReplayFailed, SettingsError
from barograph.runs.state.capsules import Capsule


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What is to be done at the operation that is to blame, once that is known.

    Attributes:
        debugger: Open it there.
        script, notebook: Files that the operation is written to; None: it is not.
    """

    debugger: bool = False
    script: str | None = None
    notebook: str | None = None

    def named(self, held: Capsule) -> Afterwards:
        """Return the same with files by their names, also those that nobody has named."""
        step = held.head.step
        return replace(self, script=file_name(self.script, step, ".py"),
                       notebook=file_name(self.notebook, step, ".ipynb"))

    def check(self, held: Capsule, *, as_json: bool) -> None:
        """Look whether it can be done with this capsule.

        Raises:
            SettingsError: A file cannot be written where it is to be, or a debugger would write into JSON.
        """
        if self.debugger and as_json:
            raise SettingsError("--pdb is for people, and would write into what --json prints; leave one of them away.")
        if self.notebook is not None and not Path(held.where).is_dir():
            raise SettingsError(f"A notebook opens the capsule, and that is in no directory here ({held.where}); copy "
                                "it first.")
        for _, file in self._files():
            if Path(file).is_dir() or not Path(file).resolve().parent.is_dir():
                raise SettingsError(f"{file} cannot be written: there is no such directory, or it is one itself.")

    def stops(self, bad: BadOperation, held: Capsule, where: tuple[str, ...]) -> Iterable[StopAt]:
        """Yield each thing that is to be done, the debugger last."""
        for what, file in self._files():
            yield StopAt(bad.number, what, _in_its_folder(file), where, held.where, held.files["tensors"])
        if self.debugger:
            yield StopAt(bad.number, DEBUGGER)

    def _files(self) -> Iterable[tuple[str, str]]:
        named = ((SCRIPT, self.script), (NOTEBOOK, self.notebook))
        return ((what, file) for what, file in named if file is not None)


def _in_its_folder(file: str) -> str:
    # The folder may be a link. The file is replaced where it is one: who names it may be a capsule of somebody else.
    return str(Path(file).parent.resolve() / Path(file).name)


def do(afterwards: Afterwards, result: ReplayResult, held: Capsule, make: Callable[[StopAt], object]) -> list[str]:
    """Do what was asked for; return the files that were written.

    Args:
        afterwards: It.
        result: What came of the replay.
        held: What was replayed.
        make: Makes the step once more, and does one thing at its operation.

    Raises:
        ReplayFailed: No operation is to blame.
    """
    if afterwards == Afterwards():
        return []
    bad = result.bad_operation
    if bad is None:
        raise ReplayFailed("No operation made anything that is not finite, so there is none to stop at.")
    written = []
    for stop in afterwards.stops(bad, held, _where(bad, held, result)):
        make(stop)
        written += [stop.file] if stop.file and Path(stop.file).is_file() else []
    return written


def _where(bad: BadOperation, held: Capsule, result: ReplayResult) -> tuple[str, ...]:
    """Return what is to be known of the operation by whoever reads it alone."""
    if bad.handed_in:
        what = f"{bad.module} was not finite when it was handed in; this is the first operation that read it."
    else:
        part = f"{bad.phase} pass" + (f" (the derivative of {bad.of})" if bad.of else "")
        within = f" in {bad.module}" if bad.module else ""
        at = f", {os.path.relpath(bad.line)}" if bad.line else ""
        what = f"{bad.name} made what is not finite of finite numbers, in the {part}{within}{at}."
    versions = ", ".join(f"{name} {version}" for name, version in held.content["versions"].items())
    return (what, f"Step {held.head.step} of a training. {held.head.text}",
            f"Held with {versions}, on {held.content['machine']['processor']}. Replay: {result.grade.value}.")
