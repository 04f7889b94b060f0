"""Differences between frameworks in `barograph replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.capsule.taking_over import can_be_made_again
from barograph.cli.replay.replay_stops import Afterwards
from barograph.errors import ReplayFailed, SettingsError

BEGINS: Mapping[str, str] = {
    "torch": "a step", "keras": "a step of Keras", "jax": "a step under barograph.jax.observe"}
"""Steps that a script must reach, by framework."""

_NAMES = {"keras": "Keras", "jax": "JAX", "torch": "PyTorch"}
_INSTEAD = {
    "--try": "change the script and replay the step to see the effect.",
    "--pdb": "put breakpoint() in your step, disable compilation (run_eagerly=True in Keras, jax.disable_jit() in JAX) "
             "and replay it.",
    "--to-script": "to report a bug, share the capsule's folder and the script.",
    "--notebook": "barograph.runs.state.capsules.read_capsule loads the capsule's arrays in any notebook.",
}


def check_framework(framework: str, tries: Sequence[str], afterwards: Afterwards) -> None:
    """Check that a step of a framework can be replayed with the given options.

    Args:
        framework: Framework of the step.
        tries: Remedies to try.
        afterwards: What to do at the bad operation.

    Raises:
        ReplayFailed: Steps of this framework cannot be replayed.
        SettingsError: An option works for PyTorch only.
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
    """Return environment variables for replaying: the recorded backend of Keras; no compilation for PyTorch.

    Args:
        content: Content of the capsule.

    Example:
        >>> variables_for({"framework": "keras", "backend": "jax"}), variables_for({"backend": "a module of theirs"})
        ({'KERAS_BACKEND': 'jax'}, {'TORCHDYNAMO_DISABLE': '1'})
    """
    if content.get("framework", "torch") == "torch":
        # A compiled step cannot be inspected.
        return {"TORCHDYNAMO_DISABLE": "1"}
    backend = content.get("backend")
    # A capsule may be untrusted: nothing else from it gets into the environment.
    return {"KERAS_BACKEND": str(backend)} if backend in ("tensorflow", "torch", "jax") else {}
