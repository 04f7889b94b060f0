"""Names in any language, and parameters of any shape: kept as they were said, or refused in a sentence."""

import math
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import SettingsError
from barograph.experiments.component import Component
from barograph.experiments.experiment import Experiment
from barograph.experiments.run import Run, list_runs

NAMES = ("größe", "日本語", "שלום עולם", "مرحبا", "🦜🔥", "a/b", "../../etc/passwd", "..", ".", "C:\\x", "'quoted\"",
         "%s", "-rf", "tab\there", "x" * 1000, "🦜" * 1000, "\ud800half", "\u202eright to left")


@pytest.mark.parametrize("name", NAMES)
def test_any_name_in_one_line_is_a_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / "runs"
    made = Experiment.create(name, root=root, tags={name: name})
    trial = made.create_trial(name)
    with Run(name, experiment=name, trial=name, root=root) as run:
        run.log_parameters({name: name})
        run.log_metric(name, 1.0)
    (found,) = list_runs(root=root)
    assert Experiment.load(name, root=root).uid == made.uid
    assert [item.uid for item in found.trials] == [trial.uid]
    assert [len(found.parameters), len(found.metrics), len(found.tags)] == [1, 1, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert Path(found.place).parent == root


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "nul\0", "x" * 10_000])
def test_what_is_no_name_is_refused_wherever_one_stands(tmp_path: Path, name: Any) -> None:
    with Run("run", root=tmp_path) as run:
        for say in (lambda: run.log_parameter(name, 1), lambda: run.log_metric(name, 1),
                    lambda: run.log_input(name, "u"), lambda: run.tag(**{name: "x"})):
            with pytest.raises(SettingsError):
                say()
    with pytest.raises(SettingsError):
        Component.create(name, root=tmp_path)


def _cyclic_table() -> dict[str, Any]:
    table: dict[str, Any] = {"lr": 1}
    table["self"] = table
    return table


def _cyclic_list() -> dict[str, Any]:
    values: list[Any] = [1]
    values.append(values)
    return {"values": values}


def _deep(levels: int) -> dict[str, Any]:
    table: dict[str, Any] = {"x": 1}
    for _ in range(levels):
        table = {"t": table}
    return table


@pytest.mark.parametrize("parameters", [_cyclic_table(), _cyclic_list(), _deep(51), _deep(5000), {"x": object()},
                                        {"x": b"bytes"}, {"x": {1, 2}}], ids=range(7))
def test_what_is_no_parameter_is_refused_in_a_sentence(tmp_path: Path, parameters: dict[str, Any]) -> None:
    with Run("run", root=tmp_path) as run:
        with pytest.raises(SettingsError, match=r"^Parameter "):
            run.log_parameters(parameters)
        run.log_parameter("after", 1)
    assert list_runs(root=tmp_path)[0].parameters == {"after": 1}


def test_odd_parameters_come_back_as_they_were(tmp_path: Path) -> None:
    said = {"long": "x" * 10_000, "deep": {"a": {"b": {"c": 1}}}, math.nan: 1, 3: 2, None: 3, "empty": {}, "list": []}
    with Run("run", root=tmp_path) as run:
        run.log_parameters(said)  # type: ignore[arg-type]
    assert list_runs(root=tmp_path)[0].parameters == {
        "long": "x" * 10_000, "deep.a.b.c": 1, "nan": 1, "3": 2, "None": 3, "empty": "{}", "list": []}
