"""Table of layers and their health, as printed by `barograph show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from barograph.cli.figures import sparkline
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import count_of_bad, layer_sign, severity_text
from barograph.model.finding import FindingState
from barograph.model.key import Kind
from barograph.model.summary import Summary
from barograph.queries.layers import LayerRow
from barograph.runs.reading.layers import LAYER_KINDS
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


def print_layers(printer: Printer, layers: Sequence[LayerRow]) -> None:
    """Print the layers: one row per layer on a terminal, one row per layer and kind in a pipe.

    Args:
        printer: Prints.
        layers: The layers.
    """
    if printer.on_terminal:
        printer.table(_TERMINAL, [_terminal_row(layer) for layer in layers])
    else:
        printer.table(_PIPE, [row for layer in layers for row in _pipe_rows(layer)])


def _terminal_row(layer: LayerRow) -> list[Cell]:
    norms = sparkline(layer.gradient_norms.values, _CURVE)
    return [
        layer_sign(layer), _name(layer), Text(layer.layer, "dim"),
        *(_cell(layer.figures.get(kind)) for kind in LAYER_KINDS), norms, _codes(layer),
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


def _codes(layer: LayerRow) -> Text:
    codes: dict[str, Text] = {}
    for finding in layer.findings:
        if finding.state is FindingState.OPEN:
            codes.setdefault(finding.code, severity_text(finding.severity, finding.code))
        else:
            codes.setdefault(finding.code, Text(f"({finding.code})", "dim"))
    return Text(" ").join(codes.values())


def _pipe_rows(layer: LayerRow) -> list[list[Cell]]:
    codes = dict.fromkeys(item.code for item in layer.open_findings)
    rows = [_pipe_row(layer, kind, layer.figures, ",".join(codes)) for kind in LAYER_KINDS if kind in layer.figures]
    return rows or [[_name(layer), layer.layer, "", "", "", "", "", "", "", ",".join(codes)]]


def _pipe_row(layer: LayerRow, kind: Kind, figures: Mapping[Kind, Summary], codes: str) -> list[Cell]:
    seen = figures[kind]
    return [
        _name(layer), layer.layer, kind.value, f"{layer.steps[kind]}", f"{seen.count}", figure(seen.l2),
        figure(seen.std), share(seen.sparsity), count_of_bad(seen.nonfinite), codes,
    ]


def _name(layer: LayerRow) -> str:
    return layer.path or "(model)"
