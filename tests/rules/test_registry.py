"""Rules are found through entry points or by module:Class, and a wrong name is helped."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from barograph.errors import BadRule, SettingsError, UnknownName
from barograph.model.actions import ActionName
from barograph.model.finding import Severity
from barograph.model.key import Kind
from barograph.model.selection import Selection, every
from barograph.model.settings import Settings, settings_from_mapping
from barograph.rules.base import Rule, severity_set
from barograph.rules.builtin import RULES
from barograph.rules.numbers import NonFinite
from barograph.rules.registry import (
    GROUP,
    Catalog,
    actions_by_rule,
    catalog_from_entry_points,
    check_capsule_on,
    codes_of,
    installed,
    needs_of,
    rules_from_settings,
)

BUILT_IN = EntryPoint("builtin", "barograph.rules.builtin", GROUP)


def rule_class(code: str, name: str, need: Selection = Selection(kinds=frozenset({Kind.LOSS}))) -> type[Rule]:  # noqa: B008
    body = {"code": code, "name": name, "severity": Severity.NOTE, "needs": (need,), "judge": lambda *_: ()}
    return type(name.title().replace("-", ""), (Rule,), {**body, "__module__": "plugin"})


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("plugin")
    monkeypatch.setitem(sys.modules, "plugin", module)
    return module


def test_the_installed_package_brings_its_rules_through_its_entry_point() -> None:
    catalog = installed()

    assert set(RULES) <= set(catalog.classes)
    assert catalog.problems == ()


def test_an_entry_point_may_lead_to_a_module_or_to_an_iterable_of_rules(plugin: ModuleType) -> None:
    plugin.TooLoud = rule_class("X901", "too-loud")
    plugin.more = [rule_class("X902", "too-soft")]
    points = [EntryPoint("a", "plugin", GROUP), EntryPoint("b", "plugin:more", GROUP), BUILT_IN]

    codes = [item.code for item in catalog_from_entry_points(points).classes]

    assert codes == sorted([*(item.code for item in RULES), "X901", "X902"])


def test_a_package_whose_rules_cannot_be_loaded_is_named_and_the_others_stay() -> None:
    catalog = catalog_from_entry_points([EntryPoint("broken", "no_such_module", GROUP), BUILT_IN])

    assert catalog.classes == tuple(sorted(RULES, key=lambda item: item.code))
    assert catalog.problems == (
        "the rules of broken (no_such_module) cannot be loaded: "
        "ModuleNotFoundError: No module named 'no_such_module'",
    )


def test_a_class_that_breaks_the_contract_is_named_and_left_out(plugin: ModuleType) -> None:
    plugin.RULES = (rule_class("bad", "too-loud"), rule_class("X902", "too-soft"))

    catalog = catalog_from_entry_points([EntryPoint("a", "plugin", GROUP)])

    assert [item.code for item in catalog.classes] == ["X902"]
    assert "plugin.TooLoud.code is 'bad'" in catalog.problems[0]


def test_of_two_rules_with_one_code_ours_stays_and_the_other_is_named(plugin: ModuleType) -> None:
    plugin.RULES = (rule_class("N101", "too-loud"),)

    catalog = catalog_from_entry_points([EntryPoint("a", "plugin", GROUP), BUILT_IN])

    assert NonFinite in catalog.classes
    assert catalog.problems == (
        ("plugin:TooLoud is ignored: N101 too-loud is already used by barograph.rules.numbers:NonFinite (N101 "
         "non-finite)"),
    )


def test_all_stands_for_every_rule_and_a_minus_takes_one_away(plugin: ModuleType) -> None:
    catalog = Catalog((rule_class("X901", "too-loud"), rule_class("X902", "too-soft")))

    chosen = rules_from_settings(Settings(rules=("all", "-too-soft")), catalog=catalog)

    assert [rule.code for rule in chosen] == ["X901"]
    assert rules_from_settings(Settings(rules=("none",)), catalog=catalog) == ()


@pytest.mark.parametrize("name", ["N101", "non-finite", "NonFinite"])
def test_a_rule_goes_by_its_code_its_name_and_its_class(name: str) -> None:
    assert rules_from_settings(Settings(rules=(name,))) == (NonFinite(),)


@pytest.mark.parametrize("name", ["N101", "non-finite"])
def test_parameters_are_set_under_the_code_or_the_name(name: str) -> None:
    settings = Settings(rules=("N101",), rule_settings={name: {"only_nan": True}})

    assert rules_from_settings(settings) == (NonFinite(only_nan=True),)


def test_a_wrong_parameter_is_an_error_at_once() -> None:
    with pytest.raises(SettingsError, match=r"non-finite\.only_nan is 3; it must be true or false"):
        rules_from_settings(Settings(rules=("all",), rule_settings={"N101": {"only_nan": 3}}))


def test_a_rule_that_does_not_exist_brings_up_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r'"non-finit" is not a rule\. Did you mean "non-finite"\?'):
        rules_from_settings(Settings(rules=("non-finit",)))


def test_settings_for_a_rule_that_does_not_exist_are_an_error() -> None:
    with pytest.raises(UnknownName, match='"N1O1" is not a rule'):
        rules_from_settings(Settings(rule_settings={"N1O1": {"only_nan": True}}))
    with pytest.raises(UnknownName, match=r'"rules.N101" is not a rule\. Did you mean "N101"\?'):
        rules_from_settings(Settings(rule_settings={"rules.N101": {"only_nan": True}}))


def test_a_rule_of_the_users_own_is_found_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loudness_rules.py").write_text(
        "from barograph.rules.numbers import NonFinite\n"
        "class Louder(NonFinite):\n"
        "    code, name = 'X903', 'louder'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    chosen = rules_from_settings(Settings(rules=("all", "loudness_rules:Louder")))

    assert chosen[-1].name == "louder"
    assert len(chosen) == len(RULES) + 1


def test_a_rule_of_the_users_own_that_cannot_be_used_is_an_error(plugin: ModuleType) -> None:
    plugin.NotFinite = rule_class("N101", "not-finite")
    plugin.number = 3

    with pytest.raises(BadRule, match=r"plugin:NotFinite uses the code N101 of barograph\."):
        rules_from_settings(Settings(rules=("plugin:NotFinite",)))
    with pytest.raises(UnknownName, match=r'plugin has no "NotFinit"\. Did you mean "NotFinite"\?'):
        rules_from_settings(Settings(rules=("plugin:NotFinit",)))
    with pytest.raises(BadRule, match="3 is not a rule"):
        rules_from_settings(Settings(rules=("plugin:number",)))
    with pytest.raises(BadRule, match="the module nowhere of the rule nowhere:Rule cannot be loaded"):
        rules_from_settings(Settings(rules=("nowhere:Rule",)))


def test_needs_are_those_of_all_rules_each_once() -> None:
    weights = Selection(kinds=frozenset({Kind.WEIGHT}), schedule=every(10))
    one, two = rule_class("X901", "too-loud", weights)(), rule_class("X902", "too-soft", weights)()

    assert needs_of([one, two]) == (weights,)


def test_a_severity_of_the_users_own_stands_above_the_rules() -> None:
    settings = Settings(rules=("N101",), rule_settings={"non-finite": {"severity": "note", "only_nan": True}})

    (rule,) = rules_from_settings(settings)

    assert (rule.severity, severity_set(rule), rule.parameters["only_nan"]) == (Severity.NOTE, Severity.NOTE, True)
    assert NonFinite().severity is Severity.BREAKING
    assert severity_set(NonFinite()) is None


def test_a_rule_that_is_not_enabled_is_left_out() -> None:
    settings = Settings(rules=("N101", "G101"), rule_settings={"G101": {"enabled": False}})

    assert [rule.code for rule in rules_from_settings(settings)] == ["N101"]


def test_actions_of_a_rule_are_read_under_whatever_name_it_goes() -> None:
    settings = Settings(rule_settings={"NonFinite": {"actions": ["stop", "lower_lr"]}, "G101": {"actions": []}})

    assert actions_by_rule(settings) == {"N101": (ActionName.STOP, ActionName.LOWER_LR), "G101": ()}


@pytest.mark.parametrize(("table", "message"), [
    ({"severity": "costley"}, 'rule_settings.N101.severity is "costley", which is not a severity. Did'),
    ({"actions": ["stopp"]}, 'no action "stopp". Did you mean "stop"'),
    ({"enabled": "no"}, "must be true or false"),
])
def test_a_wrong_word_for_a_rule_brings_up_the_nearest(table: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        rules_from_settings(Settings(rule_settings={"N101": table}))


def test_names_stand_for_codes() -> None:
    assert codes_of(("dead-relu", "G101"), Settings()) == {"A101", "G101"}
    assert codes_of(("none",), Settings()) == frozenset()
    everything = codes_of(("all",), Settings(rules=()))
    assert codes_of(("-G101",), Settings()) == everything - {"G101"}


def test_a_rule_whose_findings_save_steps_is_to_judge() -> None:
    recorder = {"capsule_on": ["loss-spike", "N101"]}
    check_capsule_on(settings_from_mapping({"recorder": recorder}), ())
    asked = settings_from_mapping({"recorder": recorder, "rules": ["N101"]})
    with pytest.raises(SettingsError, match=r"recorder.capsule_on names L104, but `rules` does not enable it"):
        check_capsule_on(asked, rules_from_settings(asked))
    check_capsule_on(asked, rules_from_settings(settings_from_mapping({"rules": ["N101", "L104"]})))
