"""The script or program of a job is checked where it is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.jobs.program import program_problem
from barograph.jobs.spec import JobSpec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    (folder / "src").mkdir(parents=True)
    for name in ("train.py", "fit.sh", "run.sh", "fit", "run", "../other.py"):
        (folder / name).write_text("")
    for name in ("run.sh", "run"):
        (folder / name).chmod(0o755)
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(("words", "problem"), [
    (("train.py", "--lr", "1"), ""),
    (("./train.py",), ""),
    (("python", "train.py"), ""),
    (("python", "-m", "train"), ""),
    (("python", "-c", "print(1)"), ""),
    (("sh", "fit.sh"), ""),
    (("./run.sh",), ""),
    (("trian.py",), "No script at trian.py."),
    (("python3", "trian.py"), "No script at trian.py."),
    (("src",), "src is a directory. Submit a script or a program."),
    (("../other.py",), "../other.py is outside of this folder, and only files of this folder reach the instances. "
                       "Submit it from its own folder."),
    (("fit.sh",), ""),
    (("run.sh",), ""),
    (("fit",), "fit is not executable. Type: sh fit"),
    (("./fit",), "./fit is not executable. Type: sh ./fit"),
    (("run",), "run is not on the PATH. Type: ./run"),
    (("nosuchprogram",), 'Program not found: "nosuchprogram".'),
])
def test_what_cannot_start_is_named_with_what_to_type(words: tuple[str, ...], problem: str) -> None:
    assert program_problem(JobSpec(words)) == problem


def test_a_script_by_its_whole_path_is_for_this_machine_only(tmp_path: Path) -> None:
    script = str(tmp_path / "other.py")
    assert program_problem(JobSpec((script,))) == ""
    assert program_problem(JobSpec((script,), engine="ray")).startswith(f"{script} is outside of this folder")


def test_an_algorithm_has_no_program() -> None:
    assert program_problem(JobSpec(algorithm="linear")) == ""
