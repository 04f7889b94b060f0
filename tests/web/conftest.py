"""Runs on disk, and an application that serves them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.web.app import application
from diary import finding as finding
from web_client import Client, recorded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    recorded(tmp_path / "runs" / "first", [3.0, 2.0, 1.0])
    recorded(tmp_path / "runs" / "group" / "second", [3.0, float("nan"), 2.5])
    return tmp_path / "runs"


@pytest.fixture
def client(root: Path) -> Client:
    return Client(application([str(root)], hosts=["127.0.0.1", "localhost", "[::1]"]))
