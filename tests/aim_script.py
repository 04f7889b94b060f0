"""Run by a Python that has Aim: a repository with a run in its index."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from aim import Audio, Distribution, Image, Repo, Run, Text

STEPS = 30

if __name__ == "__main__":
    run = Run(repo=".", experiment="digits", system_tracking_interval=None, log_system_params=False)
    run["hparams"] = {"lr": 1e-3, "width": 64, "betas": [0.9, 0.999]}
    values = [math.exp(-step / 9) + step / 7e3 for step in range(STEPS)]
    for step, value in enumerate(values):
        run.track(value, name="loss", step=step, context={"subset": "train"})
        run.track(value * 2, name="loss", step=step, context={"subset": "val"})
        run.track(step, name="seen", step=step, context={"fold": 2})
    run.track(math.nan, name="odd", step=0)
    for step in (0, 5):
        run.track([Image(np.full((4, 6, 3), step + at, np.uint8), caption=f"{at}") for at in (0, 1)], name="samples",
                  step=step, context={"subset": "val"})
    run.track(Image(np.zeros((4, 6, 3), np.uint8)), name="../odd/name")
    run.track(Text('one "line"\nand another'), name="said", step=3)
    run.track(Text("∇ more"), name="said", step=4)
    run.track(Audio(b"RIFF....", format="wav"), name="sound", step=1)
    run.track(Distribution([1.0, 2.0, 3.0]), name="weights", step=0)
    run.name, run.description = "first", "the best"
    run.add_tag("keep")
    uid = run.hash
    run.close()
    # What `aim storage reindex` does, without its question.
    Repo.from_path(".")._recreate_index()
    Path("truth.json").write_text(json.dumps({"uid": uid, "loss": [value.hex() for value in values]}))
