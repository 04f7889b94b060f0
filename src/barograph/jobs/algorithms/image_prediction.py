"""Predicts the class of images, with the model in the folder of this script.

    python predict.py IMAGE_OR_FOLDER … > predictions.csv

A trainer of Barograph copied this file beside its model as `predict.py`. It needs PyTorch, Pillow and safetensors,
not Barograph. `model.json` describes the classes, the size of the images and the versions of the libraries.
"""

from __future__ import annotations

import csv
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from safetensors.torch import load_file
from torch import nn

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
BATCH = 32


class BadImage(Exception):
    """An image cannot be used; the message names the file and what to do."""


class Network(nn.Module):
    """Three convolutions with batch normalization, the average over the image, and a linear layer.

    Args:
        inputs: Channels of an image: 1 or 3.
        channels: Channels of the first convolution.
        classes: Number of classes.
    """

    def __init__(self, inputs: int, channels: int, classes: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = inputs
        for block, width in enumerate((channels, 2 * channels, 4 * channels)):
            layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if block < 2 else []
            before = width
        self.convolutions = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return scores, shape (images, classes)."""
        scores: torch.Tensor = self.head(self.convolutions(images).mean(dim=(2, 3)))
        return scores


def images_in(path: Path) -> list[Path]:
    """Return an image, or all images of a folder and the folders in it, sorted."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES
                  and not any(part.startswith(".") for part in file.relative_to(path).parts))


def read_image(path: Path, size: int, mode: str) -> torch.Tensor:
    """Return the pixels of an image, resized. Shape (channels, size, size), uint8.

    Args:
        mode: "L" (gray) or "RGB".

    Raises:
        BadImage: The file is damaged, or not an image.
    """
    try:
        with Image.open(path) as opened:
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I;16"):
                # Pillow would clip 16 bits to 8.
                image = Image.fromarray((np.asarray(image) // 256).astype(np.uint8))
            pixels = np.array(image.convert(mode).resize((size, size), Image.Resampling.BILINEAR))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadImage(f"Cannot read the image {path}: {error}. Replace or remove it.") from error
    return torch.from_numpy(pixels).reshape(size, size, -1).permute(2, 0, 1).contiguous()


def scaled(pixels: torch.Tensor, model: Mapping[str, Any]) -> torch.Tensor:
    """Return pixels as the network reads them: floats, standardized with the training images' mean and deviation."""
    made: torch.Tensor = (pixels.float() / 255 - model["mean"]) / model["std"]
    return made


def predict(folder: Path, model: Mapping[str, Any], files: Sequence[Path]) -> Any:
    """Return the probability of each class for each image, shape (images, classes).

    All batches have the same size, so the numbers of an image do not depend on the others.
    """
    network = Network(1 if model["mode"] == "L" else 3, model["channels"], len(model["classes"]))
    network.load_state_dict(load_file(folder / "model.safetensors"))
    network.eval()
    made = []
    with torch.inference_mode():
        for first in range(0, len(files), BATCH):
            read = [read_image(file, model["image_size"], model["mode"]) for file in files[first:first + BATCH]]
            batch = torch.stack(read + [torch.zeros_like(read[0])] * (BATCH - len(read)))
            made.append(network(scaled(batch, model)).double().softmax(dim=1)[:len(read)].numpy())
    return np.concatenate(made)


def outputs(files: Sequence[str], probabilities: Any, classes: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of a file of predictions: the file, the prediction, and the probability of each class."""
    return {"file": list(files), "prediction": [classes[place] for place in probabilities.argmax(axis=1)],
            **{f"probability_{name}": [str(value) for value in probabilities[:, place]]
               for place, name in enumerate(classes)}}


def main(arguments: Sequence[str]) -> None:
    """Predict the images of the command line."""
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("usage: python predict.py IMAGE_OR_FOLDER … > predictions.csv")
    files = [file for name in arguments for file in images_in(Path(name))]
    if not files:
        raise SystemExit(f"predict.py: no images in {', '.join(arguments)}.")
    folder = Path(__file__).resolve().parent
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    try:
        columns = outputs([str(file) for file in files], predict(folder, model, files), model["classes"])
    except BadImage as error:
        raise SystemExit(f"predict.py: {error}") from error
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # end silently when `head` has read enough
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(sys.argv[1:])
