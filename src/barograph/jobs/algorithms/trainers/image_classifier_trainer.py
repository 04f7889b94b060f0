"""Trains a small convolutional network on images, one folder for each class, with PyTorch.

    SM_CHANNEL_TRAIN=flowers SM_MODEL_DIR=model SM_OUTPUT_DATA_DIR=output \\
        python image_classifier_trainer.py --epochs 10

Images are resized to squares. Training stops after `patience` epochs without a better validation loss; the weights of
the best epoch are in `model.safetensors`.
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, Dataset

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.jobs.algorithms import image_prediction
from barograph.jobs.algorithms.columns import Target, split
from barograph.jobs.algorithms.contract import Folders, folders, log, options, run_trainer, write_json
from barograph.jobs.algorithms.image_prediction import BadImage, Network, images_in, read_image, scaled
from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.algorithms.results import report, say, say_refitted, scores, versions
from barograph.jobs.algorithms.table_prediction import BadData, counted, write_csv
from barograph.version import __version__

SIZES = (8, 128)
"""Least and greatest size of images, without `--image_size`."""

SAMPLED = 100
"""Images whose size and colors decide about all."""

CACHED_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Files:
    """Images of a channel, with the number of the class of each."""

    folder: Path
    paths: list[Path]
    classes: Any

    def take(self, rows: Any) -> Files:
        """Return some of them."""
        return Files(self.folder, [self.paths[row] for row in rows], self.classes[rows])


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Images as pixels, which stay in memory while they fit.

    Attributes:
        files: Names of the images, for Barograph's record of the data.
    """

    def __init__(self, files: Files, size: int, mode: str) -> None:
        self.files = [str(path.relative_to(files.folder)) for path in files.paths]
        self._files = files
        self._size, self._mode = size, mode
        self._cached: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        pixels = self._cached.get(index)
        if pixels is None:
            pixels = read_image(self._files.paths[index], self._size, self._mode)
            if len(self._cached) * pixels.numel() < CACHED_BYTES:
                self._cached[index] = pixels
        return pixels, int(self._files.classes[index])


def train(arguments: Sequence[str]) -> None:
    """Train and save a model."""
    algorithm = algorithm_named("image-classifier")
    given = options(algorithm, arguments)
    defaults = {parameter.name: parameter.default for parameter in algorithm.parameters}
    for name in given.parameters:
        if name not in defaults:
            raise UnknownName(f'The image classifier has no parameter "{name}". {nearest(name, defaults)}')
    values = {name: float(given.parameters.get(name, str(default))) for name, default in defaults.items()}
    places = folders(algorithm.script.name)
    parts, classes = _parts(places.channels, given.validation_fraction, given.seed)
    size, mode = _size_and_mode(parts["train"].paths, int(values["image_size"]))
    model: dict[str, Any] = {
        "algorithm": algorithm.name, "task": "classification", "classes": classes, "image_size": size, "mode": mode,
        "channels": int(values["channels"]), "parameters": values, "seed": given.seed,
        "versions": versions(("torch", "PIL", "safetensors")), "barograph": __version__,
    }
    say(f"{len(classes)} classes of {mode} images, {size} × {size}; "
        + ", ".join(f"{len(part.paths):,} for {name}" for name, part in parts.items()))
    try:
        facts = _fit(parts, model, values, places.model)
        metrics = {name: _scored(places, model, name, parts[name]) for name in ("train", "validation")}
        if given.refit:
            _refit(parts, model, values, facts["best_epoch"], places.model)
        metrics |= {name: _scored(places, model, name, parts[name]) for name in parts if name == "test"}
        write_json(places.model / "model.json", model)
        shutil.copyfile(image_prediction.__file__, places.model / "predict.py")
    except BadImage as error:
        raise BadData(str(error)) from error
    report(places, metrics, {"rows": {name: len(part.paths) for name, part in parts.items()}, **facts})


def _scored(places: Folders, model: Mapping[str, Any], name: str, part: Files) -> dict[str, float]:
    """Return metrics of a part; write its predictions, if it is not the training data."""
    probabilities = image_prediction.predict(places.model, model, part.paths)
    if name != "train":
        _write_predictions(places.output / f"{name}_predictions.csv", part, probabilities, model["classes"])
    return scores(part.classes, probabilities, model["classes"])


def _parts(channels: Mapping[str, Path], fraction: float, seed: int) -> tuple[dict[str, Files], list[str]]:
    """Return the images of each channel and the names of the classes, which are those of the training folder."""
    root = channels["train"]
    classes = sorted(folder.name for folder in root.iterdir()
                     if folder.is_dir() and not folder.name.startswith((".", "_"))) if root.is_dir() else []
    if len(classes) < 2:
        raise BadData(f"{root} has {counted(len(classes), 'folder')}; expected one for each class, at least two: "
                      "cat/1.png, cat/2.png, dog/1.png, ….")
    parts = {name: _files(path, classes) for name, path in channels.items()}
    if "validation" not in parts:
        rows, kept = split(Target(parts["train"].classes, tuple(classes), ""), fraction, seed)
        parts |= {"train": parts["train"].take(rows), "validation": parts["train"].take(kept)}
    return {name: parts[name] for name in ("train", "validation", "test") if name in parts}, classes


