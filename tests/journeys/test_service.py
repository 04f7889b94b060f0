"""All runs below a directory are watched by one command."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from forking import TORCH

FORKED = TORCH

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


def barograph(root: Any, *words: str) -> Any:
    return root.end(root.start("barograph", *words))


@pytest.fixture(scope="module")
def root(make_desk: Callable[[str], Any]) -> Any:
    root = make_desk("service")
    root.write("train.py", TRAINING)
    root.write("hanging.py", RULE)
    for place, argument in (("runs/team/sound", "ok"), ("runs/sick", "nan")):
        done = barograph(root, "run", "--no-live", "--to", place, "--rules", "none", "train.py", argument)
        assert done.code == 0, done.err
    return root


def codes(verdicts: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {item["name"]: sorted({finding["code"] for finding in item["findings"]}) for item in verdicts}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_all_runs_are_evaluated_and_summarized(root: Any, processes: str) -> None:
    done = barograph(root, "watch", "runs", "--all", "--once", "--fresh", "--rules", "N101", "--json",
                     "--processes", processes)
    assert done.code == 0, done.err
    assert codes(json.loads(done.text)) == {"sick": ["N101"], "team/sound": []}
    assert "sick: breaking" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="processes of Windows are not sent Ctrl-C one by one")
def test_an_interrupt_to_the_service_alone_ends_all_its_processes(desk: Any, root: Any) -> None:
    service = desk.start("barograph", "watch", root.folder / "runs", "--all", "--fresh", "--rules", "N101", "--json",
                         "--processes", "2")
    for _ in range(2):
        desk.read_until(service.stderr, b" is watched\n")
    service.send_signal(signal.SIGINT)
    ended = desk.end(service)
    assert ended.code == 130
    assert codes(json.loads(ended.out)) == {"sick": ["N101"], "team/sound": []}


def test_each_run_has_a_line_of_text(root: Any) -> None:
    done = barograph(root, "watch", "runs", "--all", "--once", "--fresh", "--rules", "N101")
    assert "2 runs watched." in done.text
    assert "team/sound  ended, 20 steps evaluated, no problems" in done.text


def test_a_rule_that_hangs_is_removed_and_does_not_print_into_json(root: Any) -> None:
    root.write("short.toml", 'rule_timeout_secs = "1s"\n')
    done = barograph(root, "watch", "runs/sick", "--fresh", "--rules", "N101,hanging:Hangs", "--config", "short.toml",
                     "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.text)
    assert [finding["code"] for finding in summary["findings"]] == ["N101"]
    assert "The rule X901 hangs is not used any more: it took longer than 1 s over one step." in summary["warnings"]
    assert "printed by a rule" in done.err


def test_rules_spread_over_processes_find_the_same(root: Any) -> None:
    said = [
        json.loads(barograph(root, "watch", "runs/sick", "--fresh", "--json", "--rules", "all", "--processes",
                             processes).text)
        for processes in ("1", "3")
    ]
    assert said[0]["findings"]
    assert [item["id"] for item in said[0]["findings"]] == [item["id"] for item in said[1]["findings"]]
    assert said[0]["not_evaluated"] == said[1]["not_evaluated"]


def test_two_runs_are_compared(root: Any) -> None:
    done = barograph(root, "watch", "runs/sick", "--against", "runs/team/sound", "--fresh", "--json")
    assert done.code == 0, done.err
    (finding,) = json.loads(done.text)["findings"]
    assert finding["code"] == "R101"
    assert finding["message"].startswith("Step 7 is the first that differs from ")
    same = barograph(root, "watch", "runs/sick", "--against", "runs/sick", "--fresh", "--json", "--processes", "2")
    assert json.loads(same.text)["findings"] == json.loads(same.text)["not_evaluated"] == []


@pytest.mark.parametrize(("arguments", "says"), [
    (("watch", "runs/sick", "--against", "runs/none"), "No run at runs/none"),
    (("watch", "runs", "--all", "--against", "runs/sick"), "--against works for one run"),
    (("watch", "runs", "--all", "--brief"), "--brief works for one run"),
    (("watch", "runs", "--all", "--processes", "0", "--once"), "processes is 0"),
    (("watch", "runs", "--all", "--part", "4/2"), "write it as 0/4"),
    (("watch", "runs", "--all", "--rules", "dead-rleu", "--once"), 'Did you mean "dead-relu"?'),
])
def test_contradictory_options_are_an_error(root: Any, arguments: tuple[str, ...], says: str) -> None:
    done = barograph(root, *arguments)
    assert done.code == 2
    assert says in done.err
