"""Options that are typed, on top of what the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli.options import default_config, on_top_of, settings_from_options, tables_set
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


def test_what_has_the_name_of_the_settings_file_is_not_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_config() == ""
    (tmp_path / "barograph.toml").mkdir()

    assert default_config() == "barograph.toml"
    with pytest.raises(SettingsError, match="The settings file is a directory"):
        settings_from_options({}, None)