def _files(root: Path, classes: Sequence[str]) -> Files:
    """Return the images of a channel."""
    paths: list[Path] = []
    numbers: list[int] = []
    for place, name in enumerate(classes):
        found = images_in(root / name)
        if not found:
            raise BadData(f"{root / name} has no images. Supported: {', '.join(image_prediction.SUFFIXES)}.")
        paths += found
        numbers += [place] * len(found)
    return Files(root, paths, np.array(numbers))


def _size_and_mode(paths: Sequence[Path], size: int) -> tuple[int, str]:
    """Return the size to which images are resized, and whether they are gray or have colors."""
    sides: list[int] = []
    gray = True
    for path in paths[::max(1, len(paths) // SAMPLED)]:
        try:
            with Image.open(path) as image:
                sides += image.size
                gray = gray and image.mode in ("1", "L", "LA", "I", "I;16", "I;16B", "F")
        except OSError as error:
            raise BadData(f"Cannot read the image {path}: {error}. Replace or remove it.") from error
    if size and size < SIZES[0]:
        raise SettingsError(f"image_size is {size}; it must be at least {SIZES[0]}.")
    return size or int(min(max(statistics.median(sides), SIZES[0]), SIZES[1])), "L" if gray else "RGB"


def _fit(
    parts: Mapping[str, Files], model: dict[str, Any], values: Mapping[str, float], folder: Path
) -> dict[str, Any]:
    """Train, and save the weights of the best epoch; return facts for `metrics.json`."""
    sets = {name: Images(part, model["image_size"], model["mode"]) for name, part in parts.items() if name != "test"}
    training = _Training(sets["train"], model, values)
    validation = DataLoader(sets["validation"], int(values["batch_size"]))
    best, best_epoch, epoch = math.inf, 0, 0
    weights: dict[str, torch.Tensor] = {}
    while epoch < values["epochs"] and epoch - best_epoch < values["patience"]:
        epoch += 1
        loss = training.train_epoch()
        validation_loss = _loss(training.network, validation, training.device, model)
        log({"epoch_loss": loss, "validation_loss": validation_loss})
        say(f"epoch {epoch}: loss {loss:.4g}, validation loss {validation_loss:.4g}")
        if validation_loss < best:
            best, best_epoch = validation_loss, epoch
            # A copy in memory, because checkpoints of Barograph hold variables and not files.
            weights = {name: value.detach().cpu().clone() for name, value in training.network.state_dict().items()}
    if not best_epoch:
        raise SettingsError("The validation loss was not finite after any epoch. Lower lr.")
    save_file(weights, folder / "model.safetensors")
    return {"epochs": epoch, "best_epoch": best_epoch}


def _refit(
    parts: Mapping[str, Files], model: dict[str, Any], values: Mapping[str, float], epochs: int, folder: Path
) -> None:
    """Train on the images for training and validation, and save the weights."""
    both = [Images(parts[name], model["image_size"], model["mode"]) for name in ("train", "validation")]
    training = _Training(ConcatDataset(both), model, values)
    for _ in range(epochs):
        training.train_epoch()
    weights = {name: value.cpu() for name, value in training.network.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    model["refitted_rows"] = sum(map(len, both))
    say_refitted(model["refitted_rows"])


class _Training:
    """A network that is trained on images epoch by epoch.

    Args:
        images: The images.
        model: Content of `model.json`; gets their mean and standard deviation.
        values: Parameters.
    """

    def __init__(self, images: Dataset[Any], model: dict[str, Any], values: Mapping[str, float]) -> None:
        torch.manual_seed(model["seed"])
        self._model, self._count = model, len(images)  # type: ignore[arg-type]
        model["mean"], model["std"] = _mean_and_std(images)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        network = Network(1 if model["mode"] == "L" else 3, model["channels"], len(model["classes"]))
        self.network = network.to(self.device)
        self._optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=values["lr"], weight_decay=values["weight_decay"])
        self._loader = DataLoader(images, int(values["batch_size"]), shuffle=True,
                                  generator=torch.Generator().manual_seed(model["seed"]))

    def train_epoch(self) -> float:
        """Train one epoch; return the mean loss."""
        self.network.train()
        total = 0.0
        for pixels, target in self._loader:
            self._optimizer.zero_grad()
            loss = F.cross_entropy(self.network(scaled(pixels.to(self.device), self._model)), target.to(self.device))
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            total += loss.item() * len(target)
        return total / self._count


def _mean_and_std(images: Dataset[Any]) -> tuple[float, float]:
    count = len(images)  # type: ignore[arg-type]
    pixels = [images[row][0].double() / 255 for row in range(0, count, max(1, count // 1000))]
    flat = torch.cat([image.reshape(-1) for image in pixels])
    return float(flat.mean()), float(flat.std(correction=0)) or 1.0


def _loss(network: Network, loader: DataLoader[Any], device: torch.device, model: Mapping[str, Any]) -> float:
    """Return the mean loss over a data set."""
    network.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for pixels, target in loader:
            loss = F.cross_entropy(network(scaled(pixels.to(device), model)), target.to(device))
            total, count = total + loss.item() * len(target), count + len(target)
    return total / count


def _write_predictions(path: Path, part: Files, probabilities: Any, classes: Sequence[str]) -> None:
    names = [str(item.relative_to(part.folder)) for item in part.paths]
    columns = image_prediction.outputs(names, probabilities, classes)
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv(file, {"file": columns.pop("file"), "target": [classes[place] for place in part.classes], **columns})


if __name__ == "__main__":
    run_trainer(train)
