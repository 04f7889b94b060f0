"""`%%barograph run`: records the training of one cell and draws it below."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from barograph.attached import AttachedRun
from barograph.attaching import begun
from barograph.capture import recording
from barograph.cli.main import parsed
from barograph.cli.options import default_config, replaced
from barograph.cli.record.run import settings_of
from barograph.errors import SettingsError
from barograph.experiments.artifacts import artifact_from_bytes, root_of
from barograph.jupyter.display import CellDisplay, Display
from barograph.jupyter.live import LiveView
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import Entry, Verb
from barograph.processes.local_process import DEVNULL
from barograph.provenance.secrets import Secrets
from barograph.runs.reading.reader import open as open_run
from barograph.runs.state.journal import JOURNAL_OF_RUN, Journal
from barograph.runs.state.places import new_place

_NAMED = "--as"
_HELP = """
In a notebook, the cell replaces COMMAND. There is one more option:
  --as NAME                   Name of a variable with the run, in the cell."""
_STANDS_FOR_A_COMMAND = "cell"


class RecordedCell:
    """Runs a notebook cell while recording what it trains.

    Args:
        shell: IPython shell that runs the cell.
        draws: Draw the run below the cell; otherwise findings are printed to standard error, as in a terminal.
        make_display: Creates the output to draw on.
        clock: Clock.
    """

    def __init__(
        self,
        shell: Any,
        *,
        draws: bool,
        make_display: Callable[[], Display] = CellDisplay,
        clock: Clock | None = None,
    ) -> None:
        self._shell = shell
        self._draws = draws
        self._make_display = make_display
        self._clock = clock or SystemClock()

    def run(self, words: Sequence[str], cell: str) -> None:
        """Run a cell.

        Args:
            words: Options of `barograph run`, and `--as NAME`.
            cell: Code of the cell.

        Raises:
            SettingsError: An option is invalid.
            AlreadyAttached: The process is recorded already.
            Exception: Any error of the cell.
        """
        __tracebackhide__ = True
        name, options = _taken_out(words)
        typed = parsed("run", [*options, _STANDS_FOR_A_COMMAND])
        if typed is None:
            print(_HELP)
            return
        _check(typed)
        if recording.launched() is not None:
            print("This notebook already runs under barograph run, which records this cell, too.")
            self._execute(cell)
            return
        attached, kept = self._begun(typed, options)
        with _Lent(self._shell.user_ns, name, attached):
            self._recorded(attached, cell, live=bool(typed["live"]) and self._draws, kept=kept)

    def _begun(self, typed: Mapping[str, Any], options: Sequence[str]) -> tuple[AttachedRun, bool]:
        """Start recording; return the run, and whether its origin is recorded."""
        settings = settings_of(typed)
        if settings.to.startswith("memory:"):
            raise SettingsError("A run in memory cannot be watched. Pass a directory or bucket with --to.")
        settings = replaced(settings, to=settings.to or new_place(notebook_name()))
        config = typed["config"] or default_config() or None
        # Findings are drawn below the cell, so they are not printed, too.
        attached = begun(settings, config=config, command=("%%barograph", "run", *options),
                         words_to=DEVNULL if self._draws else None)
        return attached, settings.origin

    def _keep(self, attached: AttachedRun, cell: str) -> None:
        """Store the code of the cell, without secrets, as the code of the run."""
        run = open_run(attached.url)
        text = Secrets(os.environ).hide(cell)
        link = artifact_from_bytes(root_of(run.store), text.encode(), "cell.py", "text/x-python")
        entry = Entry(run.manifest.run_id, Verb.INPUT, asdict(link), self._clock.unix())
        Journal(run.store, JOURNAL_OF_RUN).write([entry])

    def _recorded(self, attached: AttachedRun, cell: str, *, live: bool, kept: bool) -> None:
        __tracebackhide__ = True
        view: LiveView | None = None
        try:
            with attached:
                if kept:
                    self._keep(attached, cell)
                if self._draws:
                    view = LiveView(open_run(attached.url), display=self._make_display(), clock=self._clock)
                    if live:
                        view.start()
                self._execute(cell)
        finally:
            if view is not None:
                view.stop()
                # Drawn once more, because its watcher has finished now.
                view.update()
            else:
                print(f"Run: {attached.url}")

    def _execute(self, cell: str) -> None:
        """Run code as a cell, with the notebook's variables; a value on the last line is displayed."""
        __tracebackhide__ = True
        shell = self._shell
        text = shell.transform_cell(cell)
        name = shell.compile.cache(text, shell.execution_count, raw_code=cell)
        tree = shell.compile.ast_parse(text, filename=name)
        tree = shell.transform_ast(tree)
        shown: list[ast.stmt] = []
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            shown = [tree.body.pop()]
        exec(shell.compile(tree, name, "exec"), shell.user_ns)
        if shown:
            exec(shell.compile(ast.Interactive(shown), name, "single"), shell.user_ns)


def notebook_name() -> str:
    """Return the name of the notebook if its server provides it; else "notebook"."""
    return Path(os.environ.get("JPY_SESSION_NAME", "")).stem or "notebook"


class _Lent:
    """Assigns the run to a variable while its cell runs, and restores the previous value."""

    def __init__(self, names: MutableMapping[str, Any], name: str, attached: AttachedRun) -> None:
        self._names, self._name, self._attached = names, name, attached
        self._before = names.get(name)
        self._was_there = name in names

    def __enter__(self) -> None:
        if self._name:
            self._names[self._name] = self._attached

    def __exit__(self, *_: object) -> None:
        # The cell may have reassigned the variable.
        if self._name and self._names.get(self._name) is self._attached:
            if self._was_there:
                self._names[self._name] = self._before
            else:
                del self._names[self._name]


def _taken_out(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name after `--as`, or "", and the other words."""
    left, name = list(words), ""
    if _NAMED in left:
        at = left.index(_NAMED)
        name = left[at + 1] if at + 1 < len(left) else ""
        if not name.isidentifier():
            raise SettingsError(f"{_NAMED} needs a variable name for the run, as in {_NAMED} run.")
        del left[at:at + 2]
    return name, left


def _check(typed: Mapping[str, Any]) -> None:
    if list(typed["command"]) != [_STANDS_FOR_A_COMMAND]:
        raise SettingsError(f"%%barograph run runs the cell below it and takes no {typed['command'][0]!r}. To run a "
                            "script, use a line magic: %barograph run train.py.")
    if typed["as_json"]:
        raise SettingsError("%%barograph run has no --json; it draws the run below the cell.")
