"""Output of `barograph compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from barograph.cli.experiments.catalog_options import catalog_with
from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.experiments.comparing import Comparison, compared, group_of, metric_and_statistic, without_single_totals
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement, bounds_in_words, judged
from barograph.experiments.reaching import places_from_text, reached, reached_by_groups
from barograph.experiments.verdict import Outcome
from barograph.model.clock import SystemClock
from barograph.share.comparison import MOST_LINES, ComparisonContent, overlays_of
from barograph.share.page_comparison import page_of_comparison
from barograph.store.whole_file import check_writable, write_whole
from barograph.watch.figures import figure, size

_MOST_REPEATS = 10
_COLORS = {Outcome.ACCEPTED: "green", Outcome.REJECTED: "red", Outcome.UNDECIDED: "yellow"}


def print_differences(
    names: Sequence[str], root: str | None, *, metric: str | None, at: str | None, along: str, less: bool | None,
    html: Path | None, as_json: bool,
) -> None:
    """Print the differences between runs; arguments as in the command.

    Raises:
        UnknownItem: No item has that name.
        SettingsError, UnknownKey: The requested data does not exist.
    """
    catalog, printer = catalog_with(names, root), Printer()
    items = [catalog.item(name) for name in names]
    found = compared(items)
    best = (reached(items, metric, places_from_text(at), along, less, open_run=run_at)
            if metric is not None and at is not None else {})
    if html is not None:
        _write_page(printer, html, items, found, metric=metric, along=along, judgement=None, quiet=as_json)
    if as_json:
        printer.json({**found.to_json(), "reached": best})
        return
    _print_parts(printer, found, metric)
    if best:
        printer.heading(f"best {metric} by {along}")
        printer.table([Column(along, right=True), *(Column(item.name, right=True) for item in items)],
                      [[f"{place:g}", *(figure(value) for value in values)] for place, values in best.items()])


def print_groups(
    names: Sequence[str], by: str, metric: str, root: str | None, *, search: str, at: str | None, less: bool | None,
    level: float, method: str, along: str, html: Path | None, as_json: bool,
) -> None:
    """Print the results of groups of runs, and whether the best is better than the next; arguments as in the command.

    Raises:
        UnknownItem, UnknownName, SettingsError, SearchError: The requested data does not exist.
    """
    catalog, printer = catalog_with(names, root), Printer()
    items = [catalog.item(name) for name in names] if names else catalog.find(search)
    found = judged(items, by, metric, less_is_better=less, level=level, method=method)
    best = reached_by_groups(items, found, places_from_text(at), along, open_run=run_at) if at is not None else {}
    if html is not None:
        order = [group.name for group in found.groups]
        shown = sorted((item for item in items if metric_and_statistic(metric)[0] in item.metrics),
                       key=lambda item: (order.index(group_of(item, by)), item.name))
        differing = compared(shown) if len(shown) > 1 else None
        _write_page(printer, html, shown, differing, metric=metric, along=along, judgement=found, quiet=as_json)
    if as_json:
        printer.json({**found.to_json(), "reached": best})
        return
    printer.table((Column(by), Column("runs", right=True), Column(f"mean {metric}", right=True),
                   Column(f"{level:.0%} interval", right=True), Column("differ in")),
                  [[group.name, group.counted, figure(group.mean), bounds_in_words(group.low, group.high),
                    ", ".join(group.differs)] for group in found.groups])
    repeats = [sentence for group in found.groups for sentence in group.repeats]
    if repeats:
        printer.line("Each counted once:")
        printer.lines(repeats, _MOST_REPEATS)
    if sentence := _sentence(found):
        printer.line(sentence)
    if best:
        printer.heading(f"best {metric_and_statistic(metric)[0]} by {along}, mean of each group")
        printer.table([Column(along, right=True), *(Column(group.name, right=True) for group in found.groups)],
                      [[f"{place:g}", *(figure(value) for value in values)] for place, values in best.items()])


def _print_parts(printer: Printer, found: Comparison, metric: str | None) -> None:
    columns = [Column("", terminal=True), *(Column(name) for name in found.names)]
    if not found.parts:
        printer.line("No recorded differences.")
    for part, differences in found.parts.items():
        if part == "metrics" and metric is not None:
            name, statistic = metric_and_statistic(metric)
            wanted = f"{name}.{statistic if metric.endswith(f'.{statistic}') else ''}"
            differences = tuple(item for item in differences if item.name.startswith(wanted))
            if not differences:
                continue
        elif part == "metrics":
            differences = tuple(without_single_totals(differences))
        same = found.same[part]
        printer.heading(part, f"{same:,} identical" if same else "")
        printer.table(columns, [[row.name, *map(_shown, row.values)] for row in differences])


def _sentence(judgement: Judgement) -> Text:
    """Return which group is better, in color; empty if there is one group."""
    text = Text(judgement.sentence)
    if judgement.verdict is not None:
        text.stylize(_COLORS[judgement.verdict.outcome], 0, len(f"{judgement.verdict.outcome}: "))
    return text


def _write_page(
    printer: Printer, file: Path, items: Sequence[Item], found: Comparison | None, *, metric: str | None, along: str,
    judgement: Judgement | None, quiet: bool,
) -> None:
    check_writable(file, example="compared.html")
    called = metric_and_statistic(metric)[0] if metric is not None else None
    overlays, left_out = overlays_of(items, metric=called, along=along,
                                     by=judgement.by if judgement is not None else "")
    data = page_of_comparison(ComparisonContent(
        tuple(items), found, along, overlays, left_out, max(0, len(items) - MOST_LINES), judgement,
        judgement.sentence if judgement is not None else "",
        SystemClock().unix(),
    )).encode()
    write_whole(file, data)
    if not quiet:
        printer.line(f"Wrote {file} ({size(len(data))}). Open it in a browser.")


def _shown(value: Any) -> str:
    return "" if value is None else figure(value) if isinstance(value, float) else str(value)
