"""Compares two runs: bit-identical, equal within noise, or different, and where they first differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from barograph.errors import DamagedChunk
from barograph.model.facts import Fact, fact
from barograph.model.key import Kind
from barograph.model.origin import Code, DataFile, Origin
from barograph.provenance.packages import differing
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.side_by_side import Parting, SideBySide, side_by_side
from barograph.runs.state.origins import read_origin
from barograph.watch.figures import count, figure

NOISE = 0.01
"""Default maximum distance that counts as noise; see `side_by_side`."""
_MOST_NAMED = 5
_NOUNS = {"parameters": "parameter ", "packages": "package ", "data": "data file ", "seeds": "setting ",
          "python": "Python "}
_PLURAL = ("uncommitted changes", "untracked files", "deleted files", "GPUs")


class Sameness(StrEnum):
    """Result of comparing two runs."""

    IDENTICAL = "identical"
    """All values recorded by both are bit-identical, with the same number of losses."""
    WITHIN_NOISE = "within noise"
    """The same steps, losses and scalars, with no distance above the noise limit."""
    DIFFERENT = "different"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A difference between the origins of two runs.

    Attributes:
        what: "parameters", "code", "packages", "data", "seeds", "python" or "machine".
        name: Name of the parameter, file, package or submodule ("submodule lib").
        first, second: Its value in each run, as text.
    """

    what: str
    name: str
    first: str
    second: str

    def in_words(self) -> str:
        """Return a description.

        Example:
            >>> Cause("parameters", "lr", "0.1", "0.2").in_words()
            'the parameter lr differs (0.1 and 0.2)'
        """
        differ = "differ" if self.name in _PLURAL else "differs"
        return f"the {_NOUNS.get(self.what, '')}{self.name} {differ} ({self.first} and {self.second})"


@dataclass(frozen=True, slots=True)
class Repetition:
    """Comparison of two runs.

    Attributes:
        first, second: Their places.
        sameness: The result.
        causes: Differences of their origins, most relevant first; machine and Python last.
        numbers: Comparison of their records.
        noise: Maximum distance that counts as noise.
        why: Summary in one sentence.
    """

    first: str
    second: str
    sameness: Sameness
    causes: tuple[Cause, ...]
    numbers: SideBySide
    noise: float
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"first": self.first, "second": self.second, "sameness": str(self.sameness), "why": self.why,
                "noise": self.noise, "causes": [asdict(cause) for cause in self.causes],
                "numbers": asdict(self.numbers)}


def repetition_of(first: RunReader, second: RunReader, *, noise: float = NOISE) -> Repetition:
    """Compare two runs.

    Args:
        first: The reference.
        second: The other run.
        noise: Maximum distance of losses, scalars and weights that counts as noise.

    Raises:
        StoreError: A run cannot be read.
    """
    numbers = side_by_side(first, second)
    causes = causes_between(_origin(first), _origin(second))
    sameness = _judged(numbers, noise)
    return Repetition(first.url, second.url, sameness, causes, numbers, noise, _why(sameness, numbers, causes, noise))


def causes_between(first: Origin | None, second: Origin | None) -> tuple[Cause, ...]:
    """Return the differences between two origins; none if either is missing."""
    if first is None or second is None:
        return ()
    return (
        *_of_tables("parameters", first.parameters, second.parameters), *_of_code(first.code, second.code),
        *_of_packages(first, second), *_of_data(first.given, second.given),
        *_of_tables("seeds", *(_without_parameters(origin) for origin in (first, second))),
        *_of_texts("python", "version", first.python_version, second.python_version),
        *_of_texts("machine", "processor", first.hardware.processor, second.hardware.processor),
        *_of_texts("machine", "GPUs", ", ".join(first.hardware.gpus), ", ".join(second.hardware.gpus)),
    )


def _origin(run: RunReader) -> Origin | None:
    try:
        return read_origin(run.store)
    except DamagedChunk:
        return None


def _judged(numbers: SideBySide, noise: float) -> Sameness:
    if numbers.shape or not numbers.compared:
        return Sameness.DIFFERENT
    if not numbers.differing:
        return Sameness.IDENTICAL
    return Sameness.WITHIN_NOISE if numbers.apart <= noise else Sameness.DIFFERENT


