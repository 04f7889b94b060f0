"""Git as nobody has set it up, and a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from repositories import Repository, isolate_git, new_repository


@pytest.fixture(autouse=True)
def own_git_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate_git(tmp_path, monkeypatch)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "repository")
