"""What tests of several rooms share."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forking import AVAILABLE, ForkServer
from s3_server import s3_server

# The processes that tests start have little to compute, and many run at once: threads would get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What is started in a background ignores Ctrl-C, or a terminal that goes, and so would all that tests start and signal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGHUP", "SIGQUIT"):
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), signal.SIG_DFL)

_BUCKET = "barograph-tests"
_START_SECS = 300.0

_TRAINING = (
    "journeys", "test_examples.py", "test_docs.py::test_what_a_page_shows_runs", "capture/test_keras_backends.py",
    "debugger/test_real_smdebug.py", "capture/test_mxnet.py", "benchmarks/test_workers.py", "benchmarks/test_family.py",
    "benchmarks/test_coverage.py::test_a_program_is_measured_plain_and_recorded", "benchmarks/test_networks.py",
    "benchmarks/test_replay.py::test_a_step_is_held_made_again_to_the_bit_and_its_operation_named",
    "benchmarks/test_replay.py::test_a_step_whose_norm_was_too_great_is_made_again_to_the_bit",
    "benchmarks/test_turns.py::test_a_training_is_measured_by_turns_and_printed",
    "capture/test_jax_observe.py::test_several_devices_by_pmap_and_by_sharded_arrays",
    "cli/inspect/test_doctor.py::test_a_training_that_was_killed_is_named",
    "capture/test_distributed.py", "capture/test_integrations.py", "capture/test_mirrored.py",
    "capture/test_torch_triton.py",
    "capture/test_torch_on_a_gpu.py", "capture/test_termination.py", "cli/replay/test_replay_weights.py",
    "cli/share/test_tensorboard.py", "cli/record/test_watch.py", "cli/record/test_workers.py", "debugger/test_hook.py",
    "ingest/test_import_aim.py", "jobs/test_algorithm_recording.py", "jobs/test_algorithm_resume.py",
    "jobs/test_isolation.py::test_two_confined_instances_of_torch_meet_without_network",
    "jobs/test_launchers.py::test_two_instances_of_torch_meet",
    "jobs/test_launchers.py::test_two_instances_of_jax_meet",
    "processes/test_ray_process.py", "processes/test_ray_drain.py",
    "rerun/test_environment.py", "runs/reading/test_memory.py", "runs/test_kill.py", "watch/test_ray.py",
)
"""Folders, files and tests that start processes that train, each for seconds. `--fast` leaves them out."""

_LONGEST = (
    "capture/test_keras_backends.py", "test_checks.py", "web/test_everyone.py", "capture/test_mirrored.py",
    "journeys/test_replay_frameworks.py", "journeys/test_jobs_ray.py", "test_site.py",
)
"""Those that take more than half a minute, first: begun last, one would run alone while the other processors idle."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fast`."""
    parser.addoption("--fast", action="store_true", help="leave out the tests that start processes that train")


def pytest_configure(config: pytest.Config) -> None:
    """Let JAX keep what it compiles for later tests and the processes that they start.

    Each worker has a folder of its own: JAX warns if it reads a file that another process is writing.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ and not hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix="barograph-jax-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                   "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import files that `--fast` leaves out."""
    folder = Path(__file__).parent
    left_out = (folder / name for name in _TRAINING)
    return True if config.getoption("fast") and collection_path in left_out else None


def pytest_collectstart() -> None:
    """Collect without the garbage collector: what is imported stays, and it would search all of that ten times."""
    gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the tests that take long run first: whoever runs beside them takes over what is left, and that is short."""
    here = f"{Path(__file__).parent}{os.sep}"
    starts, longest = (tuple(f"{here}{name}" for name in names) for names in (_TRAINING, _LONGEST))
    name = {item: f"{item.path}{item.nodeid[len(item.nodeid.partition('::')[0]):]}" for item in items}
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[item for item in items if name[item].startswith(starts)])
        items[:] = [item for item in items if not name[item].startswith(starts)]
    items.sort(key=lambda item: (not name[item].startswith(longest), not name[item].startswith(starts)))


@pytest.fixture(scope="session", autouse=True)
def jobs_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of the jobs that tests submit, instead of the user's; nothing of them is left at the end."""
    home = tmp_path_factory.mktemp("jobs")
    os.environ["BAROGRAPH_HOME"] = str(home)
    yield home
    if any(home.iterdir()):
        from barograph.machine.marked import kill_marked

        kill_marked("BAROGRAPH_HOME", str(home))


