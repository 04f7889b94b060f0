"""All runs below a directory are watched by one command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TRAINING = """
import sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
x, y = torch.randn(32, 4), torch.arange(32) % 3
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    if step == 7 and sys.argv[1:] == ["nan"]:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
"""

RULE = '''
import itertools
import os
from dataclasses import dataclass
import barograph


@dataclass(frozen=True, kw_only=True)
class Hangs(barograph.Rule):
    code, name, severity = "X901", "hangs", barograph.Severity.NOTE
    needs = (barograph.Selection(kinds=frozenset({barograph.Kind.LOSS})),)

    def judge(self, view, memory):
        print("printed by a rule")
        for _ in itertools.repeat(None):
            pass
'''


def barograph(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "barograph", *arguments], cwd=cwd, capture_output=True, text=True,
                          check=False, timeout=600)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    (folder / "train.py").write_text(TRAINING, encoding="utf-8")
    (folder / "hanging.py").write_text(RULE, encoding="utf-8")
    for place, argument in (("runs/team/sound", "ok"), ("runs/sick", "nan")):
        done = barograph("run", "--no-live", "--to", place, "--rules", "none", "train.py", argument, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def codes(verdicts: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {item["name"]: sorted({finding["code"] for finding in item["findings"]}) for item in verdicts}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_all_runs_are_evaluated_and_summarized(root: Path, processes: str) -> None:
    done = barograph("watch", "runs", "--all", "--once", "--fresh", "--rules", "N101", "--json",
                     "--processes", processes, cwd=root)
    assert done.returncode == 0, done.stderr
    assert codes(json.loads(done.stdout)) == {"sick": ["N101"], "team/sound": []}
    assert "sick: breaking" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="processes of Windows are not sent Ctrl-C one by one")
def test_an_interrupt_to_the_service_alone_ends_all_its_processes(desk: Any, root: Path) -> None:
    service = desk.start("barograph", "watch", root / "runs", "--all", "--fresh", "--rules", "N101", "--json",
                         "--processes", "2")
    for _ in range(2):
        desk.read_until(service.stderr, b" is watched\n")
    service.send_signal(signal.SIGINT)
    ended = desk.end(service)
    assert ended.code == 130
    assert codes(json.loads(ended.out)) == {"sick": ["N101"], "team/sound": []}


def test_each_run_has_a_line_of_text(root: Path) -> None:
    done = barograph("watch", "runs", "--all", "--once", "--fresh", "--rules", "N101", cwd=root)
    assert "2 runs watched." in done.stdout
    assert "team/sound  ended, 20 steps evaluated, no problems" in done.stdout


def test_a_rule_that_hangs_is_removed_and_does_not_print_into_json(root: Path) -> None:
    (root / "short.toml").write_text('rule_timeout_secs = "1s"\n', encoding="utf-8")
    done = barograph("watch", "runs/sick", "--fresh", "--rules", "N101,hanging:Hangs", "--config", "short.toml",
                     "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [finding["code"] for finding in summary["findings"]] == ["N101"]
    assert "The rule X901 hangs is not used any more: it took longer than 1 s over one step." in summary["warnings"]
    assert "printed by a rule" in done.stderr


def test_rules_spread_over_processes_find_the_same(root: Path) -> None:
    said = [
        json.loads(barograph("watch", "runs/sick", "--fresh", "--json", "--rules", "all", "--processes", processes,
                             cwd=root).stdout)
        for processes in ("1", "3")
    ]
    assert said[0]["findings"]
    assert [item["id"] for item in said[0]["findings"]] == [item["id"] for item in said[1]["findings"]]
    assert said[0]["not_evaluated"] == said[1]["not_evaluated"]


def test_two_runs_are_compared(root: Path) -> None:
    done = barograph("watch", "runs/sick", "--against", "runs/team/sound", "--fresh", "--json", cwd=root)
    assert done.returncode == 0, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["code"] == "R101"
    assert finding["message"].startswith("Step 7 is the first that differs from ")
    same = barograph("watch", "runs/sick", "--against", "runs/sick", "--fresh", "--json", "--processes", "2", cwd=root)
    assert json.loads(same.stdout)["findings"] == json.loads(same.stdout)["not_evaluated"] == []


@pytest.mark.parametrize(("arguments", "says"), [
    (("watch", "runs/sick", "--against", "runs/none"), "No run at runs/none"),
    (("watch", "runs", "--all", "--against", "runs/sick"), "--against works for one run"),
    (("watch", "runs", "--all", "--brief"), "--brief works for one run"),
    (("watch", "runs", "--all", "--processes", "0", "--once"), "processes is 0"),
    (("watch", "runs", "--all", "--part", "4/2"), "write it as 0/4"),
    (("watch", "runs", "--all", "--rules", "dead-rleu", "--once"), 'Did you mean "dead-relu"?'),
])
def test_contradictory_options_are_an_error(root: Path, arguments: tuple[str, ...], says: str) -> None:
    done = barograph(*arguments, cwd=root)
    assert done.returncode == 2
    assert says in done.stderr
