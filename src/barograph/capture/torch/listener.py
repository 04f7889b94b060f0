"""Installs the PyTorch hooks once PyTorch is imported, and saves checkpoints on request."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING

import torch

from barograph.capture.orders import NotDone
from barograph.capture.torch.integration import TorchIntegration
from barograph.errors import BarographError

if TYPE_CHECKING:
    from barograph.capture.recording import Recording
    from barograph.store.base import Store

_CHECKPOINT_SECS = 120.0
_CHECKPOINT_LOOK_SECS = 0.2


def listen(recording: Recording) -> None:
    """Add a PyTorch integration to the recording; if the run is resumed, restore the script's checkpoint first."""
    session = recording.session
    integration = TorchIntegration(session, only=recording.only, explicit_steps=recording.explicit_steps)
    recording.add_torch(integration)
    session.steering.offer_checkpoint(functools.partial(save_checkpoint, recording, integration))
    order = recording.launch.resume
    if order is None:
        # While PyTorch is being imported, the script has not used it.
        integration.install(torch_is_new=bool(getattr(torch.__spec__, "_initializing", False)))
    else:
        from barograph.capture.torch.resuming import begin_resuming, refuse
        from barograph.store.urls import store_from_url

        # Nothing is recorded until the checkpoint is restored.
        try:
            begin_resuming(
                integration, store_from_url(recording.url), order, recording.resume
            )
        except BarographError as error:
            refuse(order, str(error))
    if recording.is_aside("torch"):
        integration.stop_observing()


def save_checkpoint(recording: Recording, integration: TorchIntegration) -> str:
    """Save the state of this training into its run; return where."""
    from barograph.capture.torch.checkpoint import save
    from barograph.store.urls import store_from_url

    session, attempt = recording.session, recording.launch.attempt
    index, _ = session.worker.rank
    store = store_from_url(recording.url)
    if index:
        # Replicas are identical, and the first one saves; do not end the others meanwhile.
        wait_for_checkpoint(store, attempt, session.counts.of_busiest)
        return ""
    who = "r0" if index is not None else f"pid{os.getpid()}"
    name = save(store, integration.names, integration.optimizers, attempt=attempt,
                steps=session.counts.of_busiest, who=who)
    return f"{recording.url.rstrip('/')}/{name}"


def wait_for_checkpoint(store: Store, attempt: int, steps: int, timeout_secs: float = _CHECKPOINT_SECS) -> None:
    """Return once the first worker has saved its checkpoint of these steps.

    Raises:
        NotDone: It did not within the timeout.
    """
    from barograph.runs.format.layout import CHECKPOINTS
    from barograph.runs.state.control import STOP, read_answers

    deadline = time.monotonic() + timeout_secs
    while time.monotonic() < deadline:
        if any(item.name == f"{CHECKPOINTS}/{attempt:04d}-{steps:08d}-r0.json" for item in store.list(CHECKPOINTS)):
            return
        if any(done.action == STOP and done.worker == "r0" for done in read_answers(store, attempt=attempt).values()):
            raise NotDone("the first worker saved none")
        time.sleep(_CHECKPOINT_LOOK_SECS)
    raise NotDone(f"the first worker saved none within {timeout_secs:g} s")
