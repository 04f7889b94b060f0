"""Secrets of a job: refused where they are typed, passed through the environment, replaced in what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.errors import JobRefused, SettingsError
from barograph.jobs.given_environment import environment_problems, file_values, given_environment
from barograph.jobs.home import JobsHome
from barograph.jobs.layout import InstanceLayout, filled
from barograph.jobs.spec import JobSpec, spec_from_options
from barograph.jobs.submitting import plan_of, submit
from barograph.jobs.typed_secrets import hidden, secret_problems
from barograph.provenance.secrets import Secrets

PASSWORD = "correct-horse-7"
ENVIRONMENT = {"DB_PASSWORD": PASSWORD}

TYPED: dict[str, tuple[dict[str, Any], str]] = {
    "option": ({"command": ["train.py", "--api-key", "abc123"]}, "--api-key"),
    "option with equals sign": ({"command": ["train.py", "--token=abc123"]}, "--token"),
    "pair": ({"command": ["train.py", "model.password=abc123"]}, "model.password"),
    "assignment before a program": ({"command": ["env", "API_KEY=abc123", "train.sh"]}, "API_KEY"),
    "shape": ({"command": ["train.py", "hf_abcdefghijabcdefghijabc123"]}, "Argument 2"),
    "value of the environment": ({"command": ["train.py", "--login", f"me:{PASSWORD}"]}, "--login"),
    "within a shell line": ({"command": ["bash", "-c", "export API_KEY=abc123abc123; python x"]}, "-c"),
    "password in a URL": ({"command": ["train.py", "--db", "postgres://me:abc123@db/x"]}, "--db"),
    "hyperparameter": ({"command": ["train.py"], "hyperparameters": {"hf_token": "abc123"}}, "hf_token"),
    "hyperparameter of an algorithm": ({"algorithm": "mlp", "hyperparameters": {"x": PASSWORD}}, "x"),
    "source": ({"command": ["a.py"], "data": {"train": "s3://key:abc123@bucket/x"}}, "The source of channel train"),
    "signed source": ({"command": ["a.py"], "data": {"train": "s3://b/x?signature=abc123"}},
                      "The source of channel train"),
    "environment with a value": ({"command": ["a.py"], "environment": ["API_KEY=abc123"]}, "--env"),
    "setting": ({"command": ["a.py"], "settings": {"tags": {"key": PASSWORD}}}, "The setting tags.key"),
    "receiver": ({"command": ["a.py"], "settings": {"notify": [{"to": "https://me:abc123@ops.example/x"}]}},
                 "The setting notify.to"),
}


@pytest.mark.parametrize(("options", "where"), TYPED.values(), ids=TYPED)
def test_a_secret_that_was_typed_is_named_but_not_repeated(options: dict[str, Any], where: str) -> None:
    problems = secret_problems(spec_from_options(options), "", Secrets(ENVIRONMENT))
    assert len(problems) == 1
    assert problems[0].startswith(f"{where} ")
    assert "abc123" not in problems[0]
    assert PASSWORD not in problems[0]


def test_the_problem_says_what_to_write_instead() -> None:
    spec = JobSpec(("train.py", "--api-key", "abc123"))
    assert secret_problems(spec, "", Secrets()) == [
        "--api-key has a secret, and what you type is stored with the job. Set the environment variable API_KEY, here "
        "or in a file for --env-file, and type '{env.API_KEY}' in its place."]


def test_a_place_with_a_password_is_refused() -> None:
    assert secret_problems(JobSpec(("a.py",)), "s3://key:abc123@bucket/x", Secrets()) == [
        "--to has a secret, and what you type is stored with the job. Set credentials in the environment, as "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."]


@pytest.mark.parametrize("words", [
    ("train.py", "--token", "{env.TOKEN}"), ("train.py", "--image-key", "jpg"), ("train.py", "--max-tokens", "512"),
    ("train.py", "--auth", "none"), ("train.py", "--token-file", "/run/token"),
    ("train.py", "--use-token", "--lr", "1"),
    ("train.py", "--secret-scale", "0.5"), ("train.py", "--data", "s3://bucket/x"), ("train.py", "--api-key="),
    ("train.py", "--url", "https://git@host/x"), ("train.py", "--key-dim=64"), ("train.py", "--use-token", "true"),
])
def test_what_only_looks_like_a_secret_is_accepted(words: tuple[str, ...]) -> None:
    assert secret_problems(JobSpec(words), "file:///runs/a", Secrets(ENVIRONMENT)) == []


def test_a_file_is_no_secret(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    secrets = Secrets({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})
    for words in (("train.py", "--key-file", str(key)), ("train.py", f"--credentials={key}"), ("train.py", str(key))):
        assert secret_problems(JobSpec(words), "", secrets) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("API_KEY", PASSWORD)
    Path("train.py").write_text("print(1)\n")
    return tmp_path


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_job_with_a_secret_stores_nothing(folder: Path) -> None:
    home = JobsHome(folder / "home")
    with pytest.raises(JobRefused, match=r"^--token has a secret"):
        submit(JobSpec(("train.py", "--token", "abc123")), to=str(folder / "run"), home=home)
    assert b"abc123" not in stored(folder)
    assert not (folder / "run").exists()


def test_a_dry_run_shows_no_secret(folder: Path) -> None:
    plan = plan_of(JobSpec(("train.py", "--token", "abc123"), hyperparameters={"password": "abc123"},
                           data={"train": "s3://key:abc123@bucket/x"}), JobsHome(folder / "home"))
    assert len(plan.problems) == 3
    assert "abc123" not in str(plan.to_json())
    assert plan.spec.command == ("train.py", "--token", "***")


def test_a_hidden_job_keeps_what_is_no_secret() -> None:
    spec = JobSpec(("train.py", "--lr", "1"), data={"train": "./data"})
    assert hidden(spec, Secrets()) == spec


def test_values_of_the_environment_replace_their_names_on_the_instance() -> None:
    layout = InstanceLayout(Path("/job"))
    assert filled(["--key={env.API_KEY}", "{env.NONE}"], layout, [], {"API_KEY": "a b"}) == ("--key=a b", "{env.NONE}")


def test_a_variable_that_is_not_set_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_HERE", "1")
    spec = JobSpec(("a.py", "--key", "{env.API_KEY}", "{env.SET_HERE}"), environment=("OTHER",))
    monkeypatch.delenv("API_KEY", raising=False)
    assert environment_problems(spec) == ["The environment variable OTHER is not set.",
                                          "The environment variable API_KEY is not set."]


def test_a_file_sets_variables_of_the_script(folder: Path) -> None:
    (folder / ".env").write_text("# ours\n\nAPI_KEY=a=b\nexport OTHER='x y'\nEMPTY=\n")
    spec = JobSpec(("a.py", "{env.OTHER}"), env_file=".env")
    assert file_values(".env") == {"API_KEY": "a=b", "OTHER": "x y", "EMPTY": ""}
    assert environment_problems(spec) == []
    assert given_environment(spec)["API_KEY"] == "a=b"


@pytest.mark.parametrize(("content", "message"), [
    ("hunter2", r"Line 1 of the file of variables is not NAME=VALUE \(.*\.env\)\."),
    ("A=1\n2B=hunter2", r"Line 2 of the file of variables is not NAME=VALUE \(.*\.env\)\."),
    (None, r"Cannot read the file of variables: No such file or directory \(.*\.env\)\."),
])
def test_a_wrong_file_is_named_without_its_content(folder: Path, content: str | None, message: str) -> None:
    if content is not None:
        (folder / ".env").write_text(content)
    with pytest.raises(SettingsError, match=message) as caught:
        file_values(".env")
    assert "hunter2" not in str(caught.value)


def test_values_that_were_named_are_secrets_whatever_their_names() -> None:
    secrets = Secrets({"MODE": "hunter2hunter2", "HOME_DIR": "/srv/me", "OTHER": "public-value"},
                      named=("MODE", "HOME_DIR"))
    assert secrets.hide("hunter2hunter2 /srv/me public-value") == "*** /srv/me public-value"


def test_a_secret_of_several_lines_is_found_line_by_line_and_quoted() -> None:
    secrets = Secrets({"MY_SECRET": "first line of it\nsecond line of it", "URL_TOKEN": "pass/word+1"})
    assert secrets.hide("x second line of it y") == "x *** y"
    assert secrets.hide("?t=pass%2Fword%2B1&x") == "?t=***&x"
