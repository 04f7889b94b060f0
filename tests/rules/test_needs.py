"""The needs of the built-in rules are known without loading them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from barograph.model.settings import Settings
from barograph.rules import needs
from barograph.rules.needs import needs_from_settings, needs_text
from barograph.rules.registry import needs_of, rules_from_settings


def test_the_file_holds_the_needs_of_the_built_in_rules() -> None:
    assert Path(needs.__file__).with_name("needs.json").read_text("utf-8") == needs_text(), \
        "run: python -m barograph.rules.needs"


def test_the_needs_are_those_of_the_selected_rules() -> None:
    for settings in (Settings(), Settings(rules=("N101", "A101")), Settings(rules=("none",)),
                     Settings(rule_settings={"non-finite": {"enabled": False}})):
        assert needs_from_settings(settings) == needs_of(rules_from_settings(settings))


def test_a_run_with_the_default_rules_loads_none_of_them() -> None:
    code = ("import sys\nfrom barograph.model.settings import Settings\nfrom barograph.rules.needs import "
            "needs_from_settings\nprint(len(needs_from_settings(Settings())), "
            "'barograph.rules.builtin' in sys.modules, 'numpy' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    number, *loaded = done.stdout.split()
    assert int(number) > 10
    assert loaded == ["False", "False"]
