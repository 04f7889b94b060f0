"""Projections agree with their formulas and with scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.measures.pooling import is_image, reduced_sample
from barograph.measures.projection import neighbor_accuracy, neighbors, pca_axes, rotation
from barograph.measures.tsne import affinities, divergence, tsne

sklearn_datasets = pytest.importorskip("sklearn.datasets")


@pytest.fixture(scope="module")
def digits():
    images, labels = sklearn_datasets.load_digits(return_X_y=True)
    return images[:150], labels[:150]


def test_principal_axes_are_those_of_scikit_learn(digits):
    from sklearn.decomposition import PCA

    expected = PCA(3, svd_solver="full").fit(digits[0])
    mean, axes, shares = pca_axes(digits[0], 3)

    np.testing.assert_allclose(mean, expected.mean_)
    np.testing.assert_allclose(np.abs((axes * expected.components_).sum(1)), 1.0)
    np.testing.assert_allclose(shares, expected.explained_variance_ratio_)


def test_axes_that_the_data_lacks_are_zero():
    _, axes, shares = pca_axes(np.ones((5, 1)), 2)
    assert axes.tolist() == [[0.0], [0.0]]
    assert shares.tolist() == [0.0, 0.0]


def test_points_are_turned_and_mirrored_back():
    points = np.random.default_rng(0).normal(size=(20, 2))
    turned = points @ np.array([[0.0, -1.0], [-1.0, 0.0]])

    np.testing.assert_allclose(turned @ rotation(turned, points), points, atol=1e-12)


def test_neighbors_are_those_of_scikit_learn(digits):
    from sklearn.neighbors import NearestNeighbors

    images = digits[0] + np.random.default_rng(0).normal(0, 1e-3, digits[0].shape)  # no ties
    expected = NearestNeighbors(n_neighbors=4).fit(images).kneighbors(return_distance=False)
    np.testing.assert_array_equal(neighbors(images, 4), expected)


def test_random_vectors_say_nothing_about_classes():
    generator = np.random.default_rng(0)
    found = neighbor_accuracy(generator.normal(size=(400, 8)), generator.integers(0, 4, 400))
    assert 0.15 < found < 0.35
    assert np.isnan(neighbor_accuracy(np.zeros((1, 2)), np.array([0])))


def test_t_sne_reaches_what_scikit_learn_reaches(digits):
    from sklearn.manifold import TSNE

    images, labels = digits
    joint = affinities(images, 30.0)
    expected = TSNE(init="pca", method="exact", perplexity=30.0, max_iter=500, random_state=0).fit_transform(images)
    points = tsne(images, perplexity=30.0)

    # Both end in local minima, which depend on the last bits.
    assert divergence(points, joint) < 1.3 * divergence(expected.astype(float), joint)
    assert neighbor_accuracy(points, labels) > 0.9


def test_t_sne_continues_from_a_frame_and_is_the_same_each_time(digits):
    images, _ = digits
    first = tsne(images)
    moved = images + np.random.default_rng(0).normal(0, 0.1, images.shape)
    second = tsne(moved, start=first)

    np.testing.assert_array_equal(second, tsne(moved, start=first))
    # How far points move depends on the processor.
    assert np.abs(second - first).mean() < 0.5 * np.abs(tsne(moved) - first).mean()


def test_few_or_equal_vectors_have_points():
    assert tsne(np.zeros((3, 2))).shape == (3, 2)
    assert np.isfinite(tsne(np.ones((10, 2)))).all()


@pytest.mark.parametrize(("shape", "expected"), [
    ((1, 200, 100), (1, 50, 25)), ((200, 100, 3), (50, 25, 3)), ((8, 8), (8, 8)), ((5000,), (1024,)), ((2, 3), (2, 3)),
])
def test_samples_are_reduced_to_a_size_worth_keeping(shape, expected):
    assert reduced_sample(np.ones(shape, np.float32)).shape == expected


def test_a_reduced_image_is_the_mean_of_blocks_and_keeps_its_type():
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    small = reduced_sample(image, most_side=8)

    assert small.dtype == np.uint8
    assert small[0, 0] == np.mean([0, 1, 16, 17]).astype(np.uint8)
    assert is_image((3, 32, 32))
    assert not is_image((3, 32))
