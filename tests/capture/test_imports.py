"""Modules are waited for as they are imported, and nothing is left in the import system afterwards."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barograph.capture import armed, imports
from barograph.capture.imports import after_import, forget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "wanted_one.py").write_text("import other_one\nvalue = 1\n")
    (tmp_path / "other_one.py").write_text("value = 2\n")
    (tmp_path / "broken_one.py").write_text("raise ValueError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("wanted_one", "other_one", "broken_one"):
        sys.modules.pop(name, None)
    assert imports._finder not in sys.meta_path


def test_it_is_done_when_the_module_has_been_loaded(folder: Path) -> None:
    seen: list[int] = []
    after_import("wanted_one", lambda: seen.append(sys.modules["wanted_one"].value))
    importlib.import_module("other_one")
    assert seen == []
    importlib.import_module("wanted_one")
    assert seen == [1]


def test_it_is_done_at_once_where_the_module_is_there(folder: Path) -> None:
    importlib.import_module("wanted_one")
    seen: list[str] = []
    after_import("wanted_one", lambda: seen.append("now"))
    assert seen == ["now"]


def test_what_waits_within_another_import_hears_both(folder: Path) -> None:
    seen: list[str] = []

    def first() -> None:
        seen.append("other")
        # Its import goes on: what is asked for now is heard at its end.
        after_import("wanted_one", lambda: seen.append("wanted"))

    def nothing() -> None:
        raise AssertionError("it was forgotten")

    after_import("wanted_one", nothing)
    after_import("other_one", first)
    after_import("other_one", lambda: forget(nothing))
    importlib.import_module("wanted_one")
    assert seen == ["other", "wanted"]


def test_a_module_that_fails_fails_as_ever_and_is_not_told_of(folder: Path) -> None:
    seen: list[str] = []

    def action() -> None:
        seen.append("broken")

    after_import("broken_one", action)
    with pytest.raises(ValueError, match="no"):
        importlib.import_module("broken_one")
    assert seen == []
    forget(action)


def test_the_loader_is_left_as_it_was(folder: Path) -> None:
    after_import("wanted_one", lambda: None)
    module = importlib.import_module("wanted_one")
    assert module.__spec__ is not None
    assert "exec_module" not in vars(module.__spec__.loader)
    seen: list[str] = []
    importlib.reload(module)
    assert seen == []


def test_what_is_armed_begins_once_with_the_first_of_its_modules(folder: Path) -> None:
    seen: list[str] = []
    armed.arm(lambda: seen.append("begun"), ("other_one", "wanted_one"))
    importlib.import_module("wanted_one")
    armed.begin_if_armed()
    assert seen == ["begun"]
