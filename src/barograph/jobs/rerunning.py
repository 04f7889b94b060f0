"""A job's run made again on this machine, outside of a job: which can be, with which Python and which variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from barograph.errors import CheckoutFailed, JobError, NotARun, RerunFailed
from barograph.jobs.code import unpack
from barograph.jobs.home import JobsHome
from barograph.jobs.job_log import CODE
from barograph.jobs.job_packages import pins_of
from barograph.jobs.launchers import free_ports
from barograph.jobs.layout import InstanceLayout, Place, variables
from barograph.jobs.requirements import requirements_of
from barograph.jobs.submission import Submission, read_submission
from barograph.model.origin import Origin
from barograph.rerun.checkout import Checkout, check_is_new, checked_out
from barograph.store.base import Store


def job_of(run: Store) -> Submission | None:
    """Return the job of a run; None if it has none.

    Raises:
        RerunFailed: It cannot be made again outside of a job.
        DamagedChunk, StoreError: It cannot be read.
    """
    try:
        job = read_submission(run)
    except NotARun:
        return None
    why = "it ran a built-in algorithm" if job.spec.algorithm else "it had data channels" if job.spec.data else \
        "it had several processes" if job.spec.instances * job.spec.processes > 1 else ""
    if why:
        raise RerunFailed(f"This run was a job and needs one again, because {why}. Run it again:  "
                          f"barograph resubmit {run.url}")
    return job


def code_again(run: Store, origin: Origin, folder: Path) -> Checkout:
    """Check out the code of a run: from git, or else the copy that its job received.

    Args:
        run: Store of the run.
        origin: Origin of the run.
        folder: Destination; must not exist.

    Raises:
        CheckoutFailed: As `checked_out`, or the copy is not an archive of code.
        DamagedChunk, StoreError: The run cannot be read.
    """
    sent = "" if origin.code else _sent_code(run)
    if not sent:
        return checked_out(run, origin, folder)
    check_is_new(folder)
    archive = bytes(run.get(f"{CODE}.{sent}"))
    made = Checkout(folder, folder, None, ())
    folder.mkdir(parents=True)
    try:
        unpack(archive, folder)
    except BaseException as error:
        made.remove()
        if isinstance(error, JobError):
            raise CheckoutFailed(str(error)) from error
        raise
    return made


def _sent_code(run: Store) -> str:
    """Return the digest of the code that the job of a run received; "" if there is none."""
    try:
        return read_submission(run).code
    except NotARun:
        return ""


def python_again(run: Store, job: Submission, code: Path, *, progress: Callable[[str], None]) -> Path | None:
    """Return the Python with the packages that a job's script ran with, built unless it is cached.

    Args:
        run: Store of the job.
        job: The job.
        code: Directory of its code, checked out.
        progress: Takes lines that say what is being done.

    Returns:
        None: The script ran with the Python that submitted the job.

    Raises:
        RerunFailed: It cannot be built.
        DamagedChunk, StoreError: The job cannot be read.
    """
    pins = pins_of(run)
    if pins is None:
        return None
    from barograph.jobs.environment import prepare  # loaded here: most scripts use the packages of this Python

    try:
        found = requirements_of(code, job.spec.requirements)
        if found is None:
            raise RerunFailed("The file with the requirements is missing in the code of the run. Use the current "
                              "environment: --no-environment.")
        return prepare(replace(found, pins=pins), code, cache=JobsHome().cache / "environments",
                       progress=progress).python
    except JobError as error:
        raise RerunFailed(f"{error} Use the current environment: --no-environment.") from error


def variables_again(job: Submission, directory: Path) -> dict[str, str]:
    """Return the environment variables of a job's script, with new directories.

    Args:
        job: The job.
        directory: Where to create them.
    """
    layout = InstanceLayout(directory)
    layout.make()
    return variables(layout, job.spec, Place(0, ("127.0.0.1",), free_ports(1)), job=job.name, gpus=job.spec.gpus)
