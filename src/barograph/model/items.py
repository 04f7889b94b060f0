"""What experiments are made of, as plain data: the items of a catalog, and what is told of them.

Everything that has a name is an *item*: an experiment, a trial, a component, an artifact, an action, a context.
What is told of items are *entries*. An item is all that its entries say, one after the other.
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
"""Of a parameter."""


class ItemKind(StrEnum):
    """What an item is."""

    EXPERIMENT = "experiment"
    """A goal, or a hypothesis."""
    TRIAL = "trial"
    """One set of variables in an experiment."""
    COMPONENT = "component"
    """What a trial is made of, and shares with others: settings, a data set, a step of work."""
    RUN = "run"
    """A component that was recorded."""
    ARTIFACT = "artifact"
    """What was read or made: a data set, a model."""
    ACTION = "action"
    """Something that was done, by a person or a program that is no run."""
    CONTEXT = "context"
    """A place that other things belong to: an endpoint, a project."""


class Relation(StrEnum):
    """How one item came of another: read SOURCE RELATION TARGET."""

    CONTRIBUTED_TO = "contributed_to"
    ASSOCIATED_WITH = "associated_with"
    DERIVED_FROM = "derived_from"
    PRODUCED = "produced"
    SAME_AS = "same_as"


class Verb(StrEnum):
    """What an entry says of its item."""

    CREATE = "create"
    """It is there. Data: kind, name, parent (the experiment of a trial)."""
    SET = "set"
    """Fields have these values."""
    PARAMETERS = "parameters"
    """It was made with these."""
    TAG = "tag"
    """Tags have these values; None takes one away."""
    NOTE = "note"
    """Somebody says something of it. Data: text."""
    METRICS = "metrics"
    """Numbers came out, which no run records. Data: name to the fields of a `MetricSummary`."""
    INPUT = "input"
    OUTPUT = "output"
    """It read, or made, an artifact. Data: the fields of an `ArtifactLink`."""
    JOIN = "join"
    """It belongs to a trial from now on. Data: trial."""
    LEAVE = "leave"
    RELATE = "relate"
    """It came of another. Data: relation, target."""
    UNRELATE = "unrelate"
    DELETE = "delete"
    """It is to be forgotten, after a while in which it can be restored."""
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is told of an item.

    Attributes:
        uid: Of the item.
        verb: What is said.
        data: Of it, as JSON data.
        time_unix: When, by the clock of who says it.
        by: Who: the user's name on the machine; "" where it is not known.
    """

    uid: str
    verb: Verb
    data: Mapping[str, Any] = field(default_factory=dict)
    time_unix: float = 0.0
    by: str = ""


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """What a series of numbers came to.

    Attributes:
        last: Its last value, by step; then by time.
        min, max: Over the numbers that are not NaN; NaN where there is none.
        mean, std: Likewise, of those that are finite; std of the population.
        count: Of all numbers, NaN among them.
        first_step, last_step: Of the series.
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
"""Of a `MetricSummary`, as searches and tables call them."""


@dataclass(frozen=True, slots=True)
class ArtifactLink:
    """An artifact as the component knows it that read or made it.

    Attributes:
        name: By which the component calls it.
        uri: Where it is.
        media_type: What it is made of, as in HTTP; "" where that is not known.
        digest: Of its bytes, `sha256:…`; "" where it was not computed.
        size_bytes: How large it is; -1 where that is not known.
    """

    name: str
    uri: str
    media_type: str = ""
    digest: str = ""
    size_bytes: int = -1


def uid_of(kind: ItemKind, name: str, *, parent: str = "") -> str:
    """Return the identity of an item that is known by its name: the same wherever it is asked.

    So two processes that create one name at once create one thing. A run has its `run_id` in place of it.

    Args:
        kind: What it is.
        name: Any text.
        parent: Of a trial, the identity of its experiment.

    Example:
        >>> uid_of(ItemKind.EXPERIMENT, "small nets") == uid_of(ItemKind.EXPERIMENT, "small nets")
        True
        >>> uid_of(ItemKind.EXPERIMENT, "small nets")[:11]
        'experiment-'
    """
    digest = hashlib.sha256(f"{kind}\0{parent}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{kind}-{digest[:24]}"


def relation_from(text: Relation | str) -> Relation:
    """Return the relation of that name.

    Raises:
        UnknownName: There is none.

    Example:
        >>> relation_from("derived_from").value
        'derived_from'
    """
    if text not in tuple(Relation):
        raise UnknownName(f'"{text}" is no relation. {nearest(str(text), tuple(Relation))}')
    return Relation(text)


def checked_name(what: str, name: object) -> str:
    """Return a name that an item may have: any text with something to be seen in it, in one line.

    Raises:
        SettingsError: It is none.
    """
    if not isinstance(name, str):
        raise SettingsError(f"The name of {what} is a text; this is {type(name).__name__}: {name!r}.")
    if not name.strip():
        raise SettingsError(f"The name of {what} is empty.")
    if len(name) > MOST_NAME_CHARS:
        raise SettingsError(f"The name of {what} has {len(name):,} characters; {MOST_NAME_CHARS:,} are the most: "
                            f'"{name[:40]}…".')
    if any(character in name for character in "\n\r\0"):
        raise SettingsError(f"The name of {what} must be in one line: {name!r}.")
    return name


MOST_NAME_CHARS = 1000
DEEPEST = 50
"""So many tables or lists may lie in each other in a parameter."""


def checked_value(name: str, value: object, *, depth: int = 0) -> Value:
    """Return the value of a parameter, as it is kept: a number, a text, a truth value, a list of such, or None.

    Numbers of NumPy and of frameworks are taken for what they say (`item()`); a tuple becomes a list.

    Args:
        name: Of the parameter, for the message.
        value: Of it.
        depth: In how many lists it stands.

    Raises:
        SettingsError: It is something else, or lists lie in each other more than `DEEPEST` deep.
    """
    if value is None or isinstance(value, bool | int | float | str):
        # A subclass (an enumeration's text, say) is kept as what it extends.
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
    raise SettingsError(f'Parameter "{name}" is {type(value).__name__}; a parameter is a number, a text, True or '
                        "False, or a list of these. Write it as a text, or log a nested table by log_parameters.")


def checked_number(name: str, value: object) -> float:
    """Return the value of a metric: a number of Python's, or what says that it is one.

    Raises:
        SettingsError: It is none, or larger than a double.
    """
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(f'Metric "{name}" is {type(value).__name__}, and must be one number that a double '
                            "holds.") from None


def checked_tags(tags: Mapping[str, object]) -> dict[str, str | None]:
    """Return tags as they are kept: name to text, None for one that is taken away.

    Raises:
        SettingsError: A name is none.
    """
    return {checked_name("a tag", name): None if text is None else str(text) for name, text in tags.items()}


def _too_deep(name: str) -> SettingsError:
    return SettingsError(f'Parameter "{name[:60]}" is more than {DEEPEST} tables or lists deep, or lies in itself; log '
                         "its parts by names of their own.")


def _plain(value: float | int | str) -> Value:
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None


def flattened(parameters: Mapping[str, Any], *, prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Return nested tables of parameters as one, with dots in the names; an empty one is the text "{}".

    Args:
        parameters: Name to value; names that are no texts are taken as they are printed.
        prefix: Before each name.
        depth: In how many tables these stand.

    Raises:
        SettingsError: Tables lie in each other more than `DEEPEST` deep, or one lies in itself.

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
