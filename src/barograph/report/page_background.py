"""Sections on provenance, notes, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from barograph.report.background import Background, Made
from barograph.report.content import Report
from barograph.report.markdown import rendered
from barograph.report.markup import Markup, element, joined
from barograph.report.tables import table
from barograph.watch.figures import count, figure, local_time, size

_MOST_NOTES = 50
_MOST_ROWS = 500


def has_notes(report: Report) -> bool:
    """Return whether the run has notes, tags or a description."""
    known = report.background
    return known is not None and bool(known.notes or known.tags or known.trials or known.description)


def has_origin(report: Report) -> bool:
    """Return whether the origin was recorded."""
    known = report.background
    return known is not None and bool(known.made or known.parameters)


def has_artifacts(report: Report) -> bool:
    """Return whether the run has inputs or outputs."""
    return report.background is not None and bool(report.background.artifacts)


def notes(report: Report) -> Markup:
    """Return experiment and trial, tags, description and notes."""
    known = _known(report)
    entries = [("experiment", f"{experiment}, trial {trial}") for experiment, trial in known.trials]
    entries += [("tag", f"{name}: {text}" if text else name) for name, text in known.tags.items()]
    notes = [
        element("article", element("p", f"{local_time(note.time_unix)} {note.by}".rstrip(), class_="note"),
                rendered(note.text))
        for note in known.notes[-_MOST_NOTES:]
    ]
    left_out = len(known.notes) - len(notes)
    return joined(
        facts(entries), element("div", rendered(known.description)) if known.description else None,
        element("p", f"{count(left_out, 'older note')} not shown.", class_="note") if left_out else None, notes,
    )


def origin(report: Report) -> Markup:
    """Return the origin: parameters, code, environment, packages, data."""
    known = _known(report)
    parameters = _named("Parameters", ("parameter", "value"), known.parameters) if known.parameters else None
    if known.made is None:
        return joined(parameters, element("p", "No other provenance was recorded.", class_="note"))
    made = known.made
    return joined(
        parameters, facts(_entries(made)),
        folded(f"Packages ({len(made.packages)})", _named("Installed", ("package", "version"), made.packages))
        if made.packages else None,
        folded(f"Environment ({len(made.environment)})", _named("Variables", ("name", "value"), made.environment))
        if made.environment else None,
        _data(made) if made.data else None,
    )


def artifacts(report: Report) -> Markup:
    """Return inputs and outputs."""
    rows = [(it.name, it.role, it.uri, it.digest, size(it.size_bytes) if it.size_bytes >= 0 else "–")
            for it in _known(report).artifacts[:_MOST_ROWS]]
    return table("Inputs and outputs", ("name", "role", "location", "digest", "size"), rows, numbers=1)


def facts(entries: Iterable[tuple[str, str]]) -> Markup | None:
    """Return a list of names and values; None if empty."""
    given = [joined(element("dt", name), element("dd", text)) for name, text in entries if text]
    return element("dl", given, class_="facts") if given else None


def folded(title: str, inside: Markup) -> Markup:
    """Return a collapsed section."""
    return element("details", element("summary", title), inside)


def value_text(value: Any) -> str:
    """Return the value of a parameter as text."""
    return figure(value) if isinstance(value, float) else "" if value is None else str(value)


def _entries(made: Made) -> list[tuple[str, str]]:
    entries = []
    if made.code is not None:
        code = made.code
        changed = " with uncommitted changes" if code.dirty else ""
        entries = [("repository", code.repository), ("branch", code.branch),
                   ("commit", f"{code.commit or 'none yet'}{changed}"), ("nearest tag", code.describe),
                   ("changed", ", ".join(code.changed)), ("not saved", "; ".join(code.left_out))]
    return [*entries, ("directory", made.directory), ("python", made.python),
            ("seeds", ", ".join(f"{name}={value_text(value)}" for name, value in made.seeds.items())),
            ("machine", ", ".join(made.machine)), ("user", made.user), ("rerun of", made.derived_from),
            ("problems", " ".join(made.problems))]


def _data(made: Made) -> Markup:
    more = f", and {made.data_left_out:,} more not listed" if made.data_left_out else ""
    rows = [(file.path, file.fingerprint or "–", size(file.size_bytes)) for file in made.data[:_MOST_ROWS]]
    return folded(f"Data ({count(len(made.data), 'file')} opened{more})",
                  table("Files opened", ("file", "fingerprint (XXH3)", "size"), rows, numbers=1))


def _named(caption: str, heads: tuple[str, str], values: Mapping[str, Any]) -> Markup:
    return table(caption, heads, [(name, value_text(value)) for name, value in sorted(values.items())][:_MOST_ROWS],
                 numbers=0)


def _known(report: Report) -> Background:
    assert report.background is not None
    return report.background
