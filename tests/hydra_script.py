"""Run by a Python that has Hydra: tells what is heard of its configuration, and what the function was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from barograph.capture.parsed import Parsed

CONFIGURATION = """
defaults: [_self_, {optimizer: sgd}]
epochs: 3
amp: true
dim: 8
name: width-${dim}
started: ${now:%Y}
data: ???
layers:
  - {size: "${dim}", act: relu}
  - {size: 16, act: "${..0.act}"}
betas: [0.9, "${optimizer.lr}"]
hydra: {output_subdir: null, job: {chdir: false}, run: {dir: .}, sweep: {dir: .}}
"""

if __name__ == "__main__":
    Path("conf/optimizer").mkdir(parents=True, exist_ok=True)
    Path("conf/config.yaml").write_text(CONFIGURATION)
    Path("conf/optimizer/sgd.yaml").write_text("lr: 0.1\nnesterov: false\n")
    Path("conf/optimizer/adam.yaml").write_text("lr: 0.001\n")
    parsed = Parsed()

    import hydra  # begins to be heard where a script imports it
    from omegaconf import OmegaConf

    given: list[Any] = []

    @hydra.main(version_base=None, config_path=str(Path("conf").absolute()), config_name="config")
    def train(config: Any) -> None:
        given.append(OmegaConf.to_container(config))

    train()
    heard = {name: [option.value, list(option.flags)] for name, option in parsed.options.items()}
    parsed.stop()
    Path("heard.json").write_text(json.dumps({
        "heard": heard, "given": given, "left": hydra.core.utils.run_job.__module__ + str(hasattr(
            hydra.core.utils.run_job, "__wrapped__"))}))
