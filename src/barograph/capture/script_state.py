"""Settings that the training script changes while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.model.step import Mode


@dataclass(slots=True)
class ScriptState:
    """The mode set by the script, who ends its steps, and whether it is still repeating steps before a checkpoint.

    Attributes:
        mode: Mode set by the script; None: Barograph detects it.
        explicit_steps: The script marks the end of its steps; an optimizer step does not end one.
        passes_over: The script has not reached its checkpoint yet: these steps were recorded before.
    """

    mode: Mode | None = None
    explicit_steps: bool = False
    passes_over: bool = False

    def set_mode(self, mode: Mode | None) -> None:
        """Set the mode from now on."""
        self.mode = mode

    def end_steps(self, explicit_steps: bool) -> None:
        """Set whether the script marks the end of its steps."""
        self.explicit_steps = explicit_steps

    def pass_over(self, passes_over: bool) -> None:
        """Set whether to ignore what the script logs, until it reaches its checkpoint."""
        self.passes_over = passes_over
