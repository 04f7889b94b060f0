"""Creates and opens studies of jobs by name."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from barograph.errors import BarographError, JobRefused, StudyExists, TuneError, UnknownStudy
from barograph.jobs.home import JobsHome
from barograph.jobs.submitting import channels_of
from barograph.jobs.typed_secrets import secret_problems
from barograph.model.clock import ManualClock
from barograph.provenance.secrets import Secrets
from barograph.runs.state.places import root_place
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.tune.options import completion_of, stopping_of
from barograph.tune.space import Space
from barograph.tune.study import Study
from barograph.tune.study_events import event_log
from barograph.tune.study_home import FOLDER, StudyHome, check_study_name
from barograph.tune.trial_plan import TrialPlan


def study_root(to: str = "") -> str:
    """Return the URL of the directory that studies and their runs are stored below; "": the usual root."""
    return store_from_url(to or root_place()).url


def create_study(plan: TrialPlan, space: Space, options: Mapping[str, Any], home: JobsHome) -> Study:
    """Create a study of jobs.

    Args:
        plan: How trials are trained.
        space: What varies.
        options: Options of `barograph tune`, by their names with underscores.
        home: Directory of the jobs.

    Raises:
        StudyExists: A study with that name exists.
        JobRefused: A secret was typed.
        UnknownStudy: There is no such parent.
        TuneError, SettingsError: An option is wrong.
        StoreError: The store is unreachable.
    """
    check_study_name(plan.name)
    studies = StudyHome(home)
    url = plan.url_of(f"{FOLDER}/{plan.name}")
    # Before the study is stored, because its plan has what was typed.
    if typed := secret_problems(plan.spec, url, Secrets(os.environ)):
        raise JobRefused("\n".join(typed))
    if options.get("max_cost") is not None and math.isnan(plan.spec.price) and math.isnan(plan.spec.spot_price):
        raise TuneError("--max-cost needs the price of an instance per hour: --price.")
    parents = [studies.url(parent) for parent in options.get("parent") or ()]
    with studies.lock(plan.name) as is_ours:
        if not is_ours or found_study(plan.name, home):
            raise StudyExists(f'There is a study named "{plan.name}". Continue it with  barograph tune resume '
                              f"{plan.name}  or use another --name.")
        # First, so that a study always has a name, also if this process is killed.
        studies.add(plan.name, url)
        try:
            return Study.create(
                url, space, maximize=list(options.get("maximize") or ()), minimize=list(options.get("minimize") or ()),
                strategy=options.get("strategy") or "auto", seed=options.get("seed"),
                completion=completion_of(options), stopping=stopping_of(options), details=plan.to_json(),
                parents=parents, transfer=bool(options.get("transfer")))
        except BarographError:
            studies.remove(plan.name)
            raise


def check_job(plan: TrialPlan, space: Space, home: JobsHome) -> None:
    """Raise `JobRefused` if trials cannot run: before their study is stored, and its name is taken."""
    spec = plan.job_spec(plan.job_names.format(number=0), space.values([0.5] * len(space)), names=space.names)
    channels_of(spec, home, plan.url_of(spec.name))


def found_study(name: str, home: JobsHome) -> Study | None:
    """Return the study of that name; None if there is none, or it was deleted or not completely created.

    Raises:
        UnknownStudy: The record of the name is damaged.
        TuneError, StoreError: The study cannot be read.
    """
    studies = StudyHome(home)
    if not studies.has(name):
        return None
    url = studies.url(name)
    try:
        return Study.open(url)
    except UnknownStudy:
        return None


def open_study(name: str, home: JobsHome) -> Study:
    """Return a study by its name, or by its directory or URL.

    Raises:
        UnknownStudy: There is no such study.
        TuneError, StoreError: It cannot be read.
    """
    return Study.open(StudyHome(home).url(name))


def study_at(place: str, home: JobsHome | None = None) -> Study | None:
    """Return the study at a directory or URL, or this user's study of that name; None if there is none.

    Raises:
        TuneError, StoreError: It cannot be read.
    """
    names = StudyHome(home or JobsHome())
    if "/" not in place and names.has(place):
        return Study.open(names.url(place), clock=ManualClock())
    if "://" not in place and not os.path.isdir(place):
        return None
    try:
        return Study.open(place, clock=ManualClock())  # reading a study must not count as time spent on it
    except UnknownStudy:
        return None


def name_of(place: str) -> str:
    """Return the name of a study from its place: the last part."""
    return place.rstrip("/").rpartition("/")[2] or place


def was_deleted(place: str) -> bool:
    """Return whether a place is reachable and has no study any more."""
    try:
        store = store_from_url(place)
        if isinstance(store, FileStore):  # without the folder above, its disk may be missing
            return store.root.parent.is_dir() and not store.root.exists()
        return not event_log(store, ManualClock()).new()
    except BarographError:
        return False


def open_studies(home: JobsHome) -> Iterable[tuple[str, Study | str]]:
    """Yield name and study of all studies, the newest first; instead of one that cannot be read, the reason.

    Those that were deleted are left out.
    """
    studies = StudyHome(home)
    for name in reversed(studies.names()):
        place = ""
        try:
            place = studies.url(name)
            yield name, Study.open(place)
        except BarographError as error:
            if not (place and was_deleted(place)):
                yield name, str(error)
