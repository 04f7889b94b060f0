"""Installs the Gluon hooks once MXNet is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mxnet

from barograph.capture.integrations import report_missing

if TYPE_CHECKING:
    from barograph.capture.integrations import Listening

_NEEDS = {
    "gluon.Trainer._update": "steps", "gluon.Trainer._allreduce_grads": "gradients of several contexts",
    "gluon.Block.__call__": "layers", "gluon.utils.clip_global_norm": "gradients before clipping",
    "autograd.backward": "losses", "nd.NDArray.backward": "losses", "optimizer.Optimizer._get_lrs": "learning rates",
}


def listen(recording: Listening) -> None:
    """Add a Gluon integration to the recording."""
    if report_missing(recording.session, mxnet, _NEEDS):
        return
    from barograph.capture.mxnet.integration import GluonIntegration

    integration = GluonIntegration(recording)
    recording.add_integration(integration)
    integration.install()
