"""The flight recorder of Keras: reports why a step was withheld, and saves its inputs.

The update is withheld inside the step, before the optimizer uses the gradients (see `integration.py`), on every
backend, compiled or not. A compiled step can check gradients, their norm, and the loss if available. The user's
function, and a loss above its level, need values during the step: the torch backend, or a model that runs eagerly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from barograph.capture.held_steps import HeldSteps, Packed
from barograph.capture.keras.arrays import array_of
from barograph.capture.keras.asked import in_plain_data
from barograph.capture.keras.collector import Seen, Wanted
from barograph.capture.keras.merging import Joined
from barograph.capture.keras.random import RandomStates
from barograph.capture.verdict import UserConditions, Verdict, of_gradients, of_loss, of_norm
from barograph.model.recorder import RecorderSettings, UpdateSeen
from barograph.runs.format.proof import checksum_of

if TYPE_CHECKING:
    from barograph.capture.keras.backends import ValueOf
    from barograph.capture.keras.names import Names
    from barograph.capture.session import Session


class KerasRecorder:
    """Saves withheld steps of all models of a recording.

    Args:
        session: The session.
        settings: Settings of the flight recorder.
    """

    def __init__(self, session: Session, settings: RecorderSettings) -> None:
        self.settings = settings
        self._asked_for = UserConditions(settings, session.steering.request_stop)
        self._held = HeldSteps(session, settings)
        self._session = session
        if settings.ring or settings.capsule_on:
            session.seen.reasons["keras ring"] = "steps that trigger findings are saved in PyTorch trainings only"

    def asked(self, seen: Seen, paths: Sequence[str]) -> Verdict | None:
        """Return why a step must be withheld although its gradients are acceptable; its values must be known."""
        update = update_seen(seen, paths, step=self._session.counts.of_busiest)
        numbers = {"norm": update.norm, **({"loss": update.losses[0]} if update.losses else {})}
        return self._asked_for.verdict(update, numbers)

    def uncheckable(self) -> list[str]:
        """Return the settings that cannot be checked within a compiled step."""
        return [name for name in ("loss_above", "when") if getattr(self.settings, name) is not None]

    def verdict(self, seen: Seen, paths: Sequence[str]) -> Verdict:
        """Return why a step was withheld, from its results."""
        norms = dict(zip(paths, array_of(seen["norms"]).tolist(), strict=True))
        loss = float(array_of(seen["loss"])) if "loss" in seen else None
        whole = math.sqrt(sum(norm**2 for norm in norms.values()))
        numbers = {"norm": whole, **({"loss": loss} if loss is not None else {})}
        bad = [path for path, norm in norms.items() if not math.isfinite(norm)]
        if bad:
            return of_gradients(bad, numbers)
        if loss is not None and not math.isfinite(loss):
            return of_loss(loss, numbers)
        return of_norm(whole, self.settings.norm_above or math.inf, numbers)

    def hold(self, verdict: Verdict, label: str, step: int, pack: Callable[[], Packed]) -> None:
        """Save a withheld step, and stop or continue."""
        self._held.hold(verdict, step, lambda: self._held.save(verdict, step, pack(), label=label))


def update_seen(seen: Seen, paths: Sequence[str], *, step: int) -> UpdateSeen:
    """Return a step's measurements for the user's function; its values must be known.

    Args:
        seen: Results of the step, with a gate.
        paths: Paths of the variables whose gradients were checked.
        step: Its number.
    """
    norms = dict(zip(paths, array_of(seen["norms"]).tolist(), strict=True))
    losses = (float(array_of(seen["loss"])),) if "loss" in seen else ()
    return UpdateSeen(step, "", losses, math.hypot(*norms.values()), norms)


def packed_step(
    model: Any, optimizer: Any, names: Names, seen: Seen, value: ValueOf, paths: Sequence[str], wanted: Wanted,
    random: RandomStates | None = None,
) -> Packed:
    """Return the content of a step as plain data.

    Args:
        model: The model; None: a custom loop.
        optimizer: The optimizer.
        names: Names of its variables.
        seen: Results of the step.
        value: Current values of its variables: those before the step, since the update was withheld.
        paths: Paths of the variables whose gradients were checked.
        wanted: Requested results, for rebuilding its program.
        random: States of generators before it; None: not saved.
    """
    packed = Packed()
    packed.content["framework"] = "keras"
    packed.content["backend"] = keras.backend.backend()
    packed.content["model"] = None if model is None else {"class": type_name(model), "config": _config(model.to_json)}
    packed.put("weights", {path: array_of(value(variable)) for path, variable in names.trainable.items()})
    packed.put("untrained", {path: array_of(before) for path, before in seen.get("before", {}).items()})
    packed.content["optimizer"] = {
        "class": type_name(optimizer),
        "config": _config(lambda: json.dumps(keras.optimizers.serialize(optimizer), default=str))}
    packed.put("optimizer_variables", {str(item.path): array_of(value(item)) for item in optimizer.variables})
    batch = seen.get("batch", {})
    packed.put("batch", {path if number == 0 else f"{path}[replica {number}]": array_of(item)
                         for path, items in batch.items() for number, item in enumerate(items)})
    # Number of samples of each replica, if several shared the step.
    packed.content["replicas"] = {path: list(items[0].sizes) for path, items in batch.items()
                                  if isinstance(items[0], Joined)}
    packed.put("random", {} if random is None else random.arrays())
    packed.content["wanted"] = {
        **asdict(replace(wanted, asked=None)), "outputs": sorted(wanted.outputs), "inputs": sorted(wanted.inputs),
        **({"asked": in_plain_data(seen["statistics"].taken)} if "statistics" in seen else {})}
    packed.content["seen"] = identifying_values(seen, paths)
    return packed


def identifying_values(seen: Seen, paths: Sequence[str]) -> dict[str, Any]:
    """Return the values that identify a step bit for bit: its loss, and its unchanged gradients.

    Args:
        seen: Results of the step, with a gate.
        paths: Paths of the variables whose gradients were checked.
    """
    norms: Mapping[str, float] = dict(zip(paths, array_of(seen["norms"]).tolist(), strict=True))
    return {
        "losses": [float(array_of(seen["loss"])).hex()] if "loss" in seen else [],
        "gradients": {path: {"digest": checksum_of(np.ascontiguousarray(array_of(gradient)).tobytes()),
                             "norm": norms[path] if math.isfinite(norms[path]) else None}
                      for path, gradient in seen["given"].items()},
    }


def type_name(of: Any) -> str:
    """Return the full name of an object's class."""
    return f"{of.__class__.__module__}.{of.__class__.__qualname__}"


def _config(text: Callable[[], str]) -> Any:
    """Return Keras's description of an object; None if it has none: a custom class need not provide it."""
    try:
        return json.loads(text())
    except (NotImplementedError, TypeError, ValueError):
        return None
