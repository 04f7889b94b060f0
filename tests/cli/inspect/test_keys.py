"""`barograph keys`: what was recorded, key by key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.queries.keys import KeyRow, without_counts

Call = Callable[..., Any]


def keys_of(place: Path) -> list[barograph.Key]:
    run = barograph.open(place)
    return run.keys()


def test_every_key_is_listed_once_a_mode(call: Call, healthy: Path) -> None:
    said = call("keys", healthy)

    assert said.code == 0
    listed = [line.split("\t")[0] for line in said.lines[1:]]
    assert set(listed) == {str(key) for key in keys_of(healthy)}
    assert said.lines[0].split()[:4] == ["key", "layer", "dtype", "mode"]
    assert [line.split()[3] for line in said.lines if line.startswith("loss:cross_entropy")] == ["eval", "train"]


def test_a_tensor_is_told_with_its_steps_and_the_figures_of_the_last(call: Call, healthy: Path) -> None:
    summary = barograph.open(healthy).summary("weight:first.weight", 39)

    row = call("keys", healthy).row("weight:first.weight")

    assert row[1:7] == ["Linear", "float32", "train", "40", "0", "39"]
    assert row[7:] == ["-", f"{summary.l2:.3g}", f"{summary.std:.3g}", "0%", "0"]


def test_a_loss_is_told_with_its_last_value(call: Call, healthy: Path) -> None:
    series = barograph.open(healthy).series("loss:total")

    row = call("keys", healthy).row("loss:total")

    assert row[1:8] == ["-", "-", "train", "40", "0", "39", f"{series.values[-1]:.3g}"]


def test_json_is_strict_and_whole(call: Call, healthy: Path) -> None:
    entries = {(entry["key"], entry["mode"]): entry for entry in call("keys", healthy, "--json").json}
    run = barograph.open(healthy)

    assert {key for key, _ in entries} == {str(key) for key in keys_of(healthy)}
    gradient = entries["gradient:last.bias", "train"]
    assert gradient["summary"]["l2"] == run.summary("gradient:last.bias", 39).l2
    assert (gradient["steps"], gradient["first_step"], gradient["last_step"]) == (40, 0, 39)
    assert entries["scalar:worst", "train"]["value"] == "inf"
    assert entries["scalar:none", "train"]["value"] is None


@pytest.mark.parametrize(("counts", "listed"), [(20, 21), (21, 1)])
def test_many_counts_of_classes_do_not_bury_the_other_keys(counts: int, listed: int) -> None:
    keys = [Key(Kind.WEIGHT, "fc"), *(Key(Kind.CONFUSION, f"cross_entropy[0,{place}]") for place in range(counts))]
    rows = [KeyRow(key, Mode.TRAIN, "", "", 1, 0, 0, False, 1.0, None) for key in keys]

    assert [row.key for row in without_counts(rows)] == keys[:listed]


def test_only_one_kind_and_paths_that_match(call: Call, healthy: Path) -> None:
    said = call("keys", healthy, "--kind", "gradient", "--path", "*.bias")

    assert [line.split()[0] for line in said.lines[1:]] == ["gradient:first.bias", "gradient:last.bias"]


def test_brackets_in_a_name_are_shown(call: Call, healthy: Path) -> None:
    assert "scalar:accuracy [val/bold]" in call("keys", healthy).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "gradent"], '"gradent" is not a kind of record. Did you mean "gradient"?'),
        (["--kind", "custom"], "Nothing of kind custom was recorded. There are: batch, "),
        (["--path", "frist.*"], 'No path matches "frist.*". Did you mean "first"?'),
        (["--kind", "loss", "--path", "x"], 'No path of kind loss matches "x". There are: cross_entropy, total.'),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    call: Call, healthy: Path, options: list[str], message: str
) -> None:
    said = call("keys", healthy, *options)

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"barograph: {message}")
    assert said.err.count("\n") == 1


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(
    call: Call, copy: Path, flip: Callable[[Path], Path]
) -> None:
    victim = flip(copy)

    said = call("keys", copy, "--json")

    assert said.code == 0
    assert said.json == [] or all(entry["steps"] < 40 for entry in said.json)
    assert victim.name in said.err
    assert f"barograph doctor {copy}" in said.err