def _why(sameness: Sameness, numbers: SideBySide, causes: tuple[Cause, ...], noise: float) -> str:
    records = count(numbers.compared, "record")
    if sameness is Sameness.IDENTICAL:
        return f"All {records} that both runs have are bit-identical."
    apart = f"{numbers.apart_key} differs most, by {figure(numbers.apart)} of its range" \
        if numbers.apart_key else "losses, scalars and weight norms are equal"
    if sameness is Sameness.WITHIN_NOISE:
        return (f"{numbers.differing:,} of {records} differ, none by more than {figure(noise)}: {apart}. "
                f"First: {in_words(numbers.parts)}.")
    said = [cause.in_words() for cause in causes[:_MOST_NAMED]]
    if len(causes) > _MOST_NAMED:
        said.append(f"{len(causes) - _MOST_NAMED:,} more")
    if numbers.shape:
        said.append(numbers.shape)
    if numbers.parts:
        said.append(f"the records first differ at {in_words(numbers.parts)}")
    if numbers.loss_parts and numbers.loss_parts != numbers.parts:
        said.append(f"the loss at {in_words(numbers.loss_parts)}")
    if causes:  # else it may begin with the name of a worker or a metric
        said[0] = f"{said[0][0].upper()}{said[0][1:]}"
    return "; ".join(said) + "."


def in_words(parting: Parting | None) -> str:
    """Return where two runs first differ, as text."""
    if parting is None:
        return "nowhere"
    mode = "" if parting.mode == "train" else f" of {parting.mode}"
    if parting.key == str(fact(Fact.BATCH_DIGEST)):  # of a digest, only that it differs says something
        return f"step {parting.step}{mode}, the content of the batch"
    kind, _, name = parting.key.partition(":")
    what, _, about = name.rstrip("]").partition("[")
    if kind == Kind.FACT and what == Fact.BAD_OPERATION:
        first, second = ("yes" if value else "no" for value in (parting.first, parting.second))
        whence = f" from {about}" if about else ""
        return f"step {parting.step}{mode}, NaN or infinite values{whence}: {first} and {second}"
    shown = name.replace("_", " ") if kind == Kind.FACT else parting.key
    statistic = "" if parting.statistic == "value" else f" ({parting.statistic})"
    return f"step {parting.step}{mode}, {shown}{statistic}: {_number(parting.first)} and {_number(parting.second)}"


def _number(value: float) -> str:
    return "NaN" if math.isnan(value) else figure(value)


def _of_tables(what: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Cause]:
    return [Cause(what, name, _shown(first, name), _shown(second, name)) for name in sorted({*first, *second})
            if first.get(name) != second.get(name) or (name in first) != (name in second)]


def _of_texts(what: str, name: str, first: str, second: str) -> list[Cause]:
    return [Cause(what, name, first or "unknown", second or "unknown")] if first != second else []


def _of_code(first: Code | None, second: Code | None) -> list[Cause]:
    if first is None or second is None:
        return []
    found = _of_texts("code", "commit", first.commit[:12], second.commit[:12])
    # The names of these objects contain their digests.
    found += _of_texts("code", "uncommitted changes", _digest(first.diff), _digest(second.diff))
    found += _of_texts("code", "untracked files", _digest(first.untracked), _digest(second.untracked))
    found += _of_texts("code", "deleted files", ", ".join(first.deleted) or "none",
                       ", ".join(second.deleted) or "none")
    modules = [{f"submodule {item.path}": f"{item.commit[:12]}{' with changes' if item.dirty else ''}"
                for item in code.submodules} for code in (first, second)]
    return [*found, *_of_tables("code", *modules)]


def _digest(name: str) -> str:
    parts = name.split(".")
    return parts[1][:12] if len(parts) > 1 else "none"


def _of_packages(first: Origin, second: Origin) -> list[Cause]:
    # If a list of packages is missing, no difference is known.
    if not first.packages or not second.packages:
        return []
    return [Cause("packages", name, *("missing" if name not in origin.packages else
                                      f"{origin.packages[name].version} {origin.packages[name].digest[:8]}".strip()
                                      for origin in (first, second)))
            for name in differing(first.packages, second.packages)]


def _of_data(first: tuple[DataFile, ...], second: tuple[DataFile, ...]) -> list[Cause]:
    # By relative name: a checkout has its data elsewhere.
    known = [{_short(file.path): file for file in files if file.fingerprint} for files in (first, second)]
    return [Cause("data", name, known[0][name].fingerprint[:12], known[1][name].fingerprint[:12])
            for name in sorted(known[0].keys() & known[1].keys())
            if known[0][name].fingerprint != known[1][name].fingerprint]


def _short(path: str) -> str:
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _without_parameters(origin: Origin) -> Mapping[str, Any]:
    """Return the seeds of the environment: an option such as --seed is also a parameter, and is compared there."""
    return {name: value for name, value in origin.seeds.items() if name not in origin.parameters}


def _shown(table: Mapping[str, Any], name: str) -> str:
    return str(table[name]) if name in table else "not given"
