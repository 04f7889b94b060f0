"""The environment of a job, built by the real uv from packages that these tests make."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import JobError, JobRefused
from barograph.jobs import environment
from barograph.jobs.environment import environment_problem, pinned, prepare
from barograph.jobs.requirements import (
    Kind,
    Requirements,
    content_digest,
    requirements_from_json,
    requirements_of,
)
from barograph.rerun.uv import uv_program
from wheels import make_wheel

pytestmark = pytest.mark.skipif(not uv_program(), reason="uv is not installed")
LONGEST_SECS = 600.0

BACKEND = '''
import zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.write("mine.py")
        wheel.writestr("mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n")
        wheel.writestr("mine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("mine-1.0.dist-info/RECORD", "")
    return name
'''
PACKAGE = """
[project]
name = "mine"
version = "1.0"
dependencies = ["alpha<2"]
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All packages that uv finds: alpha 1 and 2, beta, which needs alpha 1, and own, which Barograph needs."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    make_wheel(folder, "alpha", "1.0")
    make_wheel(folder, "alpha", "2.0")
    make_wheel(folder, "beta", "1.0", "alpha<2")
    make_wheel(folder, "own", "1.0")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setattr(environment, "_own_requirements", lambda: ["own"])
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "requirements.txt").write_text("alpha==1.0\n")
    return folder


def found(project: Path, path: str = "") -> Requirements:
    known = requirements_of(project, path)
    assert known is not None
    return known


def versions(python: Path, *names: str) -> list[str]:
    code = f"import barograph, {', '.join(names)}\nprint({', '.join(f'{name}.version' for name in names)})"
    done = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, check=False, cwd="/")
    return done.stdout.split() or [done.stderr]


def wrapped_uv(folder: Path, first_lines: str) -> str:
    """Return a uv that notes its calls in `folder/calls`, and runs some lines of shell first."""
    program = folder / "uv"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/calls\n{first_lines}\nexec {uv_program()} "$@"\n')
    program.chmod(0o755)
    return str(program)


def calls(folder: Path, verb: str) -> int:
    return sum(line.startswith(verb) for line in (folder / "calls").read_text().splitlines())


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + LONGEST_SECS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("files", "kind"), [
    (["uv.lock", "pyproject.toml", "requirements.txt"], Kind.LOCK),
    (["pyproject.toml", "requirements.txt"], Kind.PROJECT),
    (["requirements.txt"], Kind.LIST),
])
def test_the_most_exact_file_is_used(files: list[str], kind: Kind, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).write_text("[project]\nname='x'\n")
    assert requirements_of(tmp_path) == Requirements(kind, kind.value)


def test_a_project_file_that_names_no_packages_is_passed_over(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.ruff]\n")
    assert found(project).kind is Kind.LIST


def test_without_files_there_are_no_requirements(tmp_path: Path) -> None:
    assert requirements_of(tmp_path) is None
    assert environment_problem(None, tmp_path) is None
    assert prepare(None, tmp_path, cache=tmp_path).python == Path(sys.executable)


def test_a_file_can_be_named(project: Path) -> None:
    (project / "gpu").mkdir()
    (project / "gpu/needs.txt").write_text("alpha\n")
    assert requirements_of(project, "gpu/needs.txt") == Requirements(Kind.LIST, "gpu/needs.txt")
    assert requirements_of(project, str(project / "gpu/needs.txt")) == Requirements(Kind.LIST, "gpu/needs.txt")
    assert requirements_of(project, "none") is None


def test_requirements_survive_json(project: Path) -> None:
    known = Requirements(Kind.LIST, "requirements.txt", "alpha==1.0")
    assert requirements_from_json(known.to_json()) == known


@pytest.mark.parametrize(("path", "reason"), [
    ("gone.txt", "does not exist"), ("../outside.txt", "is outside of the code"), ("pyproject.toml", "has no table"),
])
def test_a_file_that_does_not_do_is_refused(path: str, reason: str, project: Path) -> None:
    (project.parent / "outside.txt").write_text("")
    (project / "pyproject.toml").write_text("")
    with pytest.raises(JobRefused, match=reason):
        requirements_of(project, path)


