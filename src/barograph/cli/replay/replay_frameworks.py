"""What differs in `barograph replay` between frameworks: what can be had, and what to do instead of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.capsule.taking_over import can_be_made_again
from barograph.cli.replay.replay_stops import Afterwards
from barograph.errors import ReplayFailed, SettingsError

BEGINS: Mapping[str, str] = {
    "torch": "a step", "keras": "a step of Keras", "jax": "a step under barograph.jax.observe"}
"""What a script has to come to, by framework."""

_NAMES = {"keras": "Keras", "jax": "JAX", "torch": "PyTorch"}
_INSTEAD = {
    "--try": "change the script and replay the step to see the effect.",
    "--pdb": "put breakpoint() in your step, disable compilation (run_eagerly=True in Keras, jax.disable_jit() in JAX) "
             "and replay it.",
    "--to-script": "to report a bug, share the capsule's folder and the script.",
    "--notebook": "barograph.runs.state.capsules.read_capsule loads the capsule's arrays in any notebook.",
}


def check_framework(framework: str, tries: Sequence[str], afterwards: Afterwards) -> None:
    """Check that a step of a framework can be made again, and what was asked for beside that be done.

    Args:
        framework: That made it.
        tries: Remedies that are to be tried.
        afterwards: What is to be done at the operation that is to blame.

    Raises:
        ReplayFailed: Steps of that framework cannot be made again.
        SettingsError: Something was asked for that can be had for steps of PyTorch alone.
    """
    if not can_be_made_again(framework):
        raise ReplayFailed(f"This Barograph cannot replay steps of {framework}. The capsule still has the step's data; "
                           "see docs/reference/capsule-format.md.")
    if framework == "torch":
        return
    asked = {"--try": bool(tries), "--pdb": afterwards.debugger, "--to-script": afterwards.script is not None,
             "--notebook": afterwards.notebook is not None}
    for option, is_asked in asked.items():
        if is_asked:
            raise SettingsError(f"{option} works for PyTorch only, and this is a step of {_NAMES[framework]}. Instead, "
                                f"{_INSTEAD[option]}")


def variables_for(content: Mapping[str, Any]) -> dict[str, str]:
    """Return what has a script run so that its step can be made again: Keras on the backend of then, torch eagerly.

    Args:
        content: Of the capsule.

    Example:
        >>> variables_for({"framework": "keras", "backend": "jax"}), variables_for({"backend": "a module of theirs"})
        ({'KERAS_BACKEND': 'jax'}, {'TORCHDYNAMO_DISABLE': '1'})
    """
    if content.get("framework", "torch") == "torch":
        # Whole steps may be compiled, and nobody could look into them.
        return {"TORCHDYNAMO_DISABLE": "1"}
    backend = content.get("backend")
    # A capsule may come from anybody: nothing else of it gets into the environment.
    return {"KERAS_BACKEND": str(backend)} if backend in ("tensorflow", "torch", "jax") else {}
