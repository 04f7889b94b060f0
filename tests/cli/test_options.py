"""Options that are typed, on top of what the file says."""

from __future__ import annotations

import pytest

from barograph.cli.options import on_top_of, tables_set
from barograph.errors import SettingsError
from barograph.model.checkpoints import CheckpointSettings
from barograph.model.settings import Settings


def test_a_part_of_the_checkpoints_is_set_beside_what_the_file_says() -> None:
    base = Settings(checkpoints=CheckpointSettings(every_steps=10, keep=2))
    settings = on_top_of(base, tables_set(["checkpoints.keep=5"]))
    assert settings.checkpoints == CheckpointSettings(every_steps=10, keep=5)


def test_whoever_sets_a_part_of_the_checkpoints_has_begun_them() -> None:
    assert on_top_of(Settings(), tables_set(["checkpoints.auto=true"])).checkpoints == CheckpointSettings(auto=True)


def test_a_wrong_part_is_told_by_its_name() -> None:
    with pytest.raises(SettingsError, match="kept"):
        on_top_of(Settings(), tables_set(["checkpoints.kept=5"]))
