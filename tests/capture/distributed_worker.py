"""One of two training processes; of each way to spread a model it writes what it recorded last, and the whole."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).parent))

from barograph.capture.session import Session
from barograph.capture.torch.integration import TorchIntegration
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.recorder import RecorderSettings
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from conftest import ListWriter, Tape


def wrap(model: nn.Module, how: str) -> nn.Module:
    if how == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    if how in ("flat", "original"):
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=how == "original")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # Hybrid: one shard group of one worker, replicated on the other.
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard")) if how == "hybrid" else None
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    return model


def whole_of(model: nn.Module, how: str) -> dict[str, list[Any]]:
    """Return each parameter of a split model, put together."""
    if how not in ("flat", "original"):
        return {f"weight:{name}": parameter.full_tensor().tolist()
                for name, parameter in model.named_parameters() if hasattr(parameter, "full_tensor")}
    from torch.distributed.fsdp import FullyShardedDataParallel

    with FullyShardedDataParallel.summon_full_params(model):
        found = {f"weight:{name.removeprefix('_fsdp_wrapped_module.')}": parameter.detach().clone()
                 for name, parameter in model.named_parameters()}
    flat = torch.cat([parameter.flatten() for parameter in found.values()])
    return {"weight:_flat_param": flat.tolist()} if how == "flat" else {
        key: parameter.tolist() for key, parameter in found.items()}


def recorded(how: str) -> dict[str, Any]:
    """Train in one way, and return what was recorded of the last step, and the whole parameters."""
    writer = ListWriter()
    session = Session(Settings(strict=True, budget=None, preset="exact"), (), lambda rank, status: writer)
    integration = TorchIntegration(session)
    integration.install()
    torch.manual_seed(0)
    model = wrap(nn.Sequential(nn.Linear(8, 15), nn.ReLU(), nn.Linear(15, 3)), how)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(dist.get_rank())
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(32, 8)), torch.randint(0, 3, (32,))).backward()
        optimizer.step()
    tape = Tape(session, integration, writer)
    last = tape.steps()[-1]
    whole = whole_of(model, how)
    tape.close()
    return {
        "summaries": {key: dataclasses.asdict(summary) for key, summary in tape.summaries(last).items()},
        "shards": {subject.key.kind: subject.shard for subject in last.subjects if subject.key.kind != "loss"},
        "whole": whole,
        "sizes": {str(subject.key): subject.whole for subject in last.subjects if subject.shard},
    }


class Cut(nn.Module):
    """One layer that a loss may be cut off from, and one that nobody calls."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.spare = nn.Linear(8, 15), nn.Linear(15, 3), nn.Linear(15, 3)

    def forward(self, rows: torch.Tensor, cut: bool) -> torch.Tensor:
        hidden = self.one(rows).relu()
        return self.two(hidden.detach() if cut else hidden)


def unreached(how: str) -> list[Any]:
    """Train three steps, the second with a graph that is cut; return what each does not reach: how many, and which."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    writer = ListWriter()
    facts = Selection(kinds=frozenset({Kind.FACT}))
    session = Session(Settings(strict=True, preset="free", collections=(facts,)), (), lambda rank, status: writer)
    integration = TorchIntegration(session)
    integration.install()
    torch.manual_seed(0)
    model = Cut()
    # All its units are dead: gradients that are zero do not tell who is reached.
    nn.init.constant_(model.one.bias, -100.0)
    if how == "cut ddp":
        model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    else:
        options = {"mesh": init_device_mesh("cpu", (2,)), "reshard_after_forward": how != "cut whole"}
        if how == "cut narrow":
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        for part in (model.one, model.two, model) if how == "cut parts" else (model,):
            fully_shard(part, **options)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    for cut in (False, True, False):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(32, 8), cut).float(), torch.randint(0, 3, (32,))).backward()
        optimizer.step()
    tape = Tape(session, integration, writer)
    told = [(step.scalars.get(fact(Fact.UNREACHED)), sorted(
        key.path.partition("[")[2][:-1] for key in step.scalars if key.path.startswith("unreached["))) for step in
        tape.steps()]
    tape.close()
    return told


class Checkpointed(nn.Module):
    """A part that computes its forward pass anew in the backward one."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, rows.requires_grad_(True), use_reentrant=True)


def split(how: str) -> nn.Module:
    """Return a model that FSDP2 splits in a way that changes when its weights are there, or where."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    torch.manual_seed(0)
    parts = [nn.Sequential(nn.Linear(8, 15), nn.Dropout(0.2), nn.Tanh()), nn.Linear(15, 3)]
    options: dict[str, Any] = {"mesh": init_device_mesh("cpu", (2,))}
    if how == "trap offload":
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if how == "trap kept":
        options["reshard_after_forward"] = False
    for group in [parts] if how == "trap grouped" else [[part] for part in parts]:
        fully_shard(group, **options)
    model = nn.Sequential(*map(Checkpointed, parts)) if how == "trap reentrant" else nn.Sequential(*parts)
    fully_shard(model, **options)
    return model


def weights_after(how: str, steps: int, rank: int) -> list[list[float]]:
    """Train; the fourth step of the second worker is fed what is not finite. Return this worker's part of weights."""
    model = split(how)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(rank)
    for step in range(steps):
        rows = torch.randn(32, 8)
        if step == 3 and rank == 1:
            rows[5] = torch.nan
        optimizer.zero_grad()
        F.cross_entropy(model(rows), torch.randint(0, 3, (32,))).backward()
        optimizer.step()
    return [parameter.to_local().detach().tolist() for parameter in model.parameters()]


def trapped(how: str) -> dict[str, Any]:
    """Return the weights of a sound training without us and with us, and of one that fails, and which steps we held."""
    without = weights_after(how, 3, dist.get_rank())
    (sound, none), (failed, held) = (guarded(how, steps) for steps in (3, 4))
    return {"without": without, "with": sound, "failed": failed, "held": [*none, *held]}


def guarded(how: str, steps: int) -> tuple[list[list[float]], list[int]]:
    """Return the weights of a training of which everything is recorded, and which steps were held."""
    writer, held = ListWriter(), []
    settings = Settings(strict=True, budget=None, preset="everything", recorder=RecorderSettings("skip"))
    session = Session(settings, (), lambda rank, status: writer)
    session.worker.write_capsule = lambda head, *rest: held.append(head.step) or ""
    integration = TorchIntegration(session)
    integration.install()
    weights = weights_after(how, steps, dist.get_rank())
    Tape(session, integration, writer).close()
    return weights, held


def main(out: str, *ways: str) -> None:
    dist.init_process_group("gloo")
    Path(out).write_text(json.dumps({how: KINDS.get(how.partition(" ")[0], recorded)(how) for how in ways}))
    dist.barrier()
    dist.destroy_process_group()
    # What the collectives leave running aborts an ordinary end now and then, with or without us.
    os._exit(0)


KINDS = {"cut": unreached, "trap": trapped}

main(*sys.argv[1:])
