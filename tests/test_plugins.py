"""Plugins are found by the metadata of installed packages; a package that is broken disturbs no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barograph.plugins import installed_plugins, is_ours, package_of
from packages import install

GROUP = "barograph.integrations"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_ours_come_first_and_those_of_others_name_their_package(folder: Path) -> None:
    install(folder, "theirs", f"[{GROUP}]\nabacus = theirs.listener:listen\n")
    points, problems = installed_plugins(GROUP)
    assert problems == ()
    assert [is_ours(point) for point in points] == [True] * (len(points) - 1) + [False]
    assert (points[-1].name, points[-1].value, package_of(points[-1])) == ("abacus", "theirs.listener:listen", "theirs")


def test_a_package_whose_entry_points_are_no_entry_points_is_one_problem_that_names_it(folder: Path) -> None:
    install(folder, "broken", f"[{GROUP}]\nno equals sign\n")
    install(folder, "theirs", f"[{GROUP}]\nabacus = theirs.listener:listen\n")
    points, problems = installed_plugins(GROUP)
    assert [point.name for point in points if not is_ours(point)] == ["abacus"]
    assert len(problems) == 1
    assert "package broken " in problems[0]


def test_a_package_whose_entry_points_are_no_text_is_one_problem_that_names_it(folder: Path) -> None:
    (install(folder, "binary", "") / "entry_points.txt").write_bytes(b"[barograph.integrations]\n\xff\xfe")
    points, problems = installed_plugins(GROUP)
    assert [point for point in points if not is_ours(point)] == []
    assert len(problems) == 1
    assert "package binary " in problems[0]


def test_a_package_without_a_name_is_named_by_its_folder(folder: Path) -> None:
    metadata = install(folder, "nameless", f"[{GROUP}]\nno equals sign\n")
    (metadata / "METADATA").unlink()
    assert "nameless-1.0.dist-info" in installed_plugins(GROUP).problems[0]


def test_a_package_that_is_found_twice_counts_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("first", "second"):
        install(folder / place, "theirs", f"[{GROUP}]\nabacus = theirs.listener:listen\n")
        monkeypatch.syspath_prepend(str(folder / place))
    assert [point.name for point in installed_plugins(GROUP).points if not is_ours(point)] == ["abacus"]


def test_metadata_of_ours_that_is_older_than_the_code_is_reported() -> None:
    assert installed_plugins("barograph.no_such_group").problems == (
        "the installed metadata of Barograph has no barograph.no_such_group: it is older than the code. Reinstall "
        "Barograph",)


@pytest.mark.parametrize("call", [
    "from barograph.capture.integrations import installed_integrations as found; found()",
    "from barograph.plugins import installed_plugins as found; found('barograph.rules')",
])
def test_finding_plugins_imports_none_of_them(call: str) -> None:
    code = f"import sys; {call}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    loaded = set(done.stdout.split())
    assert loaded & {"torch", "keras", "jax", "xgboost", "lightgbm", "sklearn", "lightning", "transformers"} == set()
    assert not any(name.endswith("listener") or name.startswith("barograph.rules") for name in loaded)
