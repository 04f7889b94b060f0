"""Words in names of tags and directories: modes, losses, learning rates, metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping

from barograph.model.step import Mode

MODE_WORDS: Mapping[str, Mode] = {
    **dict.fromkeys(("train", "training"), Mode.TRAIN),
    **dict.fromkeys(
        ("val", "valid", "validation", "eval", "evaluation", "dev", "test", "testing", "holdout", "heldout"), Mode.EVAL
    ),
    **dict.fromkeys(("predict", "prediction"), Mode.PREDICT),
}
"""Words for modes; those of evaluation in order of preference."""

FILLERS = frozenset({
    "epoch", "batch", "step", "steps", "iter", "iteration", "iterations", "per", "avg", "average", "mean", "running",
    "vs", "total", "overall",
})
"""Words for how often or over what something was measured."""

METRICS = frozenset({
    "acc", "accuracy", "f1", "precision", "recall", "auc", "auroc", "mae", "mse", "rmse", "error", "perplexity", "ppl",
    "iou", "miou", "map", "bleu", "rouge", "dice", "score", "r2", "psnr", "ssim", "top", "top1", "top5", "sparse",
    "categorical", "binary", "loss",
})
NO_LOSS = frozenset({
    "scale", "scaler", "scaling", "weight", "weights", "best", "min", "max", "ratio", "delta", "std", "var",
    "coef", "coefficient", "lambda", "ema", "smoothed", "improvement", "patience", "gap", "count", "function",
})
"""Words that make "loss" something other than a minimized loss."""

_WORD = re.compile(r"[a-z]+\d*|\d+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case.

    Example:
        >>> words_of("Loss/train"), words_of("valLoss"), words_of("lr-AdamW/pg1")
        (['loss', 'train'], ['val', 'loss'], ['lr', 'adamw', 'pg1'])
    """
    return _WORD.findall(_HUMP.sub(" ", name).lower())


def mode_of_folder(name: str) -> Mode | None:
    """Return the mode that a directory is named after; None if none.

    Example:
        >>> mode_of_folder("validation"), mode_of_folder("training_2")
        (<Mode.EVAL: 'eval'>, None)
    """
    return MODE_WORDS.get(name.lower())


def mode_at_end(name: str) -> Mode | None:
    """Return the mode at the end of a directory name, as created by PyTorch's `add_scalars`.

    Example:
        >>> mode_at_end("Loss_train"), mode_at_end("train")
        (<Mode.TRAIN: 'train'>, None)
    """
    head, _, last = name.rpartition("_")
    return MODE_WORDS.get(last.lower()) if head else None
