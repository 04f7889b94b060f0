"""Maps tags to keys and modes: losses, learning rates and metrics if their names are clear, else scalars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barograph.ingest.tensorboard.words import FILLERS, METRICS, MODE_WORDS, NO_LOSS, words_of
from barograph.model.key import Key, Kind, canonical_path
from barograph.model.step import Mode

_OPTIMIZERS = frozenset({"adam", "adamw", "sgd", "rmsprop", "adagrad", "adadelta", "adafactor", "lamb",
                         "lion", "nadam"})
_GROUP = re.compile(r"(?:pg|group|param_?group)?_?(\d+)")
_GROUP_WORDS = frozenset({"pg", "group", "groups", "param", "current"})
_GRADIENTS = frozenset({"grad", "grads", "gradient", "gradients"})
_WEIGHTS = frozenset({"weight", "weights", "param", "params", "parameter", "parameters"})
_BETWEEN = re.compile(r"[/_\-. ]+")
_OWN_WORDS = (Kind.WEIGHT.value, Kind.GRADIENT.value)


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a series in a run.

    Attributes:
        mode: Its mode.
        key: Its key.
    """

    mode: Mode
    key: Key


@dataclass(frozen=True, slots=True)
class Tag:
    """A series in the source.

    Attributes:
        folder: Directory within the run; "": its own.
        name: Tag.
        mode: Mode in the directory's name; None: none.
    """

    folder: str
    name: str
    mode: Mode | None = None

    def __str__(self) -> str:
        return f"{self.folder}:{self.name}" if self.folder else self.name


def places_of(tags: Iterable[Tag]) -> dict[Tag, Place]:
    """Return a unique place for each series.

    If several compete for one place, the clearest name wins, losses by step win over losses by epoch, and evaluations
    count as the training does; the others become scalars under their own names.

    Example:
        >>> found = places_of([Tag("", "Loss/train"), Tag("", "Loss/val"), Tag("", "val_acc")])
        >>> [(str(place.mode), str(place.key)) for place in found.values()]
        [('train', 'loss:total'), ('eval', 'loss:total'), ('eval', 'scalar:acc')]
    """
    found: dict[Tag, Place] = {}
    taken: set[Place] = set()
    tags = list(tags)
    by_epoch = _trains_by_epoch(tags)
    waiting = sorted(tags, key=lambda tag: (*_rank(tag, by_epoch), len(tag.name), tag.name, tag.folder))
    for tag in waiting:
        place = place_of(tag)
        if place in taken:
            place = Place(place.mode, Key(Kind.SCALAR, canonical_path(tag.name)))
        if place in taken:
            place = Place(place.mode, Key(Kind.SCALAR, f"{tag.folder}/{tag.name}"))
        taken.add(place)
        found[tag] = place
    return {tag: found[tag] for tag in tags}


def place_of(tag: Tag) -> Place:
    """Return the place of a series without competitors.

    Example:
        >>> str(place_of(Tag("", "lr-AdamW/pg2")).key), str(place_of(Tag("", "train/grad_norm")).key)
        ('learning_rate:group2', 'scalar:grad_norm')
        >>> str(place_of(Tag("", "loss_scale")).key)
        'scalar:loss_scale'
    """
    modes = {MODE_WORDS[word] for word in words_of(tag.name) if word in MODE_WORDS}
    if len(modes) > 1:
        return Place(tag.mode or Mode.TRAIN, Key(Kind.SCALAR, canonical_path(tag.name)))
    mode = next(iter(modes), None) or tag.mode or Mode.TRAIN
    rest = [word for word in words_of(tag.name) if word not in MODE_WORDS]
    plain = [word for word in rest if word not in FILLERS]
    if plain == ["loss"]:
        return Place(mode, Key(Kind.LOSS, "total"))
    if plain and "loss" in (plain[0], plain[-1]) and not NO_LOSS & set(plain):
        return Place(mode, Key(Kind.LOSS, _without_modes(tag.name, parts_too=True)))
    group = _group(plain)
    if group is not None and mode is Mode.TRAIN:
        return Place(mode, Key(Kind.LEARNING_RATE, group))
    is_metric = bool(plain) and set(plain) <= METRICS
    path = _without_modes(tag.name, parts_too=is_metric)
    if is_metric:
        path = re.sub(r"^(?:epoch|batch)_|_vs_iterations$", "", path)
    elif path == tag.name and modes:
        # A word in the middle of a name is not a mode.
        mode = tag.mode or Mode.TRAIN
    return Place(mode, Key(Kind.SCALAR, canonical_path(path) or tag.name))


