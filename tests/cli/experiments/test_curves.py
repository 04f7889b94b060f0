"""`barograph curves` and `barograph gc`, as typed."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.experiments.run import Run

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two runs, of which one has epochs and a number that is none."""
    for name, count in (("short", 3), ("long", 5)):
        with Run(name, root=tmp_path / "runs", tags={"length": name}) as run:
            for step in range(count):
                run.log_metric("loss", math.nan if name == "long" and step == 1 else 1 / (step + 1), step=2 * step)
                if name == "long":
                    run.log_metric("epoch", step // 2, step=2 * step)
    return tmp_path / "runs"


def test_a_line_for_each_run(call: Call, root: Path) -> None:
    lines = call("curves", "loss", "short", "long", "--root", root).out.splitlines()
    assert lines[0].split() == ["run", "points", "first", "last", "min", "max", "step"]
    assert lines[1].split() == ["short", "3", "1", "0.333", "0.333", "1", "0", "to", "4"]
    assert lines[2].split()[:2] == ["long", "5"]


def test_all_points_as_csv_on_one_axis(call: Call, root: Path) -> None:
    rows = list(csv.reader(io.StringIO(call("curves", "loss", "short", "long", "--csv", "--root", root).out)))
    assert rows[0] == ["step", "short", "long"]
    assert [row[:2] for row in rows[1:]] == [
        ["0", "1"], ["2", "0.5"], ["4", "0.3333333333333333"], ["6", ""], ["8", ""],
    ]
    assert [row[2] for row in rows[1:]] == ["1", "", "0.3333333333333333", "0.25", "0.2"]


def test_all_points_as_json_of_what_a_search_finds(call: Call, root: Path) -> None:
    found = call("curves", "loss", "--search", "tags.length = 'long'", "--by", "epoch", "--json", "--root", root).json
    assert (found["by"], found["at"], list(found["curves"])) == ("epoch", [0.0, 1.0, 2.0], ["long"])


def test_who_lacks_the_metric_is_said_and_the_rest_is_shown(call: Call, root: Path) -> None:
    said = call("curves", "epoch", "short", "long", "--root", root)
    assert 'no metric "epoch"' in said.err
    assert [line.split()[0] for line in said.out.splitlines()] == ["run", "long"]
    assert 'Did you mean "loss"' in call("curves", "los", "short", "--root", root).err
    assert "--by is" in call("curves", "loss", "short", "--by", "week", "--root", root).err
    assert "name at least one run" in call("curves", "loss", "--root", root).err


@pytest.mark.parametrize("command", ["keys", "show"])
def test_every_name_that_is_printed_can_be_asked_for(call: Call, healthy: Path, command: str) -> None:
    names = ([item["key"] for item in call("keys", healthy, "--json").json] if command == "keys"
             else [line.split(": ")[0].strip() for line in call("show", healthy).lines if re.match(r"  \w+:\S", line)])
    assert names

    for name in {name.partition(":")[0]: name for name in names}.values():
        said = call("curves", name, healthy)
        assert (said.code, said.err) == (0, ""), name


def test_of_a_tensor_the_norm_is_shown(call: Call, healthy: Path) -> None:
    norms = barograph.open(healthy).series("weight:first.weight", "l2").values.tolist()

    assert list(call("curves", "weight:first.weight", healthy, "--json").json["curves"].values()) == [norms]


def test_runs_are_compared_by_a_key_too(call: Call, root: Path) -> None:
    assert call("compare", "short", "long", "--metric", "scalar:loss.last", "--root", root).out.count("loss.") == 1


def test_an_unknown_key_is_answered_with_the_nearest(call: Call, healthy: Path) -> None:
    assert 'Did you mean "weight:first.weight"' in call("curves", "weight:first.wieght", healthy).err


def test_a_place_elsewhere_is_a_run_too(call: Call, root: Path) -> None:
    [place] = [path.parent for path in root.glob("*short*/run.json")]
    assert call("curves", "loss", place, "--json").json["curves"]["short"][0] == 1.0


def test_what_nobody_has_is_named_before_it_is_deleted(call: Call, root: Path) -> None:
    orphan = root / ".catalog" / "artifacts" / "ab" / f"sha256-ab{'0' * 62}"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"12345")
    assert "Nothing to delete" in call("gc", "--root", root).out
    os.utime(orphan, (1, 1))
    assert "delete with --yes" in call("gc", "--root", root).out
    assert call("gc", "--root", root, "--json").json["unwanted"][0]["digest"] == f"sha256:ab{'0' * 62}"
    assert orphan.exists()
    assert "deleted: 1 artifact, 5 B freed" in call("gc", "--root", root, "--yes").out
    assert not orphan.exists()
    assert "it must be at least 1h" in call("gc", "--root", root, "--grace", "1s").err