def pytest_collection_finish() -> None:
    """Refuse optimizers that are made while tests are collected: they live as long as the session.

    In every test after that the script would hold one optimizer more than that test made.
    """
    torch = sys.modules.get("torch")
    made = [item for item in gc.get_objects() if torch and issubclass(type(item), torch.optim.Optimizer)]
    gc.freeze()  # before it collects again, or it would search all that was imported first
    gc.enable()
    if made:
        raise pytest.UsageError(f"{len(made)} optimizers were made where tests are collected; make them in the tests.")


@pytest.fixture(scope="module", autouse=True)
def few_objects(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep what the process holds already out of the walks over all objects and modules of a recording.

    What earlier tests imported is millions of objects, and all files of tests count as modules of the script: each
    checkpoint would compare and save their variables. A script has few of both.
    """
    gc.collect()
    gc.freeze()
    here = str(Path(__file__).parent)
    # By their names first: a look at the files of ten thousand modules takes long, once for each file of tests.
    others = {name: module for name, module in list(sys.modules.items())
              if name.rpartition(".")[2].startswith("test_") and module is not request.module
              and str(getattr(module, "__file__", None)).startswith(here)}
    for name in others:
        del sys.modules[name]
    yield
    sys.modules.update(others)


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[Callable[..., ForkServer]]:
    """The fork servers of this test session, by the modules that they have imported and their variables."""
    started: dict[tuple[Any, ...], ForkServer] = {}

    def server(*modules: str, **variables: str) -> ForkServer:
        asked = (modules, *sorted(variables.items()))
        if asked not in started:
            started[asked] = ForkServer(*modules, **variables)
        return started[asked]

    yield server
    for item in started.values():
        item.close()


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest, fork_servers: Callable[..., ForkServer]) -> Path:
    """The folder with `python` and `barograph` for a file's tests: those of a fork server if it sets FORKED."""
    modules = getattr(request.module, "FORKED", ())
    return fork_servers(*modules).programs if modules and AVAILABLE else Path(sys.executable).parent


@pytest.fixture(scope="module")
def forked_writers(fork_servers: Callable[..., ForkServer]) -> Iterator[None]:
    """Start the writer process of each recording in a fork: a new interpreter takes a second for its imports."""
    with pytest.MonkeyPatch.context() as patch:
        if AVAILABLE:
            patch.setattr(sys, "executable", str(fork_servers().programs / "python"))
        yield


@pytest.fixture
def programs_on_path(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put them first in PATH."""
    own = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), own, os.environ["PATH"]]))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of an S3-compatible server of this test session, on loopback, with one empty bucket."""
    pytest.importorskip("moto", reason="the S3-compatible server (moto[server]) is not installed")
    server, url = s3_server(_BUCKET)
    yield url
    server.terminate()
    server.wait(_START_SECS)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """The PostgreSQL server of this test session."""
    pgserver = pytest.importorskip("pgserver", reason="the PostgreSQL server (pgserver) is not installed here")
    # Not in pytest's folder: the server runs as a user of its own, where root starts it, and each session of pytest
    # shuts that folder for others.
    with tempfile.TemporaryDirectory(prefix="barograph-postgresql-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a folder that a library of pgserver looks for
            server = pgserver.get_server(Path(folder, "data"), cleanup_mode="delete")
        yield server
        server.cleanup()


@pytest.fixture(scope="session")
def postgresql(postgresql_server: Any) -> str:
    """Its URL."""
    return str(postgresql_server.get_uri()).replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def s3_environment(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point the environment at the server; return the URL of its bucket."""
    for name, value in {
        "AWS_ENDPOINT_URL": s3_endpoint, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return f"s3://{_BUCKET}"


@pytest.fixture
def s3_url(s3_environment: str, request: pytest.FixtureRequest) -> str:
    """A prefix in the bucket that no other test uses."""
    return f"{s3_environment}/{request.node.name}-{time.monotonic_ns()}"


@pytest.fixture(scope="module")
def joined_cluster() -> Callable[[int], Any]:
    """`local_ray.joined_cluster`. Workers of a cluster import the tests' modules, and cannot import that one."""
    from local_ray import joined_cluster  # loaded here: few tests need Ray

    return joined_cluster
