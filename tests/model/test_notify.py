"""Who is told: what a table may say, and that it stays out of the run."""

from __future__ import annotations

import json

import pytest

from barograph.errors import SettingsError
from barograph.model.finding import Severity
from barograph.model.launch import Launch
from barograph.model.notify import Notify, QuietHours, notify_from, notify_to_json
from barograph.model.settings import Settings, settings_from_mapping

FULL = {"to": "mailto://me:$MAIL@example.org", "name": "ops", "at_least": "costly", "rules": ["all", "-overfit"],
        "events": ["opened", "problem"], "quiet_hours": "22:00-07:30", "wake_for": "none", "digest": "15m",
        "retries": 3, "timeout": "20s"}


def test_a_table_says_who_is_told_and_when() -> None:
    assert notify_from(FULL) == Notify(
        "mailto://me:$MAIL@example.org", "ops", Severity.COSTLY, ("all", "-overfit"), ("opened", "problem"),
        QuietHours(22 * 60, 7 * 60 + 30), None, 900.0, 3, 20.0,
    )


def test_it_comes_back_as_it_goes_to_another_process() -> None:
    for notify in (notify_from(FULL), Notify("$HOOK")):
        assert notify_from(json.loads(json.dumps(notify_to_json(notify)))) == notify


def test_a_url_alone_is_enough() -> None:
    assert settings_from_mapping({"notify": ["$HOOK", {"to": "$MAIL"}]}).notify == (Notify("$HOOK"), Notify("$MAIL"))
    assert settings_from_mapping({"notify": "$HOOK"}).notify == (Notify("$HOOK"),)


def test_nothing_of_it_goes_into_a_run_or_to_the_training() -> None:
    settings = Settings(notify=(Notify("https://example.org/hush-hush"),))

    assert "hush" not in json.dumps(settings.to_json()) + Launch(settings, 0).to_text() + repr(settings)


@pytest.mark.parametrize(("table", "message"), [
    ({"to": "x", "at_leest": "note"}, 'Did you mean "at_least"'),
    ({"to": "x", "at_least": "bad"}, "There are: breaking, costly, doubtful, note"),
    ({"to": "x", "events": ["open"]}, 'no event "open". Did you mean "opened"'),
    ({"to": "x", "digest": "15 mintes"}, 'Did you mean "minutes"'),
    ({"to": "x", "quiet_hours": "22-7"}, "two times of the day"),
    ({"to": "x", "quiet_hours": "24:00-07:00"}, "two times of the day"),
    ({"to": "x", "quiet_hours": "07:00-07:00"}, "an empty period"),
    ({"to": "x", "retries": -1}, "at least 0"),
    ({"to": "x", "retries": True}, "an integer"),
    ({"to": "x", "timeout": 0}, "above 0"),
    ({"to": "x", "rules": 3}, "list of strings"),
    ({"to": "x", "name": 3}, "must be a string"),
    ({"at_least": "note"}, "has no receiver"),
    ({"to": "  "}, "has no receiver"),
    (3, "must be tables"),
])
def test_what_is_wrong_is_named(table: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings_from_mapping({"notify": [table]})


@pytest.mark.parametrize(("minute", "left"), [
    (21 * 60 + 59, 0), (22 * 60, 540), (0, 420), (6 * 60 + 59, 1), (7 * 60, 0), (12 * 60, 0),
])
def test_a_night_goes_over_midnight(minute: int, left: float) -> None:
    assert QuietHours(22 * 60, 7 * 60).left_minutes(minute) == left


def test_an_afternoon_does_not() -> None:
    nap = QuietHours(13 * 60, 14 * 60)

    assert [nap.left_minutes(60 * hour) for hour in (12, 13, 13.5, 14, 23)] == [0, 60, 30, 0, 0]
