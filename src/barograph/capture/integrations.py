"""The supported frameworks: the import that activates each, and the module that hooks into it.

A listener is a module with one function, `listen(recording)`. It is called once, after the framework was imported. It
installs its hooks, and registers their removal with `recording.add_tap`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integration import Integration
    from barograph.capture.session import Session
    from barograph.model.launch import Launch
    from barograph.model.step import Mode


class Listening(Protocol):
    """The recording of this process, as listeners use it."""

    session: Session
    launch: Launch
    only: bool
    explicit_steps: bool

    @property
    def url(self) -> str:
        """Where the run is."""

    def add_integration(self, integration: Integration) -> None:
        """Let an integration belong to the recording: it is taken out when that closes."""

    def array_integration(self, name: str = "") -> ArrayIntegration:
        """Return the integration for arrays of that name, a new one where there is none."""

    def new_array_integration(self) -> ArrayIntegration:
        """Return another integration for arrays, whose steps are those of a training of its own."""

    def set_mode(self, mode: Mode | None) -> None:
        """Let it be said what the script does from now on; None: it is seen."""

    def aside(self, framework: str) -> AbstractContextManager[None]:
        """Have the integration of a framework stand aside within a `with` block: another records what goes on there."""


@dataclass(frozen=True, slots=True)
class Door:
    """A supported framework.

    Attributes:
        framework: Its usual name, also used for versions.
        begins: Modules whose import activates the integration.
        listener: Our module that hooks into it. "": none; scripts use an array integration.
    """

    framework: str
    begins: tuple[str, ...]
    listener: str = ""


_INTEGRATIONS = (
    Door(
        framework="torch",
        begins=("torch",),
        listener="barograph.capture.torch.listener",
    ),
    Door(
        framework="keras",
        begins=("keras",),
        listener="barograph.capture.keras.listener",
    ),
    Door(
        framework="tensorflow",
        begins=("tensorflow",),
        listener="",
    ),
    Door(
        framework="jax",
        begins=("jax",),
        listener="barograph.capture.jax.listener",
    ),
    Door(
        framework="xgboost",
        begins=("xgboost",),
        listener="barograph.capture.xgboost_listener",
    ),
    Door(
        framework="lightgbm",
        begins=("lightgbm",),
        listener="barograph.capture.lightgbm_listener",
    ),
    Door(
        framework="sklearn",
        # Not with sklearn itself, which many a script imports that trains nothing by it.
        begins=("sklearn.ensemble", "sklearn.linear_model", "sklearn.neural_network"),
        listener="barograph.capture.sklearn.listener",
    ),
    Door(
        framework="mxnet",
        begins=("mxnet",),
        listener="barograph.capture.mxnet.listener",
    ),
    Door(
        framework="lightning",
        begins=("lightning.pytorch",),
        listener="barograph.capture.trainers.lightning",
    ),
    Door(
        # The same by another name, and modules of its own.
        framework="pytorch_lightning",
        begins=("pytorch_lightning",),
        listener="barograph.capture.trainers.pytorch_lightning",
    ),
    Door(
        framework="transformers",
        # Not with transformers itself, which imports its parts where they are used.
        begins=("transformers.trainer",),
        listener="barograph.capture.trainers.transformers",
    ),
    Door(
        framework="accelerate",
        begins=("accelerate.accelerator",),
        listener="barograph.capture.trainers.accelerate",
    ),
    Door(
        framework="ignite",
        begins=("ignite.engine",),
        listener="barograph.capture.trainers.ignite",
    ),
    Door(
        framework="fastai",
        # Not with its optimizers, which the module of its loop imports itself.
        begins=("fastai.learner",),
        listener="barograph.capture.trainers.fastai",
    ),
)

INTEGRATIONS: Mapping[str, Door] = {door.framework: door for door in _INTEGRATIONS}


def modules_waited_for() -> tuple[str, ...]:
    """Return the modules whose import begins a recording under `barograph run`.

    Example:
        >>> "torch" in modules_waited_for()
        True
    """
    return tuple(name for door in _INTEGRATIONS if door.listener for name in door.begins)


def install(door: Door, recording: Listening) -> None:
    """Have the framework listened to; what goes wrong is told once, and the training goes on."""
    if recording.session.closed:
        return  # as in a process that was forked
    try:
        importlib.import_module(door.listener).listen(recording)
    except Exception as error:  # noqa: BLE001 - the guard decides; a framework's import must not fail for us
        recording.session.guard.caught(error, f"hooking into {door.framework}")


def versions() -> dict[str, str]:
    """Return the version of each framework that this process has loaded."""
    loaded = {name: sys.modules.get(name) for name in INTEGRATIONS}
    return {name: str(getattr(module, "__version__", "unknown")) for name, module in loaded.items() if module}


def missing_in(framework: Any, needs: Mapping[str, str]) -> list[str]:
    """Return what of `needs` a framework does not have, as one phrase each.

    Args:
        framework: The module.
        needs: Dotted name within it to what it is needed for.

    Example:
        >>> missing_in(sys, {"version_info.major": "the version", "no.such": "trees"})
        ['sys.no.such (for trees)']
    """
    return [f"{framework.__name__}.{name} (for {purpose})" for name, purpose in needs.items()
            if not _has(framework, name)]


def say_missing(session: Session, framework: Any, needs: Mapping[str, str]) -> bool:
    """Say plainly, once, what of `needs` a framework does not have; return whether anything is missing."""
    missing = missing_in(framework, needs)
    if missing:
        version = getattr(framework, "__version__", "(unknown version)")
        session.guard.report(f"{framework.__name__} {version} has no {', no '.join(missing)}: not recorded",
                             cause=f"missing in {framework.__name__}")
    return bool(missing)


def _has(owner: Any, name: str) -> bool:
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True
