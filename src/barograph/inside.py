"""Looking inside a model: latent space, saliency maps, distributions and learning curves of a run, as plain data.

Each function takes a run or its path or URL, also of a run that is being recorded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from barograph.errors import SettingsError
from barograph.model.key import Key, key_from_text
from barograph.queries import latent as _latent
from barograph.queries import learning_curves as _curves
from barograph.queries import ridges as _ridges
from barograph.queries import saliency as _saliency
from barograph.queries.latent import Latent, LatentFrame, ProbeFrame, ProbeSample
from barograph.queries.learning_curves import LearningCurves
from barograph.queries.ridges import Ridges
from barograph.queries.saliency import SaliencyMap, SaliencyOverTime
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Latent", "LatentFrame", "LearningCurves", "ProbeFrame", "ProbeSample", "Ridges", "SaliencyMap", "SaliencyOverTime",
    "distribution", "explain", "frames", "latent", "learning_curves", "saliency", "saliency_samples", "sample",
]


def frames(run: Any) -> list[ProbeFrame]:
    """Return what the probe recorded at each evaluation: outputs of the layer, targets, predictions, losses.

    Args:
        run: A run, or its path or URL.

    Raises:
        NotARun: The path has no run.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    return _latent.probe_frames(_reader(run))


def latent(run: Any, *, method: str = "pca", fit: str = "all", most_frames: int = _latent.MOST_FRAMES) -> Latent | None:
    """Return the latent space over the training, in two dimensions; None if the run has no probe.

    Args:
        run: A run, or its path or URL.
        method: "pca" projects on the two principal axes; "tsne" keeps neighbors together, each frame continuing from
            the previous one.
        fit: For "pca", what the axes are computed from: "all" frames, the "last" one, or "each" frame on its own,
            rotated towards the previous one.
        most_frames: Maximum number of frames; of more evaluations, evenly spaced ones are used.

    Raises:
        UnknownName: No such method or fit.
        NotARun: The path has no run.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    return _latent.latent_in(_reader(run), method=method, fit=fit, most_frames=most_frames)


def sample(run: Any, identity: str) -> ProbeSample:
    """Return one sample of the probe: its input, its neighbors, and what the model returned at each evaluation.

    Args:
        run: A run, or its path or URL.
        identity: Identity of the sample, of `Latent.samples`.

    Raises:
        UnknownName: The probe has no such sample.
        NotARun: The path has no run.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    return _latent.probe_sample(_reader(run), identity)


def saliency_samples(run: Any) -> tuple[str, ...]:
    """Return the identities of the samples with saliency maps; raises as `saliency`."""
    return _saliency.saliency_samples(_reader(run))


def saliency(run: Any, identity: str, *, method: str = "", most_maps: int = _saliency.MOST_MAPS) -> SaliencyOverTime:
    """Return the saliency maps of one sample over the training.

    Args:
        run: A run, or its path or URL.
        identity: Identity of the sample, of `saliency_samples`.
        method: "gradient-input", "smoothgrad" or "integrated-gradients"; "": the last of these that the run has.
        most_maps: Maximum number of maps; of more evaluations, evenly spaced ones are used.

    Raises:
        UnknownName: The run has no maps of this sample or method.
        NotARun: The path has no run.
        DamagedChunk: A file is damaged or missing.
        StoreError: The store cannot be read.
    """
    return _saliency.saliency_of(_reader(run), identity, method=method, most_maps=most_maps)


def explain(
    model: Any, inputs: Any, classes: Any = None, *, method: str = "integrated-gradients"
) -> NDArray[np.float32]:
    """Return saliency maps of any samples for a model in memory, such as one loaded from a checkpoint.

    The model is called in eval mode. Its weights, gradients and modes, and all random generators, stay as they are.

    Args:
        model: PyTorch module, Keras model, or JAX function that returns one row of class scores per sample.
        inputs: Samples, floating-point: a tensor on the device of the model, or an array.
        classes: Class of each sample whose score is explained. None: the predicted one.
        method: "gradient-input", "smoothgrad" or "integrated-gradients".

    Returns:
        Maps of the shape of the inputs; positive values raise the score.

    Raises:
        UnknownName: No such method.
        UnsupportedCapture: The inputs are integers, or the model cannot be differentiated or returns no class scores.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 2, bias=False)
        >>> _ = model.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
        >>> explain(model, torch.tensor([[1.0, 2.0]])).tolist()
        [[0.0, 6.0]]
    """
    # Each loads its framework, which readers of runs do not need.
    kinds = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    if "keras" in kinds:
        from barograph.capture.keras.probe import explained as of_keras

        return of_keras(model, inputs, classes, method)
    if "torch" not in kinds and callable(model):
        from barograph.capture.jax.probe import explained as of_jax

        return of_jax(model, inputs, classes, method)
    from barograph.capture.torch.saliency import explained

    return explained(model, inputs, classes, method)


def distribution(run: Any, key: Key | str, *, most_rows: int = _ridges.MOST_ROWS) -> Ridges:
    """Return the distribution of a tensor at several steps, by sign and power of two.

    Args:
        run: A run, or its path or URL.
        key: Key of the tensor, such as "weight:fc1.weight".
        most_rows: Maximum number of steps.

    Raises:
        UnknownKey: The tensor has no histogram at any step.
        UnknownName: The key is not valid.
        NotARun: The path has no run.
        StoreError: The store cannot be read.
    """
    return _ridges.ridges_of(_reader(run), key_from_text(key) if isinstance(key, str) else key, most_rows=most_rows)


def learning_curves(run: Any) -> LearningCurves:
    """Return training and validation loss, and their diagnosis.

    Args:
        run: A run, or its path or URL.

    Raises:
        NotARun: The path has no run.
        StoreError: The store cannot be read.
    """
    return _curves.learning_curves(_reader(run))


def _reader(run: Any) -> RunReader:
    if isinstance(run, RunReader):
        run.refresh()
        return run
    place = run if isinstance(run, str | os.PathLike) else getattr(run, "url", None)
    if not isinstance(place, str | os.PathLike) or not os.fspath(place):
        raise SettingsError(f"Expected a run or its path, not {type(run).__name__}.")
    return RunReader(store_from_url(os.fspath(place)))
