"""`barograph watch`: live and long after, the same findings; and it always ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.cli.record.watching import Options, settings_for, watch_run
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.state.control import read_stop
from barograph.store.urls import store_from_url
from forking import TORCH

FORKED = TORCH
Call = Callable[..., Any]

PATIENCE_SECS = 600.0

# Trains with a loss that is NaN from step 5 on, until a file appears; then it ends as it is told.
TRAINING = '''
import os, pathlib, signal, sys, time
import torch
import barograph

place, how = sys.argv[1:3]
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with barograph.attach(model, optimizer, to=place, watch=how == "watched", budget=None, rules=["non-finite"]) as run:
    step = 0
    while not pathlib.Path(place + ".enough").exists():
        optimizer.zero_grad()
        (model(torch.ones(3, 4)).square().mean() * (float("nan") if step == 5 else 1.0)).backward()
        optimizer.step()
        step += 1
        time.sleep(0.005)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
'''


def findings_of(run: Path) -> list[tuple[Any, ...]]:
    return [(item.id, item.state, item.message, item.evidence) for item in barograph.open(run).findings]


def test_a_run_that_has_ended_is_judged_from_its_records(call: Call, sick: Path) -> None:
    said = call("watch", sick, "--rules", "non-finite")

    assert said.code == 0
    assert said.lines[0].startswith("breaking  The input data contains NaN or infinite values")
    assert "barograph: 1 problem found; " in said.out
    assert said.lines[-1] == f"  run       {sick}"
    assert [item.code for item in barograph.open(sick).findings] == ["N101"]


def test_a_second_watcher_tells_nothing_twice_and_sums_up_the_same(call: Call, sick: Path) -> None:
    first, second = call("watch", sick, "--json").json, call("watch", sick, "--json")

    assert second.json == first
    assert second.err == ""


def test_the_rules_are_those_the_run_was_started_with(
    call: Call, tmp_path: Path, trained: Callable[..., Path]
) -> None:
    place = trained(tmp_path / "run", steps=2, rules=["overfit"])

    assert call("watch", place, "--json").json["rules"] == ["L102"]
    assert call("watch", place, "--json", "--fresh", "--rules", "A101, non-finite").json["rules"] == ["A101", "N101"]


def test_rules_and_their_parameters_come_from_a_file(call: Call, copy: Path, tmp_path: Path) -> None:
    text = 'rules = ["weight-update-ratio"]\n[rule_settings.W101]\nlarge_threshold = 1e-9\n'
    (tmp_path / "mine.toml").write_text(text)

    summary = call("watch", copy, "--json", "--config", tmp_path / "mine.toml").json

    assert summary["rules"] == ["W101"]
    assert [item["code"] for item in summary["findings"]] == ["W101"]


def test_a_file_stands_on_top_of_what_the_run_was_started_with(tmp_path: Path, trained: Callable[..., Path]) -> None:
    place = trained(tmp_path / "run", steps=2, rules=["overfit", "dead-relu"], on_finding="stop")
    (tmp_path / "mine.toml").write_text("[rule_settings.L102]\npatience = 7\n")

    settings, _ = settings_for(barograph.open(place), Options(config=str(tmp_path / "mine.toml")))

    assert (settings.rules, settings.on_finding) == (("overfit", "dead-relu"), "stop")
    assert settings.rule_settings == {"L102": {"patience": 7}}


@pytest.mark.parametrize(("setting", "why"), [
    ("recorder.then=skip", "the flight recorder works in the training"),
    ("checkpoints.keep=5", "checkpoints are saved in the training"),
])
def test_what_takes_place_in_the_training_is_not_set_where_a_run_is_watched(call: Call, copy: Path, setting: str,
                                                                            why: str) -> None:
    ended = call("watch", copy, "--set", setting)
    assert ended.code == 2
    assert why in ended.err


MINE = '''
import pathlib
from dataclasses import dataclass

import barograph

pathlib.Path("loaded").touch()


@dataclass(frozen=True, kw_only=True)
class Mine(barograph.Rule):
    code, name, severity = "X901", "mine", barograph.Severity.NOTE
    needs = (barograph.Selection(kinds=frozenset({barograph.Kind.LOSS})),)

    def judge(self, view, memory):
        return ()
'''


def named(run: Path, **settings: Any) -> Path:
    """Have the run's first metadata file say that it was started with these settings."""
    path = run / "run.json"
    body = unsealed(path.read_bytes(), path.name)
    path.write_bytes(sealed({**body, "settings": {**body["settings"], **settings}}))
    return run


