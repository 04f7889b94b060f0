"""A run that was a job is made again with the packages of its job, not with those of the Python that submitted it."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from barograph.errors import CheckoutFailed, RerunFailed
from barograph.jobs import environment
from barograph.jobs.agent import Agent
from barograph.jobs.code import pack
from barograph.jobs.home import JobsHome
from barograph.jobs.job_log import CODE
from barograph.jobs.rerunning import code_again, job_of, python_again, variables_again
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Ended, Outcome
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import SystemClock
from barograph.model.origin import Origin, Package
from barograph.model.settings import Settings
from barograph.provenance.gathering import Gathered
from barograph.provenance.secrets import Secrets
from barograph.rerun.environment import present_environment
from barograph.rerun.uv import uv_program
from barograph.runs.state.claim import create_run
from barograph.runs.state.origins import read_origin, write_origin
from barograph.runs.state.places import new_manifest
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from wheels import make_wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        make_wheel(folder, "alpha", version)
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setattr(environment, "_own_requirements", list)
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def run(wheels: Path, tmp_path: Path) -> Store:
    """The run of a job that has ended, whose script asked for any alpha."""
    store, code = store_from_url(str(tmp_path / "run")), tmp_path / "code"
    code.mkdir()
    (code / "requirements.txt").write_text("alpha\n")
    packed, spec = pack(code, secrets=Secrets()), JobSpec(("true",))
    store.put(f"{CODE}.{packed.digest}", packed.data)
    write_submission(store, Submission("digits", spec, code=packed.digest))
    create_run(store, new_manifest(Settings(to=store.url), command=spec.words, clock=SystemClock(), name="digits"))
    write_origin(store, 0, Gathered(Origin(interpreter="/no/such/python", python_version="3.1",
                                           packages={"submitter": Package("1")})))
    former = signal.getsignal(signal.SIGTERM)
    assert Agent(store, 0, 0, tmp_path / "work", JobsHome().cache).run() == Ended(Outcome.FINISHED, 0)
    signal.signal(signal.SIGTERM, former)
    return store


def of_job(spec: JobSpec, tmp_path: Path) -> Store:
    store = store_from_url(str(tmp_path / "other"))
    write_submission(store, Submission("digits", spec))
    return store


@pytest.mark.skipif(not uv_program(), reason="uv is not installed")
def test_the_provenance_of_a_job_has_the_packages_of_its_script(run: Store) -> None:
    origin = read_origin(run)
    assert origin is not None
    assert origin.interpreter.startswith(str(JobsHome().cache))
    assert origin.packages["alpha"].version == "2.0"
    assert "submitter" not in origin.packages
    assert present_environment(origin).python == origin.interpreter


@pytest.mark.skipif(not uv_program(), reason="uv is not installed")
def test_an_environment_that_is_gone_is_built_with_the_versions_of_the_job(
    run: Store, wheels: Path, tmp_path: Path
) -> None:
    shutil.rmtree(JobsHome().cache)
    make_wheel(wheels, "alpha", "3.0")
    job = job_of(run)
    assert job is not None
    python = python_again(run, job, tmp_path / "code", progress=print)
    assert python is not None
    done = subprocess.run([python, "-c", "import alpha, barograph; print(alpha.version)"], capture_output=True,
                          text=True, check=True, cwd="/")
    assert done.stdout == "2.0\n"


@pytest.mark.skipif(not uv_program(), reason="uv is not installed")
def test_an_environment_that_cannot_be_built_says_how_to_go_on_without(
    run: Store, wheels: Path, tmp_path: Path
) -> None:
    shutil.rmtree(JobsHome().cache)
    (wheels / "alpha-2.0-py3-none-any.whl").unlink()
    job = job_of(run)
    assert job is not None
    with pytest.raises(RerunFailed, match=r"alpha==2\.0.* Use the current environment: --no-environment\."):
        python_again(run, job, tmp_path / "code", progress=print)
    (tmp_path / "code" / "requirements.txt").unlink()
    with pytest.raises(RerunFailed, match="requirements is missing in the code of the run"):
        python_again(run, job, tmp_path / "code", progress=print)


@pytest.mark.parametrize(("entries", "why"), [
    ({"algorithm": "xgboost"}, "it ran a built-in algorithm"),
    ({"command": ("train.py",), "data": {"train": "data"}}, "it had data channels"),
    ({"command": ("train.py",), "processes": 2}, "it had several processes"),
])
def test_a_job_that_needs_its_instances_is_to_be_submitted_again(
    entries: Mapping[str, object], why: str, tmp_path: Path
) -> None:
    run = of_job(JobSpec(**entries), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(RerunFailed) as raised:
        job_of(run)
    assert str(raised.value) == (f"This run was a job and needs one again, because {why}. Run it again:  "
                                 f"barograph resubmit {run.url}")


def test_a_run_without_a_job_and_a_job_without_an_environment_are_made_again_with_this_python(tmp_path: Path) -> None:
    assert job_of(store_from_url(str(tmp_path / "plain"))) is None
    run = of_job(JobSpec(("train.py",)), tmp_path)
    job = job_of(run)
    assert job is not None
    assert python_again(run, job, tmp_path, progress=print) is None


def test_the_script_finds_the_directories_that_a_job_has(tmp_path: Path) -> None:
    found = variables_again(Submission("digits", JobSpec(("train.py",), hyperparameters={"lr": "0.1"})), tmp_path)
    assert Path(found["SM_MODEL_DIR"]).is_dir()
    assert (found["TRAINING_JOB_NAME"], found["SM_HP_LR"]) == ("digits", "0.1")


def sent(tmp_path: Path, archive: bytes) -> Store:
    """The run of a job that was sent this code."""
    store = store_from_url(str(tmp_path / "sent"))
    store.put(f"{CODE}.ab", archive)
    write_submission(store, Submission("digits", JobSpec(("train.py",)), code="ab"))
    return store


def test_code_of_a_job_outside_git_is_what_it_was_sent(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "parts").mkdir(parents=True)
    (source / "train.py").write_text("import parts.model\n")
    (source / "parts" / "model.py").write_text("")
    run = sent(tmp_path, pack(source, secrets=Secrets()).data)
    made = code_again(run, Origin(), tmp_path / "out")
    assert sorted(path.relative_to(made.directory).as_posix() for path in made.folder.rglob("*.py")) == [
        "parts/model.py", "train.py"]
    with pytest.raises(CheckoutFailed, match="The directory already exists"):
        code_again(run, Origin(), tmp_path / "out")


def test_code_that_is_no_archive_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(CheckoutFailed, match="Cannot unpack the archive of the code"):
        code_again(sent(tmp_path, b"no archive"), Origin(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_with_no_code_at_all_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckoutFailed, match="There is nothing to check out"):
        code_again(store_from_url(str(tmp_path / "plain")), Origin(), tmp_path / "out")
