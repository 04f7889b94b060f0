"""What the samples of a held batch are called."""

from __future__ import annotations

import pytest

from barograph.capsule.names import named_samples

IMAGES = {"loader": "Images", "first": 32, "indices": [7, 9], "loader_worker": None, "names": ["a.png", ""]}
STREAM = {"loader": "Shards", "first": 32, "indices": None, "loader_worker": 1, "names": ["x.tar#a", "x.tar#b"]}


@pytest.mark.parametrize(("made_of", "row", "expected"), [
    (IMAGES, 0, "7 of Images, a.png"), (IMAGES, 1, "9 of Images"), (STREAM, 1, "1:33 of Shards, x.tar#b"),
    ({**STREAM, "names": [], "loader_worker": None}, 1, "0:33 of Shards"),
    ({**STREAM, "samples": 2}, 1, "1:33 of Shards, x.tar#b"),
    # What makes no batches gave one sample, of which each row of it is a part.
    ({**STREAM, "samples": 1}, 5, "1:32 of Shards, x.tar#a"), ({**IMAGES, "indices": [7]}, 5, "7 of Images, a.png"),
])
def test_a_sample_is_called_by_its_index_and_its_name(made_of, row, expected):
    assert [str(item) for item in named_samples({"samples": [None, made_of]}, 1, [row])] == [expected]


@pytest.mark.parametrize("content", [{}, {"samples": []}, {"samples": [None]}])
def test_of_a_capsule_that_does_not_say_nothing_is_known(content):
    assert named_samples(content, 0, [0]) == []


def test_a_row_beyond_the_samples_that_are_known_has_no_name():
    assert named_samples({"samples": [{**STREAM, "samples": 2}]}, 0, [2]) == []
