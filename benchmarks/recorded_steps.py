"""Shared by the workers of several frameworks: how a variant records, and what it has recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import barograph
from barograph.attached import AttachedRun
from barograph.model.key import Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from benchmarks.blocks import Block, by_turns
from benchmarks.processes import Request, Result

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "everything": {"preset": "everything", "budget": None},
    "kinds": {"preset": "free", "budget": None, "collections": [
        Selection(name="kinds", kinds=frozenset(Kind), schedule=Schedule(modes=frozenset({Mode.TRAIN})))]},
    "moments": {"preset": "moments", "budget": None},
    "budget": {},
}

_WARM_UP_STEPS = 12
"""Steps in which programs are compiled, including those that run only after some steps."""


def attached(request: Request) -> AttachedRun:
    """Return the run of a request's `variant`, in its directory."""
    return barograph.attach(to=f"{request['directory']}/run", watch=False, **SETTINGS[request["variant"]])


def measured(request: Request, run: AttachedRun, bare: Block, recorded: Block) -> Result:
    """Measure alternating blocks, end the recording, and return the turns and the number of steps with tensors."""
    turns = by_turns(bare, recorded, secs=request["secs"], block_secs=request["block_secs"],
                     warm_up_secs=request["warm_up_secs"], warm_up_steps=_WARM_UP_STEPS)
    run.close()
    (ending,) = Path(request["directory"], "run", "endings").glob("*.json")
    seen = json.loads(ending.read_text(encoding="utf-8"))["last"]["coverage"]["steps_seen"]
    return {"turns": turns, "recorded": seen}
