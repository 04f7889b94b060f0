"""`%barograph` and `%%barograph`: the command line in a notebook."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from barograph.cli.command_list import COMMANDS
from barograph.cli.main import EXIT_ERROR, application, options_of
from barograph.cli.printing import in_notebook
from barograph.errors import BarographError
from barograph.jupyter.formatters import register
from barograph.processes.command import own_module
from barograph.processes.streamed_process import StreamedProcess

APART = frozenset({"run", "watch", "resume", "rerun", "replay"})
"""Commands that run scripts, or go on for long: in a process of their own, which an interrupt ends and no kernel."""

_LOOK_SECS = 1.0
"""So late it is noticed that a command has ended whose output others keep open."""

LESSON = """\
%barograph COMMAND …     what barograph COMMAND does, here; %barograph COMMAND --help teaches it
  %barograph runs                        the runs below this folder
  %barograph show RUN                    one of them: findings, numbers, layers
  %barograph search "metrics.loss.last < 0.3"
  %barograph compare RUN RUN             in what they differ
  %barograph rules                       what is looked for; rules explain CODE
%%barograph run [OPTIONS]                record, watch and draw what this cell trains
  --experiment NAME, --tag NAME=TEXT, --to PLACE, --budget 5%, …   as of barograph run
  --as NAME                              the run under that name, in the cell
In Python: barograph.open("RUN"), barograph.tracking, barograph.notebook.watch("RUN") draw themselves.
{name} stands for a variable: %barograph show {run.url}
"""


class Magic:
    """The command line, for one shell of IPython.

    Args:
        shell: Of IPython.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    @property
    def in_notebook(self) -> bool:
        """Whether a page shows what comes out; else it is a terminal."""
        return hasattr(self._shell, "kernel")

    def load(self) -> None:
        """Teach the shell both magics, what to complete them with, and how to draw what is ours."""
        self._shell.register_magic_function(self.both, "line_cell", "barograph")
        for name in ("%barograph", "%%barograph"):
            self._shell.set_hook("complete_command", self.complete, str_key=name)
        register(self._shell)

    def both(self, line: str, cell: str | None = None) -> None:
        """Run a command of Barograph, or record what a cell trains. Alone it says how."""
        __tracebackhide__ = True
        from IPython.core.error import UsageError

        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{error}: %barograph {line}") from None
        try:
            if cell is not None:
                self._cell(words, cell)
            elif not words:
                print(LESSON, end="")
            elif words[0] in APART:
                self._apart(words)
            else:
                self._here(words)
        except BarographError as error:
            if cell is not None and not _is_ours(error):
                raise
            raise UsageError(str(error)) from None

    def complete(self, shell: Any, event: Any) -> list[str]:
        """Return the commands, and then the options, that a line may go on with."""
        words = str(event.line).split()
        typed = "" if str(event.line).endswith(" ") else words.pop()
        if len(words) <= 1:
            known = ("run",) if str(event.line).startswith("%%") else COMMANDS
            return [name for name in known if name.startswith(typed)]
        if words[1] not in COMMANDS:
            return []
        return [option for option in options_of(words[1]) if option.startswith(typed)]

    def _cell(self, words: Sequence[str], cell: str) -> None:
        __tracebackhide__ = True
        from IPython.core.error import UsageError

        # Loaded here, since to look at runs needs nothing of what records.
        from barograph.jupyter.cell import RecordedCell

        if not words or words[0] != "run":
            raise UsageError("%%barograph run records what the cell trains; other commands are lines, with one %: "
                             f"%barograph {' '.join(words) or 'runs'}")
        RecordedCell(self._shell, executor=self.in_notebook).run(words[1:], cell)

    def _here(self, words: Sequence[str]) -> None:
        named = [name for name in words[:1] if name in COMMANDS]
        with _told_at_once() if self.in_notebook else contextlib.nullcontext():
            try:
                application(named or COMMANDS)(list(words), prog_name="barograph")
            except SystemExit as ended:
                self._ended(words, ended.code)

    def _apart(self, words: Sequence[str]) -> None:
        __tracebackhide__ = True
        # Not in the kernel's own group: an interrupt is passed on once, as at a terminal.
        self._ended(words, _printed(StreamedProcess(own_module("barograph", *words), merged=True)))

    def _ended(self, words: Sequence[str], code: object) -> None:
        from IPython.core.error import UsageError

        # As of a command with an exclamation mark.
        self._shell.user_ns["_exit_code"] = code if isinstance(code, int) else int(code is not None)
        if code == EXIT_ERROR:
            raise UsageError(f"barograph {words[0]} ended with exit code {EXIT_ERROR}.")


@contextlib.contextmanager
def _told_at_once() -> Iterator[None]:
    """Print what is printed in this block at its end, since each line would be a message to the page."""
    told = io.StringIO()
    try:
        with in_notebook(), contextlib.redirect_stdout(told):
            yield
    finally:
        # What Rich pads to the width of a terminal would be broken on a narrow page.
        print("\n".join(line.rstrip() for line in told.getvalue().splitlines()))


def _printed(process: StreamedProcess) -> int:
    """Print what a command prints as it comes, and return its exit code.

    An interrupt goes to the command and, once that has ended, to us; a second one kills the command.
    """
    __tracebackhide__ = True
    interrupted: KeyboardInterrupt | None = None
    while True:
        try:
            code = process.poll()
            text = process.output(_LOOK_SECS if code is None else 0.0).out.decode("utf-8", "replace")
            if text:
                print(text, end="", flush=True)
            if code is not None:
                break
        except KeyboardInterrupt as interrupt:
            if interrupted is not None:
                process.kill()
                raise
            interrupted = interrupt
            process.interrupt()
    if interrupted is not None:
        raise interrupted
    return code


def _is_ours(error: BaseException) -> bool:
    """Return whether an error came before the cell began: one that its code raises is shown with its lines."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "_execute":
            return False
        trace = trace.tb_next
    return True