def key_of_histogram(name: str, *, coarse: bool) -> Key:
    """Return the key of a histogram.

    Args:
        name: The tag.
        coarse: Whether only about 30 buckets are known, too few to analyze a tensor.

    Example:
        >>> [str(key_of_histogram(name, coarse=False)) for name in
        ...  ("fc1.weight", "fc1.weight.grad", "gradients/fc1/bias", "weights/fc1.weight", "latent")]
        ['weight:fc1.weight', 'gradient:fc1.weight', 'gradient:fc1.bias', 'weight:fc1.weight', 'custom:latent']
    """
    parts = [part for part in re.split(r"[/.]", name) if part] or [name]
    said = {part.lower() for part in parts[:1] + parts[-1:]}
    is_gradient = bool(said & _GRADIENTS)
    first_says = len(parts) > 1 and parts[0].lower() in _GRADIENTS | _WEIGHTS
    kept = parts[1:] if first_says else parts
    kept = kept[:-1] if len(kept) > 1 and kept[-1].lower() in _GRADIENTS else kept
    is_weight = (first_says and not is_gradient) or parts[-1].lower() in ("weight", "bias", "kernel", "gamma", "beta")
    if coarse or not (is_gradient or is_weight):
        return Key(Kind.CUSTOM, canonical_path(name) or name)
    path = canonical_path(".".join(kept)) or name
    return Key(Kind.GRADIENT if is_gradient else Kind.WEIGHT, path)


def _trains_by_epoch(tags: Iterable[Tag]) -> bool:
    """Return whether the only training loss counts epochs."""
    losses = [tag for tag in tags if place_of(tag) == Place(Mode.TRAIN, Key(Kind.LOSS, "total"))]
    return bool(losses) and all("epoch" in words_of(tag.name) for tag in losses)


def _rank(tag: Tag, by_epoch: bool) -> tuple[int, int, int]:
    words = words_of(tag.name)
    epoch_says = "epoch" in words
    off_clock = epoch_says != by_epoch if "loss" in words and (epoch_says or "vs" in words) else False
    order: Mapping[str, int] = {word: place for place, word in enumerate(MODE_WORDS)}
    which = min((order[word] for word in words if word in order), default=0)
    return int(off_clock), which, sum(word in FILLERS for word in words)


def _group(plain: list[str]) -> str | None:
    """Return the parameter group whose learning rate these words name; None if they name something else."""
    joined = " ".join(plain).replace("learning rate", "lr").split()
    if "lr" not in joined and not any(re.fullmatch(r"lr\d+", word) for word in joined):
        return None
    others = [word.removeprefix("lr") for word in joined if word != "lr"]
    numbers = [match[1] for word in others if (match := _GROUP.fullmatch(word))]
    said = [word for word in others if not _GROUP.fullmatch(word) and word not in _OPTIMIZERS | _GROUP_WORDS]
    if said or len(numbers) > 1:
        return None
    return f"group{int(numbers[0]) if numbers else 0}"


def _without_modes(name: str, *, parts_too: bool) -> str:
    """Return a name without its modes.

    Args:
        name: "train/loss_ce", "val_loss_ce".
        parts_too: Also remove modes within path components.
    """
    kept = [part for part in name.split("/") if part.lower() not in MODE_WORDS]
    if parts_too:
        kept = [_inside(part) for part in kept]
    return "/".join(part for part in kept if part) or name


def _inside(part: str) -> str:
    words = _BETWEEN.split(_spaced(part))
    if not any(word.lower() in MODE_WORDS for word in words):
        return part
    return "_".join(word for word in words if word.lower() not in MODE_WORDS)


def _spaced(part: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", part)
