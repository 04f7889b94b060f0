"""A built-in algorithm that is killed goes on exactly where it stopped."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from barograph.jobs.algorithms.registry import algorithm_named
from forking import TORCH

FORKED = TORCH

KILL = "        if epoch == int(os.environ.get('KILLED_IN_EPOCH', 0)): os.kill(os.getpid(), 9)\n"


@pytest.fixture
def images(tmp_path: Path) -> Path:
    digits = load_digits(n_class=3)
    for number, (pixels, target) in enumerate(zip(digits.images[:200], digits.target, strict=False)):
        # Wrong classes in validation: the better the network fits the training data, the worse; epoch 1 is the best.
        folder = tmp_path / (f"train/{target}" if number < 150 else f"validation/{(target + 1) % 3}")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{number:04}.png")
    return tmp_path


def test_a_killed_image_classifier_ends_with_the_model_of_an_uninterrupted_one(images: Path, programs: Path) -> None:
    script = algorithm_named("image-classifier").copy_script(images / "code")
    loop = "        epoch += 1\n"
    text = script.read_text("utf-8")
    assert text.count(loop) == 1
    text = text.replace(loop, loop + KILL).replace("import math\n", "import math\nimport os\n")
    script.write_text(text, encoding="utf-8")

    def barograph(*words: str, model: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {"SM_CHANNEL_TRAIN": str(images / "train"), "SM_CHANNEL_VALIDATION": str(images / "validation"),
                       "SM_MODEL_DIR": str(images / model), "SM_OUTPUT_DATA_DIR": str(images / model), **more}
        return subprocess.run([programs / "barograph", *words], env=os.environ | environment,
                              cwd=images / "code", capture_output=True, text=True, timeout=600)

    arguments = ["--epochs", "4", "--channels", "8", "--lr", "0.01", "--batch_size", "30"]
    whole = barograph("run", "--to", str(images / "runs/whole"), script.name, *arguments, model="whole")
    assert whole.returncode == 0, whole.stderr
    killed = barograph("run", "--checkpoint", "every=5", "--to", str(images / "runs/killed"), script.name, *arguments,
                       model="killed", KILLED_IN_EPOCH="4")
    assert killed.returncode != 0
    assert not (images / "killed" / "model.safetensors").exists()
    resumed = barograph("resume", str(images / "runs/killed"), model="killed")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "epoch 1:" not in resumed.stdout
    metrics = json.loads((images / "killed" / "metrics.json").read_text("utf-8"))
    assert (metrics["best_epoch"], metrics["epochs"]) == (1, 4)
    for name in ("model.safetensors", "metrics.json", "validation_predictions.csv"):
        assert (images / "killed" / name).read_bytes() == (images / "whole" / name).read_bytes()
