"""The Python that a run is made again with."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import RerunFailed
from barograph.model.origin import Origin, Package
from barograph.processes.run_to_end import Completed
from barograph.provenance.packages import packages_of, this_interpreter
from barograph.provenance.secrets import Secrets
from barograph.rerun.environment import built_environment, present_environment, requirements


@pytest.fixture(scope="module")
def here() -> Origin:
    interpreter = this_interpreter()
    return Origin(interpreter=interpreter.executable, python_version=interpreter.version,
                  packages=packages_of(interpreter, Secrets()))


class Builder:
    """Stands where commands are run; notes them, and ends one that names `failing` with its words."""

    def __init__(self, failing: str = "", words: str = "") -> None:
        self.commands: list[list[str]] = []
        self._failing, self._words = failing, words

    def __call__(self, command: Sequence[str]) -> Completed:
        self.commands.append(list(command))
        failed = bool(self._failing) and self._failing in command
        return Completed(int(failed), b"", self._words.encode() if failed else b"")


def test_the_present_one_does_where_its_packages_are_the_same(here: Origin) -> None:
    found = present_environment(here)
    assert (found.python, found.differing, found.built) == (here.interpreter, (), False)


def test_another_version_or_other_files_are_named(here: Origin) -> None:
    packages = {**here.packages, "numpy": Package("0.1"), "typer": replace(here.packages["typer"], digest="0" * 32),
                "no-such": Package("1")}
    assert present_environment(replace(here, packages=packages)).differing == ("no-such", "numpy", "typer")


def test_an_environment_is_built_of_the_list_by_uv(here: Origin, tmp_path: Path) -> None:
    builder = Builder()
    origin = Origin(python_version="3.12.1", packages={"numpy": Package("2.0"), "pip": Package("24")})
    made = built_environment(origin, tmp_path / "env", run=builder, uv="uv")
    assert builder.commands == [
        ["uv", "venv", "--quiet", "--python", "3.12", str(tmp_path / "env")],
        ["uv", "pip", "install", "--quiet", "--python", made.python, "--no-deps", "numpy==2.0"],
    ]


def test_without_uv_another_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RerunFailed, match=r"used Python 3\.1, but this is"):
        built_environment(Origin(python_version="3.1.4"), tmp_path / "env", run=Builder(), uv="")


def test_the_package_that_cannot_be_had_is_named(here: Origin, tmp_path: Path) -> None:
    builder = Builder("torch==9.9", "ERROR: No matching distribution found for torch==9.9")
    origin = Origin(python_version=here.python_version, packages={"numpy": Package("2.0"), "torch": Package("9.9")})
    with pytest.raises(RerunFailed, match=r"the environment: torch cannot be installed\. ERROR: No matching"):
        built_environment(origin, tmp_path / "env", run=builder, uv="")


def test_a_real_environment_without_packages_is_built(here: Origin, tmp_path: Path) -> None:
    made = built_environment(Origin(python_version=here.python_version), tmp_path / "env", uv="")
    done = subprocess.run([made.python, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"


def test_a_package_from_a_folder_that_is_gone_is_named() -> None:
    with pytest.raises(RerunFailed, match=r"Package mine 1 .* no longer exists.*/no/such/place"):
        requirements({"mine": Package("1", "", "editable file:///no/such/place")})


def test_a_package_from_a_folder_is_installed_from_there(tmp_path: Path) -> None:
    (tmp_path / "mein paket").mkdir()
    wanted = requirements({"mine": Package("1", "", f"editable {(tmp_path / 'mein paket').as_uri()}")})
    assert wanted == {"mine": str(tmp_path / "mein paket")}


def test_a_package_behind_credentials_is_named() -> None:
    with pytest.raises(RerunFailed, match="needs credentials"):
        requirements({"mine": Package("1", "", "git https://***@host/mine@abc")})
