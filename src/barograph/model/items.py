"""Items of the catalog of experiments, and the entries of its journal, as plain data.

Everything with a name is an *item*: an experiment, a trial, a component, an artifact, an action, a context.
The journal records *entries* about items. The state of an item is the result of all its entries, in order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest

Value = bool | float | int | str | list[Any] | None
"""Value of a parameter."""


class ItemKind(StrEnum):
    """Kind of an item."""

    EXPERIMENT = "experiment"
    """A goal or a hypothesis."""
    TRIAL = "trial"
    """One set of variables in an experiment."""
    COMPONENT = "component"
    """A part of trials that several can share: settings, a data set, a processing step."""
    RUN = "run"
    """A component that Barograph recorded."""
    ARTIFACT = "artifact"
    """An input or output: a data set, a model."""
    ACTION = "action"
    """Something done by a person or by a program that is not a run."""
    CONTEXT = "context"
    """Something other items belong to: an endpoint, a project."""


class Relation(StrEnum):
    """How one item depends on another: read SOURCE RELATION TARGET."""

    CONTRIBUTED_TO = "contributed_to"
    ASSOCIATED_WITH = "associated_with"
    DERIVED_FROM = "derived_from"
    PRODUCED = "produced"
    SAME_AS = "same_as"


class Verb(StrEnum):
    """Kinds of changes to an item."""

    CREATE = "create"
    """Create the item. Data: kind, name, parent (the experiment of a trial)."""
    SET = "set"
    """Set fields."""
    PARAMETERS = "parameters"
    """Set parameters."""
    TAG = "tag"
    """Set tags; None removes a tag."""
    NOTE = "note"
    """Add a note. Data: text."""
    METRICS = "metrics"
    """Set metrics that no run records. Data: name to the fields of a `MetricSummary`."""
    INPUT = "input"
    OUTPUT = "output"
    """Add an input or output artifact. Data: the fields of an `ArtifactLink`."""
    JOIN = "join"
    """Add it to a trial. Data: trial."""
    LEAVE = "leave"
    RELATE = "relate"
    """Relate it to another item. Data: relation, target."""
    UNRELATE = "unrelate"
    DELETE = "delete"
    """Delete it. It can be restored for a while."""
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal about an item.

    Attributes:
        uid: Identity of the item.
        verb: What it changes.
        data: Its content as JSON data.
        time_unix: Time by the clock of the writer.
        by: User name of the writer; "" if unknown.
    """

    uid: str
    verb: Verb
    data: Mapping[str, Any] = field(default_factory=dict)
    time_unix: float = 0.0
    by: str = ""


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """Summary statistics of a metric.

    Attributes:
        last: Last value by step, then by time.
        min, max: Extremes of the values that are not NaN; NaN if there are none.
        mean, std: Mean and population standard deviation of the finite values; NaN if there are none.
        count: Number of values, including NaN.
        first_step, last_step: First and last step.
    """

    last: float
    min: float = math.nan
    max: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    count: int = 1
    first_step: int = 0
    last_step: int = 0


STATISTICS = ("last", "min", "max", "mean", "std", "count", "first_step", "last_step")
"""Names of the statistics of a `MetricSummary` in searches and tables."""


@dataclass(frozen=True, slots=True)
class ArtifactLink:
    """An artifact as an input or output of a component.

    Attributes:
        name: Name within the component.
        uri: Location.
        media_type: Media type as in HTTP; "" if unknown.
        digest: Digest of its bytes, `sha256:…`; "" if not computed.
        size_bytes: Size; -1 if unknown.
    """

    name: str
    uri: str
    media_type: str = ""
    digest: str = ""
    size_bytes: int = -1