def test_what_a_run_names_is_not_loaded_unless_it_is_installed_or_typed(
    call: Call, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    named(copy, rules=["non-finite", "theirs:Mine"], rule_settings={"X901": {"patience": 2}})

    said = call("watch", copy)

    assert said.code == 0
    assert said.lines[0].endswith("were skipped: theirs:Mine. To load one of your own, name it: --rules theirs:Mine")
    assert "Rule theirs:Mine is not installed here and did not run." in said.out
    assert not (tmp_path / "loaded").exists()
    typed = call("watch", copy, "--json", "--rules", "non-finite,theirs:Mine").json
    assert typed["rules"] == ["N101", "X901"]
    assert (tmp_path / "loaded").exists()


def test_a_rule_that_is_installed_is_used_whatever_the_run_calls_it(copy: Path) -> None:
    named(copy, rules=["barograph.rules.numbers:NonFinite", "-overfit"])

    settings, not_used = settings_for(barograph.open(copy), Options())

    assert (settings.rules, not_used) == (("N101", "-overfit"), ())


def test_findings_go_to_a_file_too(call: Call, sick: Path, tmp_path: Path) -> None:
    call("watch", sick, "--rules", "non-finite", "--findings-to", tmp_path / "new folder" / "findings.jsonl")

    (line,) = (tmp_path / "new folder" / "findings.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "opened"
    assert json.loads(line)["run"] == str(sick)
    assert json.loads(line)["finding"]["code"] == "N101"


def test_findings_cannot_go_to_a_directory(call: Call, sick: Path, tmp_path: Path) -> None:
    said = call("watch", sick, "--findings-to", tmp_path)

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"barograph: findings_to is a directory: {tmp_path}. It must be a file")


def test_a_run_that_is_watched_says_nothing_of_files_to_write(call: Call, sick: Path, tmp_path: Path) -> None:
    named(sick, findings_to=str(tmp_path / "theirs.jsonl"))

    call("watch", sick)

    assert not (tmp_path / "theirs.jsonl").exists()


def test_settings_that_only_a_newer_barograph_knows_do_not_matter(healthy: Path) -> None:
    run = barograph.open(healthy)
    run.manifest = type(run.manifest)(**{
        **{name: getattr(run.manifest, name) for name in run.manifest.__slots__},
        "settings": {"rules": ["overfit"], "of_the_future": 3},
    })

    assert settings_for(run, Options())[0].rules == ("overfit",)


def test_fresh_leaves_nothing_in_the_run(call: Call, sick: Path) -> None:
    before = sorted(sick.rglob("*"))

    said = call("watch", sick, "--fresh", "--rules", "non-finite")

    assert said.lines[0].startswith("breaking  ")
    assert sorted(sick.rglob("*")) == before


def test_under_json_standard_output_belongs_to_the_summary(call: Call, sick: Path) -> None:
    said = call("watch", sick, "--json")

    assert said.json["verdict"] == "1 problem: The input data contains NaN or infinite values."
    assert [item["cause"] for item in said.json["problems"]] == ["non-finite-input"]
    assert said.json["interrupted"] is False
    assert "breaking  " in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rules", "dead-rleu"], '"dead-rleu" is not a rule. Did you mean "dead-relu"?'),
        (["--on-finding", "sotp"], 'on_finding is "sotp". Did you mean "stop"?'),
        (["--config", "nowhere.toml"], "No settings file at nowhere.toml."),
    ],
)
def test_a_wrong_setting_is_answered_with_the_nearest(
    call: Call, healthy: Path, options: list[str], message: str
) -> None:
    said = call("watch", healthy, *options)

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"barograph: {message}")


