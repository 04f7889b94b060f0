"""Every error crosses processes and prints its one message."""

from __future__ import annotations

import pickle

import pytest

from barograph import errors
from barograph.errors import BarographError

TREE = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, BarographError)]


@pytest.mark.parametrize("kind", TREE)
def test_an_error_comes_back_from_pickle(kind):
    error = pickle.loads(pickle.dumps(kind("the thing is wrong")))
    assert type(error) is kind
    assert str(error) == "the thing is wrong"


@pytest.mark.parametrize("kind", TREE)
def test_an_error_is_one_sentence_and_stands_in_the_tree_at_the_top_of_the_file(kind):
    assert kind.__doc__.split("\n")[0].endswith(".")
    assert kind.__name__ in errors.__doc__
