"""Both ways round with the real smdebug: what it has saved, asked here; and its script, run under our names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
import barograph.smdebug as smd
import smdebug_script
from real_smdebug import Unavailable, python_with_smdebug
from smdebug_data import imported

SCRIPT = Path(smdebug_script.__file__)


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the real smdebug saved, and its own answers."""
    try:
        python = python_with_smdebug()
    except Unavailable as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("real")
    environment = {**os.environ, "SMDEBUG_TRAINING_END_DELAY_REFRESH": "0", "SMDEBUG_LOG_LEVEL": "error"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([str(python), str(SCRIPT), "smdebug.pytorch", str(folder)], env=environment,
                          capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def answers_in(folder: Path) -> Any:
    return json.loads((folder / "answers.json").read_text())


@pytest.mark.filterwarnings("ignore:std")
def test_its_script_with_changed_imports_gets_the_same_answers(real: Path, tmp_path: Path) -> None:
    smdebug_script.main("barograph.smdebug", tmp_path, ask_only=False)
    assert answers_in(tmp_path) == answers_in(real)


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_what_it_saved_gives_the_same_answers_here(
    real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copies = tmp_path / "copies"
    shutil.copytree(real, copies)
    smdebug_script.main("barograph.smdebug", copies, ask_only=True)
    assert answers_in(copies) == answers_in(real)


def test_what_it_saved_becomes_arrays_and_series_of_a_run_to_the_last_bit(real: Path, tmp_path: Path) -> None:
    """Not by way of our trial: the keys, steps and modes are those of the documents."""
    compared = 0
    for place in ("plain", "reduced", "both"):
        made = imported(real / place, tmp_path / place)
        assert made.damage == ()
        run, said = barograph.open(tmp_path / place), answers_in(real)[place]
        steps = {step: (mode.lower().replace("global", "train"), own) for step, mode, own in said["global"]}
        for name, key in KEYS.items():
            if name not in said["tensors"]:
                continue
            for step, value in said["tensors"][name]["values"].items():
                if isinstance(value, list) and key.split(":")[0] not in ("loss", "scalar"):
                    mode, own = steps[int(step)]
                    array = run.tensor(key, own, mode=mode)
                    assert [array.dtype.name, list(array.shape), array.tobytes().hex()] == value
                    compared += 1
                elif isinstance(value, list):
                    mode, own = steps[int(step)]
                    (number,) = run.series(key, mode=mode, start=own, stop=own + 1).values
                    assert np.array(number).astype(value[0]).tobytes().hex() == value[2]
                    compared += 1
            for step, saved in said["tensors"][name]["saved"].items():
                for reduction, absolute, value in saved:
                    mode, own = steps[int(step)]
                    series = f"{key}[{'abs_' if absolute else ''}{reduction}]"
                    (number,) = run.series(series, mode=mode, start=own, stop=own + 1).values
                    assert np.array(number).astype(value[0]).tobytes().hex() == value[2]
                    compared += 1
    assert compared > 200


KEYS = {
    "Net_body.0.weight": "weight:body.0.weight", "Net_head.bias": "weight:head.bias", "Net_token": "weight:token",
    "gradient/Net_body.0.weight": "gradient:body.0.weight", "gradient/Net_token": "gradient:token",
    "body.1_output_0": "output:body.1", "body_input_0": "input:body", "head_output_0": "output:head",
    "CrossEntropyLoss_output_0": "loss:total", "CrossEntropyLoss_input_1": "input:CrossEntropyLoss[1]",
    "scalar/rate": "scalar:rate", "mine": "custom:mine",
}


def test_every_public_name_is_one_of_the_real_librarys(real: Path) -> None:
    assert sorted(set(smd.__all__) - set(json.loads((real / "names.json").read_text()))) == []
