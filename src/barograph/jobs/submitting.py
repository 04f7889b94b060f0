"""Submitting a job: checks it, writes it to its store, and puts it in the queue."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from barograph.capture.integrations import installed_integrations
from barograph.capture.presets import preset_named
from barograph.errors import ClusterUnavailable, JobRefused, ObjectExists, SettingsError
from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.algorithms.registry import problems_of as algorithm_problems
from barograph.jobs.channels import ListedChannel, listed_channels, write_channels
from barograph.jobs.code import PackedCode, pack
from barograph.jobs.controller_process import announce, dismiss, ensure_controller
from barograph.jobs.engines.engine import ClusterOutage
from barograph.jobs.engines.engines import engines
from barograph.jobs.failure_rate import checkpoints_of
from barograph.jobs.given_environment import environment_problems, given_environment, given_names
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import CODE, EVENTS, EventLog
from barograph.jobs.job_packages import copy_pins
from barograph.jobs.layout import unknown_channels
from barograph.jobs.leftovers import noted_submission
from barograph.jobs.program import program_problem
from barograph.jobs.requirements import requirements_of
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.typed_secrets import hidden, secret_problems
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.plain import plain
from barograph.model.question import question_now
from barograph.model.selection import Selection
from barograph.model.settings import Settings, settings_from_mapping
from barograph.provenance.secrets import Secrets
from barograph.rules.needs import needs_from_settings
from barograph.rules.registry import actions_by_rule, check_capsule_on, rules_from_settings
from barograph.runs.state.claim import create_run
from barograph.runs.state.places import away_from, new_manifest, new_place
from barograph.runs.writing.gathering import start_gathering
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.figures import size
from barograph.watch.watch_command import notify_environment


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submitted job.

    Attributes:
        name: Name of the job.
        store: Its store.
        notes: Which files of the code were left out or changed and why, one sentence each.
    """

    name: str
    store: Store
    notes: tuple[str, ...] = ()


def problems_of(spec: JobSpec, home: JobsHome, url: str = "") -> list[str]:
    """Return everything that keeps a job from running, one sentence each. See `checked`."""
    return checked(spec, home, url)[1]


def checked(spec: JobSpec, home: JobsHome, url: str = "") -> tuple[list[ListedChannel], list[str]]:
    """Return the channels of a job with their objects, and everything that keeps it from running, one sentence each.

    Args:
        spec: The job.
        home: Directory of the jobs of this user.
        url: URL of the job's store; "": not known yet.
    """
    # Before anything else: what follows may repeat what was typed.
    if typed := secret_problems(spec, url, Secrets(os.environ)):
        return [], typed
    made = engines(home)
    if spec.engine not in made:
        return [], [f'There is no engine "{spec.engine}". Choose from {", ".join(made)}.']
    with contextlib.closing(made[spec.engine]()) as engine:
        found = [*engine.problems(spec, url), *environment_problems(spec)]
    if not spec.algorithm:
        try:
            requirements_of(Path.cwd(), spec.requirements)
        except JobRefused as error:
            found.append(str(error))
    found += filter(None, [program_problem(spec)])
    if spec.algorithm:
        algorithm = algorithm_named(spec.algorithm)
        found += algorithm_problems(algorithm, spec.hyperparameters, spec.data, spec.target,
                                    processes=spec.instances * spec.processes)
    channels, wrong = listed_channels(spec, Path.cwd(), home)
    found += wrong
    found += [f'The command uses {{data.{name}}}, but the job has no channel "{name}": --data {name}=…'
              for name in unknown_channels(spec.words, list(spec.data))]
    return channels, found


