"""Real repositories, made by the tests."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Repository:
    """A git repository with one commit of one file, `train.py`."""

    root: Path

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def commit(self, message: str = "more") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")


def new_repository(root: Path) -> Repository:
    root.mkdir(parents=True, exist_ok=True)
    made = Repository(root)
    made.git("init", "--quiet", "--initial-branch", "trunk")
    made.write("train.py", "print(1)\nprint(2)\nprint(3)\n")
    made.commit("first")
    return made


def isolate_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the git settings of this machine from deciding what a test sees."""
    settings = folder / "gitconfig"
    settings.write_text("[user]\nname = somebody\nemail = somebody@example.org\n[protocol \"file\"]\nallow = always\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
