"""How the trials of a study are trained: the job, its metric, and where it is stored."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, fields, replace
from decimal import Decimal
from typing import Any

from barograph.errors import TuneError
from barograph.jobs.spec import JobSpec, spec_from_json
from barograph.tune.parameter import Value

SUMMARIES = ("last", "best")
_PLACEHOLDER = re.compile(r"\{(\w[\w.-]*)\}")


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """How a study of jobs trains its trials.

    Attributes:
        name: Name of the study, of its experiment, and first part of the names of its jobs.
        spec: The job, without the values that vary.
        root: Directory or URL below which the jobs are stored.
        patterns: Metric to the regular expression that finds its values in the output; other metrics are those that
            the run records, or the script prints as `NAME: NUMBER`.
        summary: Which value of a metric counts: "last" or "best".
        parallel: Number of jobs at the same time.
        confirm: Number of repetitions of the best trials with other seeds at the end; 0: none.
        directory: Directory of the script, which its trials run from; "": the current one.
        packs: Whether trials reserve only as many CPUs as earlier ones used.
        refit: Whether the best trial is trained again at the end, on the rows for validation as well; a built-in
            algorithm only.

    Raises:
        TuneError: A value is wrong.
    """

    name: str
    spec: JobSpec
    root: str
    patterns: Mapping[str, str] = field(default_factory=dict)
    summary: str = "last"
    parallel: int = 1
    confirm: int = 0
    directory: str = ""
    packs: bool = False
    refit: bool = False

    def __post_init__(self) -> None:
        if self.parallel < 1:
            raise TuneError(f"parallel is {self.parallel}; it must be at least 1.")
        if self.confirm < 0 or self.confirm == 1:
            raise TuneError(f"confirm is {self.confirm}; it must be at least 2 repetitions, or 0.")
        if self.summary not in SUMMARIES:
            raise TuneError(f'"{self.summary}" cannot summarize a metric. Choose from {", ".join(SUMMARIES)}.')
        for name, pattern in self.patterns.items():
            check_pattern(name, pattern)

    @property
    def job_names(self) -> str:
        """Names of the jobs, with {number} for the number of the trial."""
        return f"{self.name}-{{number:03d}}"

    @contextlib.contextmanager
    def in_directory(self) -> Iterator[None]:
        """Work in the directory of the script, if this machine has it: a study may be resumed on another one."""
        here = os.getcwd()
        if self.directory in ("", here) or not os.path.isdir(self.directory):
            yield
            return
        os.chdir(self.directory)
        try:
            yield
        finally:
            os.chdir(here)

    def url_of(self, job: str) -> str:
        """Return the URL of the store of a job."""
        return f"{self.root.rstrip('/')}/{job}"

    def job_spec(
        self, job: str, parameters: Mapping[str, Value], *, trial: str = "", names: Collection[str] = ()
    ) -> JobSpec:
        """Return the job of a trial.

        Values replace {name} in the arguments; others become options of the script, `--name value`. Arguments with
        {name} of a parameter that does not apply are left out, with the option before a bare {name}.

        Args:
            job: Name of the job.
            parameters: Values of the trial.
            trial: Name of its trial in the experiment; "": the name of the job.
            names: All parameters of the space.
        """
        texts = {name: text_of(value) for name, value in parameters.items()}
        placed = {name for word in self.spec.command for name in _PLACEHOLDER.findall(word) if name in texts}
        command = tuple(_PLACEHOLDER.sub(lambda found: texts.get(found[1], found[0]), word)
                        for word in _without(self.spec.command, set(names) - set(parameters)))
        settings = {**self.spec.settings, "experiment": self.name, "trial": trial or job}
        spec = replace(self.spec, name=job, command=command, settings=settings)
        return spec.changed({name: text for name, text in texts.items() if name not in placed})

    def to_json(self) -> dict[str, Any]:
        """Return JSON data for the details of a study, without receivers of notifications: their URLs may be secret."""
        settings = {name: value for name, value in self.spec.settings.items() if name != "notify"}
        return {**asdict(self), "spec": replace(self.spec, settings=settings).to_json(),
                "patterns": dict(self.patterns)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrialPlan:
        """Return the plan from its `to_json`; entries of later versions are ignored.

        Raises:
            TuneError: The study does not train with jobs.
        """
        if not is_plan(data):
            raise TuneError("The study tunes a Python function, not jobs. Continue it in Python.")
        known = {item.name: data[item.name] for item in fields(cls) if item.name in data}
        return cls(**{**known, "spec": spec_from_json(data["spec"])})


def can_be_packed(spec: JobSpec) -> bool:
    """Return whether a job may share its only core with others."""
    return spec.cpus == 1.0 and spec.instances == spec.processes == 1 and not spec.gpus


def is_plan(details: Mapping[str, Any]) -> bool:
    """Return whether the details of a study are a `TrialPlan`: otherwise it tunes a Python function."""
    return "spec" in details


def _without(command: Sequence[str], absent: Set[str]) -> list[str]:
    """Return the arguments without those with {name} of an absent parameter."""
    found: list[str] = []
    for word in command:
        if absent.isdisjoint(_PLACEHOLDER.findall(word)):
            found.append(word)
        elif _PLACEHOLDER.fullmatch(word) and found and found[-1].startswith("-") and "=" not in found[-1]:
            found.pop()
    return found


def text_of(value: Value) -> str:
    """Return a value as an argument of a script.

    A negative number has no exponent: argparse takes -1e-05 for an option.

    Example:
        >>> text_of(0.1), text_of(64), text_of("adam"), text_of(True), text_of(-1e-05)
        ('0.1', '64', 'adam', 'true', '-0.00001')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{Decimal(str(value)):f}" if isinstance(value, float) and value < 0 else str(value)


def check_pattern(name: str, pattern: str) -> None:
    """Raise `TuneError` unless a regular expression has one group, for the number."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise TuneError(f"The regular expression of {name} is wrong: {error} ({pattern}).") from error
    if groups != 1:
        raise TuneError(f"The regular expression of {name} needs one group for the number, as in "
                        f"'{name}: ([0-9.]+)'; it has {groups} ({pattern}).")

