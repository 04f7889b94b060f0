"""Keys have two fields and one name."""

from __future__ import annotations

import copy
import pickle

import pytest

from barograph.errors import UnknownName
from barograph.model.key import Key, Kind, canonical_path, key_from_text, kind_from_name


@pytest.mark.parametrize("kind", list(Kind))
def test_a_key_comes_back_from_its_text(kind):
    key = Key(kind, "blocks.0.attn[1][weights]")
    assert key_from_text(str(key)) == key


def test_a_path_may_hold_colons():
    assert key_from_text("scalar:train:accuracy") == Key(Kind.SCALAR, "train:accuracy")


def test_a_wrong_kind_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match=r'"weigth" is not a kind of record\. Did you mean "weight"'):
        kind_from_name("weigth")


def test_a_text_without_a_kind_is_refused():
    with pytest.raises(UnknownName, match="KIND:PATH"):
        key_from_text("fc1.weight")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("fc1.weight", "fc1.weight"),
        ("module.fc1.weight", "fc1.weight"),
        ("_orig_mod.module.fc1.weight", "fc1.weight"),
        ("blocks.0._fsdp_wrapped_module._checkpoint_wrapped_module.fc.bias", "blocks.0.fc.bias"),
        ("module_list.0.weight", "module_list.0.weight"),
        ("my_module.weight", "my_module.weight"),
        ("module", ""),
        ("", ""),
    ],
)
def test_names_that_wrappers_add_are_dropped_and_no_others(path, expected):
    assert canonical_path(path) == expected


def test_a_kind_is_found_by_its_text():
    assert {Kind.WEIGHT: 1}["weight"] == 1
    assert Kind.WEIGHT in {"weight"}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_key_comes_back_from_another_process(protocol):
    key = Key(Kind.GRADIENT, "blocks.0.fc.weight")
    assert pickle.loads(pickle.dumps(key, protocol)) == key
    assert copy.deepcopy(key) == key
