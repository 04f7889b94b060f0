"""A store in memory for each test."""

from __future__ import annotations

import secrets

import pytest

from barograph.store.base import Store
from barograph.store.urls import store_from_url


@pytest.fixture
def store() -> Store:
    return store_from_url(f"memory://watch-{secrets.token_hex(8)}")