def test_a_project_file_that_is_no_toml_is_refused(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project\n")
    with pytest.raises(JobRefused, match=r"The project is not valid TOML: .*pyproject.toml"):
        requirements_of(project)


def test_only_what_decides_about_packages_changes_the_digest(project: Path) -> None:
    (project / "more.txt").write_text("beta\n")
    (project / "requirements.txt").write_text("alpha\n-r more.txt\n")
    (project / "train.py").write_text("1")
    seen = {content_digest(found(project), project)}
    (project / "train.py").write_text("2")
    assert content_digest(found(project), project) in seen
    for name, text in (("more.txt", "beta==1\n"), (".python-version", "3.11"), ("requirements.txt", "alpha==1\n")):
        (project / name).write_text(text)
        digest = content_digest(found(project), project)
        assert digest not in seen
        seen.add(digest)
    assert content_digest(Requirements(Kind.LIST, "requirements.txt", "alpha==1"), project) not in seen


@pytest.mark.parametrize("line", ["-e .", "--editable=./lib", ".", "./lib", "../lib", "mine @ file:///x", ".[extra]"])
def test_a_package_in_the_folder_makes_its_code_count(line: str, project: Path) -> None:
    (project / "requirements.txt").write_text(f"{line}\n")
    (project / "mine.py").write_text("1")
    before = content_digest(found(project), project)
    (project / "mine.py").write_text("2")
    assert content_digest(found(project), project) != before


def test_an_environment_has_the_packages_and_barograph(index: Path, project: Path, tmp_path: Path) -> None:
    told: list[str] = []
    made = prepare(found(project), project, cache=tmp_path / "cache", progress=told.append)
    assert versions(made.python, "alpha", "own") == ["1.0", "1.0"]
    assert any(line.startswith("Installed 2 packages") for line in told)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [made.digest]


def test_the_python_is_this_one(index: Path, project: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname='above'\nversion='1'\nrequires-python='>=3.99'\n")
    made = prepare(found(project), project, cache=tmp_path / "cache")
    code = "import sys; print(sys.version, sys.base_prefix)"
    done = subprocess.run([made.python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sys.version} {sys.base_prefix}\n"


def test_a_python_that_cannot_be_had_is_refused(
    index: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    (project / "pyproject.toml").write_text("[project]\nname='x'\nversion='1'\nrequires-python='>=3.99'\n")
    with pytest.raises(JobRefused, match=r"No interpreter found for Python >=3\.99"):
        prepare(found(project), project, cache=tmp_path / "cache")


def test_an_environment_is_built_once(index: Path, project: Path, tmp_path: Path) -> None:
    made = prepare(found(project), project, cache=tmp_path / "cache")
    assert prepare(found(project), project, cache=tmp_path / "cache", uv="/no/such/program") == made


def test_entry_points_of_barograph_are_found(index: Path, project: Path, tmp_path: Path) -> None:
    made = prepare(found(project), project, cache=tmp_path / "cache")
    code = "from barograph.plugins import installed_plugins as i; print(i('barograph.integrations'))"
    done = subprocess.run([made.python, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert "barograph.capture.torch.listener:listen" in done.stdout
    assert "problems=()" in done.stdout


def test_an_environment_whose_python_is_gone_is_built_anew(index: Path, project: Path, tmp_path: Path) -> None:
    made = prepare(found(project), project, cache=tmp_path / "cache")
    made.python.unlink()
    assert prepare(found(project), project, cache=tmp_path / "cache") == made
    assert versions(made.python, "alpha") == ["1.0"]


def test_versions_are_resolved_once_for_all_instances(index: Path, project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("alpha\n")
    known = pinned(found(project), project)
    assert known.pins.splitlines() == ["alpha==2.0", "own==1.0"]
    make_wheel(index, "alpha", "3.0")
    assert versions(prepare(known, project, cache=tmp_path / "cache").python, "alpha") == ["2.0"]


def test_the_versions_of_an_environment_make_it_again(index: Path, project: Path, tmp_path: Path) -> None:
    (project / "requirements.txt").write_text("alpha\n")
    first = prepare(found(project), project, cache=tmp_path / "first")
    assert first.pins.splitlines() == ["alpha==2.0", "own==1.0"]
    known = replace(found(project), pins=first.pins)
    make_wheel(index, "alpha", "3.0")
    assert versions(prepare(known, project, cache=tmp_path / "second").python, "alpha") == ["2.0"]
    assert prepare(known, project, cache=tmp_path / "first") == first, "and it is not built twice"
    assert prepare(known, project, cache=tmp_path / "second") == prepare(known, project, cache=tmp_path / "second")


def test_a_project_that_is_a_package_is_installed(index: Path, project: Path, tmp_path: Path) -> None:
    for name, text in (("pyproject.toml", PACKAGE), ("backend.py", BACKEND), ("mine.py", "version = 'first'\n")):
        (project / name).write_text(text)
    first = prepare(found(project), project, cache=tmp_path / "cache")
    assert versions(first.python, "mine", "alpha") == ["first", "1.0"]
    (project / "mine.py").write_text("version = 'second'\n")
    second = prepare(found(project), project, cache=tmp_path / "cache")
    assert versions(second.python, "mine") == ["second"]
    assert versions(first.python, "mine") == ["first"]


def test_a_lock_is_followed(index: Path, project: Path, tmp_path: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname='x'\nversion='1'\nrequires-python='>=3.11'\n"
                                            "dependencies=['alpha<2']\n")
    subprocess.run([uv_program(), "lock", "--quiet"], cwd=project, check=True)
    assert found(project).kind is Kind.LOCK
    assert environment_problem(found(project), project) is None
    made = prepare(found(project), project, cache=tmp_path / "cache")
    assert versions(made.python, "alpha", "own") == ["1.0", "1.0"]


def test_a_lock_that_is_out_of_date_is_refused(index: Path, project: Path, tmp_path: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname='x'\nversion='1'\nrequires-python='>=3.11'\n")
    subprocess.run([uv_program(), "lock", "--quiet"], cwd=project, check=True)
    with (project / "pyproject.toml").open("a") as file:
        file.write("dependencies=['alpha']\n")
    problem = environment_problem(found(project), project)
    assert problem is not None
    assert "needs to be updated" in problem
    assert "run `uv lock`" in problem
    with pytest.raises(JobRefused, match="needs to be updated"):
        prepare(found(project), project, cache=tmp_path / "cache")


@pytest.mark.parametrize(("line", "reason"), [
    ("nosuch==1\n", "Because nosuch was not found"),
    ("alpha==9\n", "Because there is no version of alpha==9"),
    ("alpha==2\nbeta\n", "Because all versions of beta depend on alpha<2 and you require alpha==2"),
    ("al pha\n", "Couldn't parse requirement in"),
    ("-r gone.txt\n", "gone.txt"),
    ("-e ./gone\n", "gone"),
])
def test_requirements_that_cannot_be_met_are_refused(
    line: str, reason: str, index: Path, project: Path, tmp_path: Path
) -> None:
    (project / "requirements.txt").write_text(line)
    with pytest.raises(JobRefused) as raised:
        prepare(found(project), project, cache=tmp_path / "cache")
    assert str(raised.value).startswith("The requirements cannot be installed: ")
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)
    problem = environment_problem(found(project), project)
    assert problem is not None
    assert reason in problem
    assert list((tmp_path / "cache").iterdir()) == []


def test_pins_that_barograph_cannot_work_with_are_refused(
    index: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_own_requirements", lambda: ["alpha>=2"])
    with pytest.raises(JobRefused, match=r"alpha==1\.0 and alpha>=2|alpha>=2 and alpha==1\.0"):
        prepare(found(project), project, cache=tmp_path / "cache")


def test_an_index_that_is_unreachable_is_no_fault_of_the_requirements(
    index: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://me:hunter2hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(JobError, match=r"Cannot build the environment: .*onnection refused") as raised:
        prepare(found(project), project, cache=tmp_path / "cache")
    assert not isinstance(raised.value, JobRefused)
    assert "hunter2" not in str(raised.value)


def test_a_secret_in_an_address_is_not_repeated(
    index: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    (project / "requirements.txt").write_text("alpha @ http://127.0.0.1:9/hunter2hunter2/alpha-1.0-py3-none-any.whl\n")
    problem = environment_problem(found(project), project)
    assert problem is not None
    assert "127.0.0.1:9/***/alpha" in problem
    assert "hunter2" not in problem


@pytest.mark.parametrize(("said", "reason"), [
    ("Using Python 3.11\nerror: Request failed\n  cause: Failed to fetch: x\n  cause: client error\n"
     "  cause: dns error\n  cause: no such host\n", "Request failed. Failed to fetch: x. no such host."),
    ("  × No solution found when resolving dependencies:\n  ╰─▶ Because a and b,\n      we can conclude c.\n",
     "Because a and b, we can conclude c."),
    ("error: No solution found when resolving dependencies\n  cause: Because a, c.\n         And because b, d.\n",
     "Because a, c. And because b, d."),
    ("error: Couldn't parse `r.txt`\n  cause: Expected `=`\n         a b\n           ^\n",
     "Couldn't parse `r.txt`. Expected `=`. a b."),
    ("", "uv gave no reason."),
    ("error: " + "x" * 500, "x" * 400 + "…"),
])
def test_the_reason_is_that_of_uv_in_one_line(said: str, reason: str) -> None:
    assert environment._reason(said) == reason


def test_a_python_that_cannot_record_is_refused(index: Path, project: Path, tmp_path: Path) -> None:
    environment_folder = tmp_path / "old"
    environment_folder.mkdir()
    (environment_folder / "pyvenv.cfg").write_text("home = x\nversion_info = 3.9.1\n")
    with pytest.raises(JobRefused, match=r"asks for Python 3\.9, but its job is recorded, which needs 3\.11"):
        environment._check_version(environment_folder)


def test_without_uv_it_is_said_how_to_get_it(project: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"pip install 'barograph\[jobs\]'"):
        prepare(found(project), project, cache=tmp_path / "cache", uv="")


def test_a_cache_that_cannot_be_created_is_named(index: Path, project: Path) -> None:
    with pytest.raises(JobError, match=r"Cannot create the cache of environments: Not a directory \("):
        prepare(found(project), project, cache=project / "requirements.txt" / "x")


def test_of_two_instances_one_builds(index: Path, project: Path, tmp_path: Path) -> None:
    uv = wrapped_uv(tmp_path, "")
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(
        prepare(found(project), project, cache=tmp_path / "cache", uv=uv).python)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_SECS)
    assert len(made) == 3
    assert calls(tmp_path, "venv") == 1


def test_a_preparation_can_be_canceled(index: Path, project: Path, tmp_path: Path) -> None:
    uv = wrapped_uv(tmp_path, f'case "$1" in pip) touch {tmp_path}/building; exec sleep 1000;; esac')
    with pytest.raises(JobError, match="canceled"):
        prepare(found(project), project, cache=tmp_path / "cache", uv=uv,
                cancelled=(tmp_path / "building").exists)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_killed_build_is_built_anew(index: Path, project: Path, tmp_path: Path) -> None:
    uv = wrapped_uv(tmp_path, f'case "$1" in pip) test -e {tmp_path}/go || {{ touch {tmp_path}/building; '
                              'exec sleep 1000; }; esac')
    (project / "other.txt").write_text("alpha==2.0\n")
    code = ("import sys\nfrom pathlib import Path\nfrom barograph.jobs import environment as e\n"
            "e._own_requirements = lambda: ['own']\n"
            "p = Path(sys.argv[1])\ne.prepare(e.requirements_of(p, sys.argv[2]), p, cache=Path(sys.argv[3]), "
            "uv=sys.argv[4])\n")
    for name in ("", "other.txt"):
        (tmp_path / "building").unlink(missing_ok=True)
        builder = subprocess.Popen([sys.executable, "-c", code, str(project), name, str(tmp_path / "cache"), uv])
        wait_for(tmp_path / "building")
        os.kill(builder.pid, signal.SIGKILL)
        builder.wait()
    assert len(list((tmp_path / "cache").glob("*.part"))) == 1, "the second builder removed what the first one left"
    (tmp_path / "go").touch()
    made = prepare(found(project), project, cache=tmp_path / "cache", uv=uv)
    assert versions(made.python, "alpha") == ["1.0"]
    # A killed process that was just starting another holds its lock until that has started.
    deadline = time.monotonic() + LONGEST_SECS
    while len(list((tmp_path / "cache").iterdir())) > 1:
        assert time.monotonic() < deadline
        environment._remove_unfinished(tmp_path / "cache", but=made.digest)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [made.digest]


def test_an_environment_of_real_packages_records(tmp_path: Path, project: Path) -> None:
    (project / "requirements.txt").write_text("six==1.16.0\n")
    try:
        made = prepare(found(project), project, cache=tmp_path / "cache")
    except JobError as error:
        if any(sign in str(error) for sign in environment._UNREACHABLE):
            pytest.skip("the package index cannot be reached")
        raise
    code = "import six, barograph.capture.autostart, barograph.runs.writing.publisher; print(six.__version__)"
    done = subprocess.run([made.python, "-P", "-c", code], capture_output=True, text=True, check=False, cwd="/")
    assert (done.stdout, done.stderr) == ("1.16.0\n", "")