def uid_of(kind: ItemKind, name: str, *, parent: str = "") -> str:
    """Return the identity of a named item. It depends only on the arguments.

    Two processes that create the same name at once create one item. Runs are identified by `run_id` instead.

    Args:
        kind: Kind of the item.
        name: Any string.
        parent: Identity of the experiment, for a trial.

    Example:
        >>> uid_of(ItemKind.EXPERIMENT, "small nets") == uid_of(ItemKind.EXPERIMENT, "small nets")
        True
        >>> uid_of(ItemKind.EXPERIMENT, "small nets")[:11]
        'experiment-'
    """
    digest = hashlib.sha256(f"{kind}\0{parent}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}-{digest[:24]}"


def relation_from(text: Relation | str) -> Relation:
    """Return the relation with this name.

    Raises:
        UnknownName: There is no such relation.

    Example:
        >>> relation_from("derived_from").value
        'derived_from'
    """
    if text not in tuple(Relation):
        raise UnknownName(f'"{text}" is not a relation. {nearest(str(text), tuple(Relation))}')
    return Relation(text)


def checked_name(what: str, name: object) -> str:
    """Return a valid name of an item: any nonblank string on one line.

    Raises:
        SettingsError: The name is not valid.
    """
    if not isinstance(name, str):
        raise SettingsError(f"The name of {what} must be a string, not {type(name).__name__}: {name!r}.")
    if not name.strip():
        raise SettingsError(f"The name of {what} is empty.")
    if len(name) > MOST_NAME_CHARS:
        raise SettingsError(f"The name of {what} has {len(name):,} characters; the limit is {MOST_NAME_CHARS:,}: "
                            f'"{name[:40]}…".')
    if any(character in name for character in "\n\r\0"):
        raise SettingsError(f"The name of {what} must be on one line: {name!r}.")
    return name


MOST_NAME_CHARS = 1000
DEEPEST = 50
"""Nesting limit of tables and lists in a parameter."""


def checked_value(name: str, value: object, *, depth: int = 0) -> Value:
    """Return the value of a parameter as it is stored: a number, a string, a bool, a list of these, or None.

    Numbers of NumPy and of frameworks are converted by `item()`; a tuple becomes a list.

    Args:
        name: Name of the parameter, for the message.
        value: Value of the parameter.
        depth: Current nesting level.

    Raises:
        SettingsError: The value has another type, or lists nest deeper than `DEEPEST`.
    """
    if value is None or isinstance(value, bool | int | float | str):
        # An instance of a subclass (an enumeration's string) is stored as its base type.
        return value if value is None or isinstance(value, bool) else _plain(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        if depth >= DEEPEST:
            raise _too_deep(name)
        return [checked_value(name, item, depth=depth + 1) for item in value]
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", 1) == 1:
        return checked_value(name, item(), depth=depth + 1)
    if callable(tolist := getattr(value, "tolist", None)):
        return checked_value(name, tolist(), depth=depth + 1)
    raise SettingsError(f'Parameter "{name}" is {type(value).__name__}; a parameter must be a number, a string, a '
                        "bool or a list of these. Convert it to a string, or log a nested table with log_parameters.")


def checked_number(name: str, value: object) -> float:
    """Return the value of a metric as a Python float; accepts any type that converts to a number.

    Raises:
        SettingsError: The value is not a number, or does not fit a double.
    """
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(f'Metric "{name}" is {type(value).__name__}, and must be a number that fits a '
                            "double.") from None


def checked_tags(tags: Mapping[str, object]) -> dict[str, str | None]:
    """Return tags as they are stored: name to string, None to remove the tag.

    Raises:
        SettingsError: A name is not valid.
    """
    return {checked_name("a tag", name): None if text is None else str(text) for name, text in tags.items()}


def _too_deep(name: str) -> SettingsError:
    return SettingsError(f'Parameter "{name[:60]}" nests more than {DEEPEST} tables or lists, or contains '
                      "itself. Log its parts under their own names.")


def _plain(value: float | int | str) -> Value:
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None


def flattened(parameters: Mapping[str, Any], *, prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return nested tables of parameters as one flat table with dotted names; an empty table becomes the string "{}".

    Args:
        parameters: Name to value; names that are not strings are converted to strings.
        prefix: Prefix of each name.
        depth: Current nesting level.

    Raises:
        SettingsError: Tables nest deeper than `DEEPEST`, or one contains itself.

    Example:
        >>> flattened({"optimizer": {"lr": 0.1, "betas": (0.9, 0.999)}, "epochs": 3})
        {'optimizer.lr': 0.1, 'optimizer.betas': (0.9, 0.999), 'epochs': 3}
    """
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping) and value:
            if depth >= DEEPEST:
                raise _too_deep(f"{prefix}{name}")
            flat.update(flattened(value, prefix=f"{prefix}{name}.", depth=depth + 1))
        else:
            flat[f"{prefix}{name}"] = "{}" if isinstance(value, Mapping) else value
    return flat