def test_once_does_not_wait_for_more(call: Call, tmp_path: Path, going_on: Callable[..., Any]) -> None:
    with going_on(tmp_path / "run"):
        said = call("watch", tmp_path / "run", "--once", "--rules", "non-finite")

    assert said.code == 0
    assert said.lines[0].startswith(f"barograph: watching {tmp_path}/run with 1 rule. Ctrl-C stops the watcher")
    assert "  state     p0 running" in said.out


def test_an_interrupt_ends_the_watching_with_the_summary_so_far(
    tmp_path: Path, going_on: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with going_on(tmp_path / "run"):
        assert watch_run(str(tmp_path / "run"), Options(rules=["non-finite"]), wait=interrupt)

    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "  watched   not to the end: it was interrupted"
    assert "No problems found in" not in said
    assert "  watched   not to the end: it was interrupted" in said
    assert (tmp_path / "run" / "watch" / "state.json").exists()


def test_who_joins_later_is_told_what_is_open(
    call: Call, tmp_path: Path, going_on: Callable[..., Any], await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    with going_on(place, rate=1e9) as (_, step):
        step()
        once = ("watch", place, "--once", "--rules", "weight-update-ratio")
        await_(lambda: call(*once, "--json").json["findings"])
        said = call(*once)

    assert said.lines[1].startswith("costly    The learning rate is too high (1e9) (since step ")


def test_a_stop_is_asked_for_where_the_run_goes_on(
    call: Call, tmp_path: Path, going_on: Callable[..., Any], await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    with going_on(place) as (_, step):
        step(poisoned=True)
        await_(lambda: barograph.open(place).steps()[-1] == 1)
        said = call("watch", place, "--once", "--rules", "non-finite", "--on-finding", "stop")

        request = read_stop(store_from_url(place), attempt=0)

    assert "barograph: asked the training to stop, because of N101 non-finite" in said.out
    assert request is not None
    assert request.finding_id.startswith("N101")


@pytest.mark.parametrize(("typed", "stops"), [((), False), (("--on-finding", "stop"), True)])
def test_a_fresh_look_stops_no_training_unless_just_that_is_typed(
    call: Call, tmp_path: Path, going_on: Callable[..., Any], await_: Callable[..., None], typed: tuple[str, ...],
    stops: bool
) -> None:
    place = tmp_path / "run"
    with going_on(place, on_finding="stop") as (_, step):
        step(poisoned=True)
        await_(lambda: barograph.open(place).steps()[-1] == 1)
        said = call("watch", place, "--once", "--fresh", "--rules", "non-finite", *typed)

        request = read_stop(store_from_url(place), attempt=0)

    assert "breaking  " in said.out
    assert (request is not None) is stops


def test_a_damaged_file_is_named_and_the_rest_is_judged(
    call: Call, sick: Path, flip: Callable[[Path], Path]
) -> None:
    victim = flip(sick)

    said = call("watch", sick)

    assert said.code == 0
    assert victim.name in said.out


# Real processes


def test_on_a_terminal_the_last_line_tells_how_far_it_is(on_terminal: Callable[..., str], copy: Path) -> None:
    shown = on_terminal("watch", copy, "--fresh")

    assert "steps evaluated" in shown
    assert "steps evaluated" not in on_terminal("watch", copy, "--fresh", "--brief")


def test_on_a_terminal_that_is_dumb_there_is_no_last_line(on_terminal: Callable[..., str], copy: Path) -> None:
    shown = on_terminal("watch", copy, "--fresh", TERM="dumb")

    assert "steps evaluated" not in shown
    assert "\x1b" not in shown


def test_where_nobody_reads_any_more_the_watching_goes_on_and_stops_the_training(
    script: Path, programs: Path, tmp_path: Path, await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    reading, writing = os.pipe()
    os.close(reading)
    with started(programs / "python", script, place, "finished", quiet=True) as training:
        await_(lambda: is_run(place), PATIENCE_SECS)
        command = [programs / "barograph", "watch", place, "--brief", "--on-finding", "stop"]
        with subprocess.Popen(command, stdout=writing, stderr=writing) as watching:
            os.close(writing)
            # Nothing but the stop ends this training.
            training.wait(PATIENCE_SECS)
            assert watching.wait(PATIENCE_SECS) == 0

    assert [str(state.standing) for state in barograph.open(place).workers] == ["stopped"]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "training.py"
    path.write_text(TRAINING)
    return path


@contextmanager
def started(*command: str | Path, quiet: bool = False, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is gone, with its pipes, when the block ends."""
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, **more,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_line(process: subprocess.Popen[str], start_of_line: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(start_of_line):
            return line
    raise AssertionError(f"it ended and never said {start_of_line}")


def release(place: Path) -> None:
    Path(f"{place}.enough").touch()


def is_run(place: Path) -> bool:
    return (place / "run.json").exists() and any(place.glob("records/*/*"))


@pytest.mark.parametrize("how", ["finished", "killed"])
def test_live_and_replay_find_the_same_and_the_watching_ends_with_the_run(
    script: Path, programs: Path, tmp_path: Path, how: str, await_: Callable[..., None], call: Call
) -> None:
    place = tmp_path / "läuft noch"
    with started(programs / "python", script, place, how, quiet=True) as training:
        await_(lambda: is_run(place), PATIENCE_SECS)
        with started(programs / "barograph", "watch", place) as watching:
            wait_for_line(watching, "breaking  ")
            release(place)
            rest, _ = watching.communicate(timeout=PATIENCE_SECS)
            training.wait(PATIENCE_SECS)

    assert watching.returncode == 0
    assert (f"  state     p0 {how} after" in rest) is (how == "killed")
    assert rest.splitlines()[-1] == f"  run       {place}"
    live = findings_of(place)
    shutil.rmtree(place / "watch")
    shutil.rmtree(place / "findings")
    call("watch", place)
    assert findings_of(place) == live
    assert len(live) == 1


def test_ctrl_c_ends_it_with_the_summary_and_leaves_the_training_alone(
    script: Path, programs: Path, tmp_path: Path, await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    with started(programs / "python", script, place, "finished", quiet=True) as training:
        await_(lambda: is_run(place), PATIENCE_SECS)
        with started(programs / "barograph", "watch", place) as watching:
            wait_for_line(watching, "breaking  ")
            watching.send_signal(signal.SIGINT)
            rest, _ = watching.communicate(timeout=PATIENCE_SECS)
        still_training = training.poll() is None
        release(place)
        training.wait(PATIENCE_SECS)

    assert watching.returncode == 130
    assert rest.rstrip().endswith("watched   not to the end: it was interrupted")
    assert "Traceback" not in rest
    assert still_training
    assert training.returncode == 0


def test_a_watcher_beside_a_training_leaves_interrupts_to_it(
    script: Path, programs: Path, tmp_path: Path, await_: Callable[..., None]
) -> None:
    place = tmp_path / "run"
    with started(programs / "python", script, place, "finished", quiet=True):
        await_(lambda: is_run(place), PATIENCE_SECS)
        with started(programs / "barograph", "watch", place, "--brief") as watching:
            wait_for_line(watching, "breaking  ")
            watching.send_signal(signal.SIGINT)
            release(place)
            rest, _ = watching.communicate(timeout=PATIENCE_SECS)

    assert watching.returncode == 0
    assert f"  run       {place}" in rest.splitlines()


def test_the_watcher_that_attach_starts_tells_its_findings_and_the_summary(script: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    with started(sys.executable, script, place, "watched", start_new_session=True) as training:
        told = wait_for_line(training, "breaking  ")
        # As the terminal does: to every process of the group.
        os.killpg(training.pid, signal.SIGINT)
        rest, _ = training.communicate(timeout=PATIENCE_SECS)

    assert "since step" in told
    assert "barograph: watching" not in rest
    assert "barograph: 1 problem found; " in rest
    assert "  state     p0 failed (KeyboardInterrupt" in rest
