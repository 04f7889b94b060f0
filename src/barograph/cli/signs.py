"""Symbols and colors, the same in every command."""

from __future__ import annotations

from rich.text import Text

from barograph.model.finding import Severity
from barograph.queries.layers import NOT_FINITE, OK, LayerRow
from barograph.runs.reading.glance import RunState
from barograph.watch.wording import SEVERITY_STYLES

_STATE_STYLES = {
    RunState.RUNNING: "bold green", RunState.STARTING: "green", RunState.FINISHED: "green",
    RunState.STOPPED: "bold yellow", RunState.FAILED: "bold red", RunState.KILLED: "bold red",
    RunState.DAMAGED: "bold red", RunState.UNKNOWN: "yellow", RunState.EMPTY: "dim",
}
_STANDING_STYLES = {state.value: style for state, style in _STATE_STYLES.items()}

SIGN = "●"
_UNSEEN = "○"


def state_text(state: str) -> Text:
    """Return the state of a run or a worker, in its color."""
    return Text(state, _STANDING_STYLES.get(state, ""))


def severity_text(severity: Severity, text: str = "") -> Text:
    """Return `text`, or the severity's name, in its color."""
    return Text(text or severity.value, SEVERITY_STYLES[severity])


def layer_sign(layer: LayerRow) -> Text:
    """Return the symbol of a layer: in the color of its worst open finding, red if a tensor of it is not finite, green,
    or hollow if not evaluated."""
    if still_open := layer.open_findings:
        return Text(SIGN, SEVERITY_STYLES[still_open[0].severity])
    if layer.health == NOT_FINITE:
        return Text(SIGN, "bold red")
    return Text(SIGN, "green") if layer.health == OK else Text(_UNSEEN, "dim")


def count_of_bad(nonfinite: int) -> Text:
    """Return the number of NaN or infinite elements, highlighted if there are any."""
    return Text(f"{nonfinite}", "bold red" if nonfinite else "dim")
