"""The command line in a shell of IPython: `%barograph` and `%%barograph run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.capture import recording
from barograph.errors import AlreadyAttached, SettingsError, StoreError
from barograph.jupyter.cell import RecordedCell, notebook_name
from barograph.jupyter.magic import LESSON, _printed
from barograph.model.clock import ManualClock
from barograph.processes.command import Command
from barograph.processes.streamed_process import StreamedProcess
from barograph.tracking import list_runs

TRAINING = '''
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({steps}):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
'''
QUIET = ["--no-origin", "--budget", "off", "--rules", "none"]
"""Options of a run whose watcher and metadata files are not looked at."""


@pytest.fixture
def run_cell(shell: Any, shown: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a cell as a notebook does, but for its watcher, which is another process."""
    monkeypatch.setattr("barograph.attaching.start_watcher", lambda *_: None)
    cell = RecordedCell(shell, draws=True, make_display=lambda: shown, clock=ManualClock())
    return lambda words, text: cell.run([*QUIET, *words], text)


# Lines


def test_alone_it_teaches(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_line_magic("barograph", "")
    assert capsys.readouterr().out == LESSON


def test_a_line_is_the_command_of_its_words(
    shell: Any, small_run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["run"] = barograph.open(small_run)
    assert shell.run_cell("%barograph show {run.url} --json").success
    here = capsys.readouterr().out
    typed = subprocess.run([sys.executable, "-m", "barograph", "show", small_run, "--json"], cwd=tmp_path,
                           capture_output=True, text=True, check=True)
    assert here == typed.stdout


def test_help_is_help(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_cell("%barograph compare --help").success
    assert "--less-is-better" in capsys.readouterr().out
    assert shell.user_ns["_exit_code"] == 0


@pytest.mark.parametrize(("line", "said"), [
    ("show nowhere", "No run at nowhere"), ("nonsense", "exit code 2"), ("show --nope", "exit code 2"),
    ('search "unfinished', "No closing quotation"),
])
def test_what_is_wrong_fails_the_cell_without_a_traceback(
    shell: Any, line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = shell.run_cell(f"%barograph {line}")
    assert type(done.error_in_exec).__name__ == "UsageError"
    assert said in str(done.error_in_exec)
    assert "Traceback" not in "".join(capsys.readouterr())


def test_what_runs_scripts_has_a_process_of_its_own(
    shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "quick.py").write_text("print('from the script')\nraise SystemExit(3)\n")
    assert shell.run_cell("%barograph run --no-origin --rules none --to quick quick.py").success
    assert "from the script" in capsys.readouterr().out
    assert shell.user_ns["_exit_code"] == 3


@pytest.mark.parametrize(("line", "found"), [
    ("%barograph re", {"report", "replay", "resume", "rerun", "reindex", "resubmit"}), ("%%barograph ru", {"run"}),
    ("%%barograph run --exp", {"--experiment"}), ("%barograph nonsense --x", set()),
])
def test_commands_and_options_are_completed(shell: Any, line: str, found: set[str]) -> None:
    from IPython.core.completer import provisionalcompleter

    shell.Completer.use_jedi = False
    with provisionalcompleter():
        texts = {item.text for item in shell.Completer.completions(line, len(line))}
    assert texts == found


# Cells


def test_a_cell_is_recorded_from_its_first_line_to_its_last(
    shell: Any, run_cell: Any, shown: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cell(["--experiment", "digits", "--as", "run", "--to", "barograph-runs/first"],
             TRAINING.format(steps=5) + "run.log({'acc': 0.5})\n1 + 1")
    assert capsys.readouterr().out == "2\n" or "2" in str(shell.user_ns.get("_"))
    assert recording.current() is None
    assert "run" not in shell.user_ns
    assert len(barograph.open("barograph-runs/first").series("loss:total")) == 5
    assert [run.name for run in list_runs("experiment = 'digits'", root=tmp_path / "barograph-runs")] == ["first"]
    assert "finished" in shown.pages[-1]
    assert "loss:total" in shown.pages[-1]
    assert shell.user_ns["loss"].item() >= 0.0


def test_a_cell_that_is_run_again_is_a_second_run(run_cell: Any, tmp_path: Path) -> None:
    for _ in range(2):
        run_cell([], TRAINING.format(steps=2))
    runs = sorted(path for path in (tmp_path / "barograph-runs").iterdir() if path.name != ".catalog")
    assert [len(barograph.open(path).series("loss:total")) for path in runs] == [2, 2]


def test_an_interrupt_leaves_nothing_behind(run_cell: Any, shown: Any) -> None:
    from torch.nn.modules import module

    before = len(module._global_forward_hooks)
    with pytest.raises(KeyboardInterrupt):
        run_cell(["--to", "barograph-runs/cut"], TRAINING.format(steps=2) + "raise KeyboardInterrupt")
    assert recording.current() is None
    assert len(module._global_forward_hooks) == before
    assert "failed" in shown.pages[-1]
    run_cell(["--to", "barograph-runs/next"], TRAINING.format(steps=3))
    assert len(barograph.open("barograph-runs/next").series("loss:total")) == 3


def test_what_the_cell_raises_is_raised_with_its_own_lines(
    shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("barograph.attaching.start_watcher", lambda *_: None)
    done = shell.run_cell(f"%%barograph run {' '.join(QUIET)}\nvalue = 3\nvalue / 0")
    assert isinstance(done.error_in_exec, ZeroDivisionError)
    told = "".join(capsys.readouterr())
    assert "value" in told
    assert "_execute" not in told


def test_a_name_that_was_there_before_is_there_again(shell: Any, run_cell: Any) -> None:
    shell.user_ns["run"] = "mine"
    run_cell(["--as", "run"], "seen = run.url")
    assert shell.user_ns["run"] == "mine"
    assert "barograph-runs" in shell.user_ns["seen"]


def test_the_text_of_the_cell_is_kept_without_secrets(
    shell: Any, shown: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.attaching.start_watcher", lambda *_: None)
    monkeypatch.setattr("barograph.attaching.start_gatherer", lambda *_: None)
    secret = "-".join(("hunter2", "hunter2"))
    text = f"password = '{secret}'\nx = 1"
    RecordedCell(shell, draws=True, make_display=lambda: shown, clock=ManualClock()).run(["--rules", "none"], text)
    kept = [path.read_text() for path in (tmp_path / "barograph-runs/.catalog/artifacts").rglob("*") if path.is_file()]
    assert len(kept) == 1
    assert "x = 1" in kept[0]
    assert secret not in kept[0]
    [run] = list_runs(root=tmp_path / "barograph-runs")
    assert [link.name for link in run.inputs] == ["cell.py"]
    assert run.item.facts["command"].startswith("%%barograph run")


@pytest.mark.parametrize(("words", "said"), [
    (["train.py"], "takes no 'train.py'"), (["--as"], "--as needs a variable name"),
    (["--nope"], "There is no option --nope"), (["--to", "memory://x"], "a directory or bucket with --to"),
    (["--json"], "has no --json"),
])
def test_options_that_make_no_sense_are_refused_before_anything_runs(
    shell: Any, run_cell: Any, words: list[str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        run_cell(words, "reached = True")
    assert "reached" not in shell.user_ns


def test_a_notebook_that_is_recorded_already_says_so(run_cell: Any) -> None:
    with barograph.attach(to="memory://magic", watch=False, origin=False), pytest.raises(AlreadyAttached):
        run_cell([], "1")


def test_a_cell_with_another_command_is_told_how_lines_are_written(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done = shell.run_cell("%%barograph show\nx")
    assert "Use a line magic for others: %barograph show" in str(done.error_in_exec)


def test_a_run_is_called_as_its_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert notebook_name() == "notebook"
    monkeypatch.setenv("JPY_SESSION_NAME", "folder/digits.ipynb")
    assert notebook_name() == "digits"


def test_a_cell_whose_text_cannot_be_kept_leaves_nothing_behind(
    shell: Any, shown: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.attaching.start_watcher", lambda *_: None)
    cell = RecordedCell(shell, draws=True, make_display=lambda: shown, clock=ManualClock())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".catalog").write_text("in the way")
    with pytest.raises(StoreError):
        cell.run(["--budget", "off", "--rules", "none", "--to", f"{tmp_path}/runs/first"], "1 + 1")
    assert recording.current() is None


def test_help_of_a_cell_tells_what_is_a_notebooks_alone(run_cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run_cell(["--help"], "1 / 0")
    assert "--as NAME" in capsys.readouterr().out


INTERRUPTS_US = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("on", flush=True)
os.kill(os.getppid(), signal.SIGINT)
signal.sigwait({signal.SIGINT})
print("interrupted")
sys.exit(5)
"""


def test_an_interrupt_ends_the_command_and_then_the_cell(capsys: pytest.CaptureFixture[str]) -> None:
    process = StreamedProcess(Command((sys.executable, "-c", INTERRUPTS_US)), merged=True)
    with pytest.raises(KeyboardInterrupt):
        _printed(process)
    assert process.poll() == 5
    assert capsys.readouterr().out == "on\ninterrupted\n"
