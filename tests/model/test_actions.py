"""What may be done about a finding, as settings say it."""

from __future__ import annotations

import pytest

from barograph.errors import SettingsError
from barograph.model.actions import ActionName, ActionSettings, LowerLr, SkipStep, actions_from
from barograph.model.settings import Settings, settings_from_mapping


def test_actions_are_named_with_hyphens_or_not() -> None:
    assert actions_from("actions", "lower_lr, stop,stop") == (ActionName.LOWER_LR, ActionName.STOP)
    assert actions_from("actions", {"skip_step", "lower_lr"}) == (ActionName.LOWER_LR, ActionName.SKIP_STEP)
    assert actions_from("actions", []) == ()


def test_settings_of_actions_come_back_from_json() -> None:
    settings = Settings(on_finding="lower-lr", allow=(ActionName.LOWER_LR,), action_settings=ActionSettings(
        LowerLr(0.1, 5, 1e-6), SkipStep(3, 2)))

    assert settings_from_mapping(settings.to_json()) == settings


def test_a_table_sets_how_one_is_done() -> None:
    settings = settings_from_mapping({"on_finding": "lower_lr", "allow": "lower_lr", "action_settings": {
        "lower_lr": {"factor": 0.1}}})

    assert (settings.on_finding, settings.allow) == ("lower-lr", (ActionName.LOWER_LR,))
    assert settings.action_settings.lower_lr == LowerLr(0.1)


@pytest.mark.parametrize(("data", "message"), [
    ({"on_finding": "lower-rl"}, 'Did you mean "lower-lr"'),
    ({"allow": ["stop"]}, "There are: lower-lr, skip-step"),
    ({"allow": 3}, "list of actions"),
    ({"action_settings": {"stop": {}}}, "not an action with settings"),
    ({"action_settings": {"lower-lr": 3}}, "must be a table"),
    ({"action_settings": 3}, "must be tables"),
    ({"action_settings": {"lower-lr": {"facto": 0.1}}}, 'Did you mean "factor"'),
    ({"action_settings": {"lower-lr": {"factor": 1}}}, "above 0 and below 1"),
    ({"action_settings": {"lower-lr": {"factor": "0.1"}}}, "must be a number"),
    ({"action_settings": {"lower-lr": {"floor": -1}}}, "at least 0"),
    ({"action_settings": {"lower-lr": {"at_most": 0}}}, "at least 1"),
    ({"action_settings": {"skip-step": {"steps": 1.5}}}, "integer"),
])
def test_what_is_wrong_is_named(data: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_from_mapping(data)
