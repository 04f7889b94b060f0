"""The layers of a model and their health, as `barograph show` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from barograph.cli.figures import sparkline, summary_to_json, thinned
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import count_of_bad, layer_sign, severity_text
from barograph.model.finding import FindingState
from barograph.model.key import Kind
from barograph.model.summary import Summary
from barograph.runs.reading.layers import LAYER_KINDS, Layer
from barograph.watch.figures import figure, share

_CURVE = 16

_TERMINAL = (
    Column(""), Column("layer"), Column("class", spare=4), Column("weight", right=True, spare=2),
    Column("gradient", right=True), Column("update", right=True, spare=3), Column("output", right=True),
    Column("gradient norm", spare=1), Column("findings"),
)
_PIPE = (
    Column("layer"), Column("class"), Column("kind"), Column("step", right=True), Column("elements", right=True),
    Column("norm", right=True), Column("std", right=True), Column("zeros", right=True), Column("nan/inf", right=True),
    Column("open findings"),
)


def print_layers(printer: Printer, layers: Sequence[Layer], *, judged: bool) -> None:
    """Print the layers: on a terminal a row each, in a pipe a row for each layer and kind.

    Args:
        printer: Prints.
        layers: Which.
        judged: Whether a watcher has looked at all there is.
    """
    if printer.on_terminal:
        printer.table(_TERMINAL, [_terminal_row(layer, judged=judged) for layer in layers])
    else:
        printer.table(_PIPE, [row for layer in layers for row in _pipe_rows(layer)])


def layer_to_json(layer: Layer, *, judged: bool) -> dict[str, object]:
    """Return a layer as JSON data; of long series two hundred points."""
    steps, values = thinned(layer.gradient_norms.steps, layer.gradient_norms.values)
    still_open = [item for item in layer.findings if item.state is FindingState.OPEN]
    return {
        "path": layer.path, "class": layer.layer,
        "health": still_open[0].severity if still_open else "ok" if judged and layer.figures else "not judged",
        "findings": [item.id for item in layer.findings],
        "figures": {kind.value: {"step": layer.steps[kind], **summary_to_json(seen)}
                    for kind, seen in layer.figures.items()},
        "gradient_norms": {"steps": steps, "values": values},
    }


def _terminal_row(layer: Layer, *, judged: bool) -> list[Cell]:
    sign = layer_sign(layer.findings, recorded=bool(layer.figures), judged=judged)
    norms = sparkline(layer.gradient_norms.values, _CURVE)
    return [
        sign, _name(layer), Text(layer.layer, "dim"), *(_cell(layer.figures.get(kind)) for kind in LAYER_KINDS), norms,
        _codes(layer),
    ]


def _cell(seen: Summary | None) -> Text:
    if seen is None:
        return Text("")
    text = Text.assemble(figure(seen.l2), (f" ±{figure(seen.std)}", "dim"))
    if seen.zeros:
        text.append(f"\n{share(seen.sparsity)} zero", "yellow" if seen.zeros == seen.count else "dim")
    if seen.nonfinite:
        text.append(f"\n{seen.nonfinite} nan/inf", "bold red")
    return text


def _codes(layer: Layer) -> Text:
    codes: dict[str, Text] = {}
    for finding in layer.findings:
        if finding.state is FindingState.OPEN:
            codes.setdefault(finding.code, severity_text(finding.severity, finding.code))
        else:
            codes.setdefault(finding.code, Text(f"({finding.code})", "dim"))
    return Text(" ").join(codes.values())


def _pipe_rows(layer: Layer) -> list[list[Cell]]:
    codes = dict.fromkeys(item.code for item in layer.findings if item.state is FindingState.OPEN)
    rows = [_pipe_row(layer, kind, layer.figures, ",".join(codes)) for kind in LAYER_KINDS if kind in layer.figures]
    return rows or [[_name(layer), layer.layer, "", "", "", "", "", "", "", ",".join(codes)]]


def _pipe_row(layer: Layer, kind: Kind, figures: Mapping[Kind, Summary], codes: str) -> list[Cell]:
    seen = figures[kind]
    return [
        _name(layer), layer.layer, kind.value, f"{layer.steps[kind]}", f"{seen.count}", figure(seen.l2),
        figure(seen.std), share(seen.sparsity), count_of_bad(seen.nonfinite), codes,
    ]


def _name(layer: Layer) -> str:
    return layer.path or "(model)"
