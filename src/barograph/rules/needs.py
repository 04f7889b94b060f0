"""What the rules of a run need, known without loading the built-in rules.

    python -m barograph.rules.needs

writes `needs.json`, the needs of all built-in rules. Loading the rules takes longer than starting a job.
"""

from __future__ import annotations

import json
from pathlib import Path

from barograph.model.selection import Selection
from barograph.model.settings import Settings, selection_from_mapping, selection_to_json
from barograph.plugins import installed_plugins, is_ours
from barograph.rules.registry import GROUP, needs_of, rules_from_settings

_FILE = Path(__file__).with_name("needs.json")


def needs_from_settings(settings: Settings) -> tuple[Selection, ...]:
    """Return the needs of the rules that the settings select.

    Raises:
        UnknownName, SettingsError, BadRule: As `rules_from_settings`.
    """
    if settings.rules == Settings().rules and not settings.rule_settings and _only_built_in():
        return tuple(selection_from_mapping("", need) for need in json.loads(_FILE.read_text("utf-8")))
    return needs_of(rules_from_settings(settings))


def needs_text() -> str:
    """Return what `needs.json` must contain."""
    from barograph.rules.builtin import RULES  # loaded here: this module is for who does not load the rules

    needs = needs_of(rule() for rule in sorted(RULES, key=lambda item: item.code))
    return "[\n" + ",\n".join(json.dumps(selection_to_json(need)) for need in needs) + "\n]\n"


def _only_built_in() -> bool:
    points, problems = installed_plugins(GROUP)
    return not problems and bool(points) and all(map(is_ours, points))


if __name__ == "__main__":
    _FILE.write_text(needs_text(), "utf-8")
