"""smdebug's `SaveConfig` and `SaveConfigMode`: the steps to save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barograph.debugger.exceptions import SMDebugTypeError, SMDebugValueError
from barograph.debugger.modes import ModeKeys

_INTERVAL = 500


@dataclass(slots=True)
class SaveConfigMode:
    """The steps to save in one mode.

    Attributes:
        save_interval: Every so many steps; None: 500.
        start_step: From this one on; None: from the first.
        end_step: Before this one; None: without end.
        save_steps: These, whatever else is said.
    """

    save_interval: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    save_steps: Sequence[int] | None = None

    def __post_init__(self) -> None:
        try:
            self.save_interval = _INTERVAL if self.save_interval is None else int(self.save_interval)
            self.start_step = int(self.start_step or 0)
            self.end_step = None if self.end_step is None else int(self.end_step)
            self.save_steps = [int(step) for step in self.save_steps or ()]
        except (TypeError, ValueError):
            raise SMDebugValueError(f"{self!r} has a step that is not an integer.") from None
        if self.save_interval < 1:
            raise SMDebugValueError(f"save_interval is {self.save_interval}; it must be at least 1.")

    def should_save_step(self, step_num: int) -> bool:
        """Return whether to save this step.

        Example:
            >>> [step for step in range(10) if SaveConfigMode(save_interval=3, end_step=8).should_save_step(step)]
            [0, 3, 6]
        """
        start, end, interval = self.start_step or 0, self.end_step, self.save_interval or _INTERVAL
        return step_num in (self.save_steps or ()) or (
            step_num >= start and (end is None or step_num < end) and step_num % interval == 0)

    def to_json_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"save_interval": self.save_interval, "save_steps": list(self.save_steps or ()),
                "start_step": self.start_step, "end_step": self.end_step}


Modes = Mapping[ModeKeys, SaveConfigMode | None]


@dataclass(slots=True)
class SaveConfig:
    """The steps to save in each mode.

    Attributes:
        mode_save_configs: Mode to what holds in it; None, or a mode that is left out: as the hook says.
        save_interval, start_step, end_step, save_steps: As of `SaveConfigMode`, for all modes; where the modes are not
            told apart.
    """

    mode_save_configs: Modes | None = None
    save_interval: int | None = None
    start_step: int | None = None
    end_step: int | None = None
    save_steps: Sequence[int] | None = None
    _of: dict[ModeKeys, SaveConfigMode | None] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.mode_save_configs is None:
            one = SaveConfigMode(self.save_interval, self.start_step, self.end_step, self.save_steps)
            self._of = dict.fromkeys(ModeKeys, one)
            return
        for mode, config in self.mode_save_configs.items():
            if not isinstance(mode, ModeKeys) or not isinstance(config, SaveConfigMode | None):
                raise SMDebugValueError(f"{mode!r}: {config!r} is not a mode with a SaveConfigMode.")
        self._of = {mode: self.mode_save_configs.get(mode) for mode in ModeKeys}

    def get_save_config(self, mode: ModeKeys) -> SaveConfigMode:
        """Return the configuration of a mode."""
        return self._of[mode] or SaveConfigMode()

    def set_save_config(self, mode: ModeKeys, save_config_mode: SaveConfigMode) -> None:
        """Set the configuration of a mode."""
        self._of[mode] = save_config_mode

    def should_save_step(self, mode: ModeKeys, step_num: int) -> bool:
        """Return whether to save this step."""
        return self.get_save_config(mode).should_save_step(step_num)

    def merge_default_save_config(self, default_save_config: SaveConfig) -> None:
        """Take missing modes from another configuration."""
        for mode in ModeKeys:
            self._of[mode] = self._of[mode] or default_save_config.get_save_config(mode)

    def to_json_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {mode.name: config.to_json_dict() if config else None for mode, config in self._of.items()}

    @classmethod
    def parse(cls, obj: Any) -> SaveConfig:
        """Return what a hook or a collection was given as one.

        Raises:
            SMDebugTypeError: It is none.
        """
        if obj is None:
            return cls()
        if isinstance(obj, SaveConfig):
            return obj
        if isinstance(obj, SaveConfigMode):
            return cls(dict.fromkeys(ModeKeys, obj))
        if isinstance(obj, Mapping):
            return cls({mode: SaveConfigMode(**config) if isinstance(config, Mapping) else config
                        for mode, config in obj.items()})
        raise SMDebugTypeError(f"{obj!r} is not a SaveConfig.")
