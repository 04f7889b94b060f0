"""A digest stands for the content of a sample: the same on every machine, and for every batch the sample is in."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.measures.digests import (
    DIGEST_BITS,
    WORDS,
    digest_of_all,
    digests_from_sums,
    row_sums,
    word_weights,
)


def plain_sum(row: list[int]) -> int:
    total = sum(int(word) * int(weight) for word, weight in zip(row, word_weights(len(row)), strict=True)) % 2**64
    return total - 2**64 if total >= 2**63 else total


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_a_sum_agrees_with_python_whole_numbers(dtype):
    generator = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    words = generator.integers(limits.min, limits.max, (5, 37), dtype, endpoint=True)
    assert row_sums(words).tolist() == [plain_sum(row) for row in words.tolist()]


def test_the_numbers_are_the_same_for_ever():
    sums = row_sums(np.arange(12, dtype=np.int32).reshape(3, 4))
    assert digests_from_sums(sums).tolist() == [914474969053386, 73719907179346, 3471935787458875]
    assert digest_of_all(digests_from_sums(sums)) == 2118210643601817


def test_small_whole_numbers_kept_as_floats_do_not_collide():
    generator = np.random.default_rng(0)
    rows = np.unique(generator.integers(0, 17, (20_000, 8)), axis=0).astype(np.float32)
    digests = digests_from_sums(row_sums(rows.view(np.int32)))
    assert len(np.unique(digests)) == len(rows)
    assert digests.min() >= 0
    assert digests.max() < 2**DIGEST_BITS


def test_one_bit_of_one_word_makes_another_digest():
    words = np.zeros((2, 64), np.int32)
    words[1, 63] = 1
    first, second = digests_from_sums(row_sums(words))
    assert first != second


def test_a_batch_that_was_shuffled_is_the_same_batch_and_one_with_a_sample_twice_is_not():
    digests = digests_from_sums(np.arange(10))
    assert digest_of_all(digests) == digest_of_all(digests[::-1].copy())
    assert digest_of_all(digests) != digest_of_all(np.append(digests[:9], digests[0]))
    assert digest_of_all(digests[:0]) == 0


def test_weights_are_odd_and_differ():
    weights = word_weights(WORDS)
    assert (weights % 2 != 0).all()
    assert len(np.unique(weights)) == WORDS
    assert not weights.flags.writeable
