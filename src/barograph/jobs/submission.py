"""Objects that a submission writes into the job's store for its agents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import DamagedChunk, NotARun, ObjectNotFound
from barograph.jobs.job_log import SPEC
from barograph.jobs.spec import JobSpec, spec_from_json
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it was submitted.

    Attributes:
        name: Name of the job.
        spec: The job.
        launch: How its processes record themselves: a `Launch` as text; "": they do not.
        directory: Working directory of the submitting shell.
        code: Digest of the packed source folder; "": the script runs in `directory`, on this machine.
        python: Python that submitted it.
        run_id: ID of its run.
    """

    name: str
    spec: JobSpec
    launch: str = ""
    directory: str = ""
    code: str = ""
    python: str = ""
    run_id: str = ""


def write_submission(store: Store, submission: Submission) -> None:
    """Write a submission once.

    Raises:
        ObjectExists: The store has one.
        StoreError: The store rejects it.
    """
    body: Mapping[str, Any] = {name: getattr(submission, name) for name in Submission.__slots__ if name != "spec"}
    store.create(SPEC, sealed({**body, "spec": json.dumps(submission.spec.to_json())}))


def read_submission(store: Store) -> Submission:
    """Return the submission of a job.

    Raises:
        NotARun: The store has no job.
        DamagedChunk: The submission is damaged.
        StoreError: The store cannot be read.
    """
    try:
        body = unsealed(store.get(SPEC), SPEC)
    except ObjectNotFound:
        raise NotARun(f"There is no job at {store.url}.") from None
    try:
        known = {name: body[name] for name in Submission.__slots__ if name in body}  # others are of another version
        return Submission(**{**known, "spec": spec_from_json(json.loads(body["spec"]))})
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DamagedChunk(f"The job cannot be read: {error} ({store.url}).") from error