def channels_of(spec: JobSpec, home: JobsHome, url: str) -> list[ListedChannel]:
    """Return the channels of a job that can run, with their objects; takes what `checked` takes.

    Raises:
        ClusterUnavailable: Its cluster is unreachable, and it has no other problem.
        JobRefused: It has problems; the message lists them.
    """
    channels, problems = checked(spec, home, url)
    if problems:
        passes = all(isinstance(problem, ClusterOutage) for problem in problems)
        raise (ClusterUnavailable if passes else JobRefused)("\n".join(problems))
    return channels


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of a dry run.

    Attributes:
        spec: The job.
        data: Channel to what it would get.
        code: What would be sent.
        packages: Which packages the script would have.
        problems: What keeps it from running.
        notes: Which files of the code would be left out or changed and why, one sentence each.
    """

    spec: JobSpec
    data: Mapping[str, str]
    code: str
    packages: str
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def plan_of(spec: JobSpec, home: JobsHome) -> Plan:
    """Return what a job would do; nothing is started or stored."""
    from barograph.jobs.environment import environment_problem

    if typed := secret_problems(spec, "", Secrets(os.environ)):
        return Plan(hidden(spec, Secrets(os.environ)), {}, "", "", tuple(typed))
    channels, problems = checked(spec, home)
    try:
        _needs(settings_from_mapping(dict(spec.settings)))
    except SettingsError as error:
        problems.append(str(error))
    code = "none: the algorithm is built in"
    notes: tuple[str, ...] = ()
    if not spec.algorithm:
        try:
            packed = _packed(spec, channels, Path.cwd().as_uri(), home, Secrets(os.environ))
            code, notes = f"{size(packed.size_bytes)} from {Path.cwd()}", packed.notes
        except JobRefused as error:
            problems.append(str(error))
            code = ""
    data = {item.channel.name: str(item) for item in channels}
    packages = f"those of {sys.executable}"
    with contextlib.suppress(JobRefused):  # `checked` has said why
        if not spec.algorithm and (found := requirements_of(Path.cwd(), spec.requirements)) is not None:
            packages = f"{found.path}, built by uv"
            problems += filter(None, [environment_problem(found, Path.cwd())])
    return Plan(spec, data, code, packages, tuple(problems), notes)


def submit(
    spec: JobSpec, *, to: str = "", home: JobsHome | None = None, packages: Store | None = None
) -> Submitted:
    """Submit a job and return at once; a controller in another process starts it.

    Args:
        spec: The job.
        to: Where to store it and its run: a directory or a URL; "": a new place in the usual root.
        home: Directory of the jobs of this user; None: the usual one.
        packages: Store of a job whose versions of packages are used if the requirements are the same; None: of none.

    Raises:
        ClusterUnavailable: Its cluster is unreachable, and it has no other problem.
        JobRefused: The job has problems, or there is a job of its name.
        SettingsError: A setting is wrong.
        StoreError: The store rejects it.
    """
    home = home or JobsHome()
    announce(home, "" if spec.cluster else spec.engine)
    try:
        return _submitted(spec, to, home, packages)
    finally:
        dismiss(home)


def _submitted(spec: JobSpec, to: str, home: JobsHome, packages: Store | None) -> Submitted:
    if spec.cluster:
        spec = replace(spec, cluster=os.path.abspath(spec.cluster))  # the controller may run elsewhere
    if os.path.isfile(to):
        raise JobRefused(f"--to is a file; it must be a directory or a URL ({to}).")
    store = store_from_url(to or (f"{new_place(spec.title).rpartition('/')[0]}/{spec.name}" if spec.name
                                  else new_place(spec.title)))
    channels = channels_of(spec, home, store.url)
    environment = given_environment(spec)
    spec = replace(spec, environment=given_names(spec))
    name = spec.name or store.url.rstrip("/").rpartition("/")[2]
    home.check_is_free(name)
    settings = _settings(spec, store)
    # URLs of receivers may have secrets.
    spec = replace(spec, settings={name: value for name, value in spec.settings.items() if name != "notify"})
    launch = replace(Launch(settings, 0, _needs(settings)),
                     integrations=installed_integrations().found)
    directory = Path.cwd()
    secrets = Secrets(environment, named=spec.environment)
    packed = None if spec.algorithm else _packed(spec, channels, store.url, home, secrets)
    manifest = new_manifest(settings, command=secrets.hide_words(spec.shown), clock=SystemClock(), name=name)
    with noted_submission(home, name, store, manifest.run_id):
        try:
            # First, because it claims the place.
            write_submission(store, Submission(name, spec, launch.to_text(), str(directory), python=sys.executable,
                                               code=packed.digest if packed and packed.data else "",
                                               run_id=manifest.run_id))
        except ObjectExists:
            raise JobRefused(f"There is a job at {store.url} already. Use another --to or --name.") from None
        if packed and packed.data:
            store.put(f"{CODE}.{packed.digest}", packed.data)
        if create_run(store, manifest).run_id != manifest.run_id:
            raise JobRefused(f"There is a run at {store.url} already. Use another --to or --name.")
        write_channels(store, manifest.run_id, channels, now_unix=time.time())
        if packages is not None:
            copy_pins(packages, store)
        EventLog(store, EVENTS).append("submitted")
        # Last, because the controller may see it at once.
        home.add(JobRecord(name, store.url, 0, spec.engine),
                 {**environment, **notify_environment(settings)})
    if settings.origin:
        with contextlib.suppress(OSError):  # the job is worth more than its provenance
            start_gathering(store.url, 0, question_now(spec.words, away=away_from(store.url))).let_go()
    ensure_controller(home)
    return Submitted(name, store, packed.notes if packed else ())


def _needs(settings: Settings) -> tuple[Selection, ...]:
    """Return what the rules need; refuse what `barograph run` refuses. Loads the rules only if they are named."""
    preset_named(settings.preset)
    if settings.rule_settings or (settings.recorder and settings.recorder.capsule_on):
        actions_by_rule(settings)
        check_capsule_on(settings, rules_from_settings(settings))
    return needs_from_settings(settings)


def _packed(spec: JobSpec, channels: Sequence[ListedChannel], url: str, home: JobsHome, secrets: Secrets) -> PackedCode:
    """Return the code of the current directory, for a run at a URL.

    Directories of runs, of jobs, and of data that the script finds as channels are not sent, unless the command names
    something in them.

    Raises:
        JobRefused: It is too large, or cannot be read.
    """
    here = Path.cwd()
    # Words such as `--config=data/one.toml` name files, too.
    named = [Path(os.path.abspath(part)) for word in spec.command for part in {word, word.rpartition("=")[2]}]
    data = {path: item.channel.name for item in channels
            if (path := Path(item.channel.source)).is_dir() and here in path.parents
            and not any(path in (file, *file.parents) for file in named)}
    packed = pack(here, secrets=secrets, away=(*map(Path, away_from(url)), home.path, *data))
    return replace(packed, notes=(*packed.notes, *(
        f'"{path.relative_to(here)}": only as the channel {name}.' for path, name in data.items())))


def _settings(spec: JobSpec, store: Store) -> Settings:
    settings = replace(settings_from_mapping(dict(spec.settings)), to=store.url)
    if settings.findings_to:  # the watcher may run elsewhere
        settings = replace(settings, findings_to=os.path.abspath(settings.findings_to))
    return replace(settings, checkpoints=checkpoints_of(settings.checkpoints, spec.checkpoint, spot=spec.spot))
