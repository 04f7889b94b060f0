"""Git as nobody has set it up, and a repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from repositories import Repository, new_repository


@pytest.fixture(autouse=True)
def own_git_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that this machine's own settings of git say decides what these tests see."""
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = somebody\nemail = somebody@example.org\n[protocol \"file\"]\nallow = always\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return new_repository(tmp_path / "repository")
