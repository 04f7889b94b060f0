"""What the script says that it does."""

from __future__ import annotations

from dataclasses import dataclass

from barograph.model.step import Mode


@dataclass(slots=True)
class ScriptState:
    """The mode that the script has set, who ends its steps, and whether it only catches up with a checkpoint.

    Attributes:
        mode: Mode that the script has set; None: Barograph finds it out.
        explicit_steps: The script ends its steps itself; they do not end where an optimizer steps.
        passes_over: The script is being taken to a checkpoint: what it hands over was recorded before.
    """

    mode: Mode | None = None
    explicit_steps: bool = False
    passes_over: bool = False

    def set_mode(self, mode: Mode | None) -> None:
        """Set the mode from now on."""
        self.mode = mode

    def end_steps(self, explicit_steps: bool) -> None:
        """Let the script end its steps itself, or not."""
        self.explicit_steps = explicit_steps

    def pass_over(self, passes_over: bool) -> None:
        """Record nothing of what the script hands over, until it has come to its checkpoint."""
        self.passes_over = passes_over
