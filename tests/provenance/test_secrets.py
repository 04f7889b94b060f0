"""Secrets, planted in every place: none comes into what is kept."""

from __future__ import annotations

import gzip
import subprocess
import time
from pathlib import Path

import pytest

from barograph.model.question import Question
from barograph.provenance.code import kept_code
from barograph.provenance.gathering import gathered
from barograph.provenance.patch import refilled
from barograph.provenance.secrets import Secrets, names_secret
from barograph.runs.state.origins import write_origin
from barograph.store.urls import store_from_url
from repositories import Repository

# Put together here, so that nobody who looks for keys in sources finds these.
PLANTED = {
    "amazon": "AKIA" + "IOSFODNN7EXAMPLE",
    "github": "gh" + "p_0123456789abcdefghijABCDEFGHIJ012345",
    "hugging face": "hf" + "_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "a key of a project": "sk" + "-proj-abcdefghijklmnopqrstuvwxyz0123456789",
    "web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
    "slack": "xox" + "b-123456789012-abcdefghijklmnop",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
}


@pytest.mark.parametrize("secret", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("around", ["{}", "login {} now", "x={}", '{{"a": "{}"}}', "+{}\n", "({})"])
def test_a_secret_is_found_by_its_shape(secret: str, around: str) -> None:
    hidden = Secrets().hide(around.format(secret))
    assert secret not in hidden
    assert "***" in hidden


@pytest.mark.parametrize("piece", ["x", "a.", "://", "eyJ", "sk-a-", "A_", " = '", "a: ", "-----BEGIN PRIVATE KEY"])
def test_a_long_line_takes_no_longer_than_its_length_asks(piece: str) -> None:
    began = time.process_time()
    Secrets().hide(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5


def test_a_private_key_goes_whole_and_the_lines_stay_as_many() -> None:
    begin, end = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
    hidden = Secrets().hide(f"a\n{begin}\nMIIEow\nIBAAKC\n{end}\nb")
    assert hidden.split("\n") == ["a", "***", "", "", "", "b"]


@pytest.mark.parametrize(("text", "expected"), [
    ("https://me:pa55@host/x.git", "https://***@host/x.git"),
    ("https://0123token@host/x.git", "https://***@host/x.git"),
    ("ssh://git@host/x.git", "ssh://git@host/x.git"),
    ("postgresql://user:pa$$w0rd@db:5432/x", "postgresql://***@db:5432/x"),
    ("https://host/x?api_key=abc&page=2", "https://host/x?api_key=***&page=2"),
    ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer ***"),
    ('password = "correct horse"', 'password = "***"'),
    ("DB_PASSWORD=correcthorse", "DB_PASSWORD=***"),
    ("API_KEY=os.environ['API_KEY']", "API_KEY=os.environ['API_KEY']"),
    ("max_tokens = '2048-4096'", "max_tokens = '2048-4096'"),
    ("key = 'weight:fc1.weight'", "key = 'weight:fc1.weight'"),
    ("token = '[MASK] or so'", "token = '[MASK] or so'"),
    ("auth_token = '0123456789abcdef01'", "auth_token = '***'"),
    ("loss = 0.25", "loss = 0.25"),
])
def test_a_secret_is_found_by_what_it_is_called_or_where_it_stands(text: str, expected: str) -> None:
    assert Secrets().hide(text) == expected


@pytest.mark.parametrize("name", ["API_TOKEN", "AWS_SECRET_ACCESS_KEY", "db-password", "wandb.api_key", "apikey"])
def test_names_of_secrets_are_known(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokenizer", "TOKENIZERS_PARALLELISM", "keyboard", "lr", "num_tokens",
                                  "key_dim", "monkey", "pad_token_id", "author", "PWD", "OLDPWD"])
def test_names_that_trainings_use_are_none(name: str) -> None:
    assert not names_secret(name)


def test_what_follows_an_option_that_is_called_so_is_hidden() -> None:
    words = ["train.py", "--password", "open sesame", "--auth-token=x", "--lr", "0.1", "api_key=abc", "--verbose"]
    assert Secrets().hide_words(words) == (
        "train.py", "--password", "***", "--auth-token=***", "--lr", "0.1", "api_key=***", "--verbose")


def test_the_value_of_a_secret_variable_is_hidden_wherever_it_stands() -> None:
    assert Secrets({"MY_TOKEN": "swordfish"}).hide("saying swordfish twice: swordfish") == "saying *** twice: ***"


def test_a_patch_with_secrets_in_all_of_its_lines_applies_after_all(repository: Repository, tmp_path: Path) -> None:
    old, new = PLANTED["github"], PLANTED["amazon"]
    repository.write("train.py", f"first\nkeep = '{old}'\nmiddle\ngone = '{old}'\nlast\n")
    repository.commit()
    repository.write("train.py", f"first\nkeep = '{old}'\nmiddle 2\nadded = '{new}'\nlast\n")
    kept = kept_code(repository.root, secrets=Secrets())
    assert kept.code is not None
    assert old.encode() not in kept.diff
    assert new.encode() not in kept.diff
    assert [(item.what, item.why) for item in kept.code.left_out] == [("train.py", "a secret was replaced")]
    other = tmp_path / "other"
    repository.git("clone", "--quiet", str(repository.root), str(other))
    whole = refilled(kept.diff, lambda name: (other / name).read_bytes().split(b"\n"))
    subprocess.run(["git", "apply"], cwd=other, input=whole, check=True)
    assert (other / "train.py").read_text() == f"first\nkeep = '{old}'\nmiddle 2\nadded = '***'\nlast\n"


def test_nothing_that_is_planted_anywhere_comes_into_the_run(repository: Repository, tmp_path: Path) -> None:
    planted = {place: f"{PLANTED['hugging face']}{number:03}" for number, place in enumerate(
        ["variable", "command", "remote", "diff", "untracked", "toml", "dotenv", "binary", "python path", "deleted"])}
    repository.write("deleted.py", f"k = '{planted['deleted']}'\n")
    repository.commit()
    (repository.root / "deleted.py").unlink()
    repository.git("remote", "add", "origin", f"https://me:{planted['remote']}@example.org/x.git")
    repository.write("train.py", f"token = '{planted['diff']}'\n")
    repository.write("notes.txt", f"here: {planted['untracked']}\n")
    repository.write(".env", f"A={planted['dotenv']}\n")
    repository.write("blob.bin", b"\0\1" + planted["binary"].encode() + b"\0")
    settings = repository.write("barograph.toml", f"to = 's3://x/{planted['toml']}'\n")
    run = tmp_path / "run"
    found = gathered(Question(
        command=("train.py", "--lr", "0.1", "--hub", planted["command"], "--password", "swordfish1"),
        directory=str(repository.root), started_unix=0.0, settings_file=str(settings),
        environment={"HF_TOKEN": planted["variable"], "PYTHONPATH": f"/x/{planted['python path']}",
                     "OMP_NUM_THREADS": "1", "TORCH_API_KEY": "swordfish2", "EDITOR": "swordfish3"},
    ))
    write_origin(store_from_url(str(run)), 0, found)
    whole = b""
    for path in run.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            whole += gzip.decompress(data) if path.suffix == ".gz" else data
    assert b"notes.txt" in whole
    assert b"here: ***" in whole
    assert b"OMP_NUM_THREADS" in whole
    assert [place for place, secret in planted.items() if secret.encode() in whole] == []
    assert b"swordfish" not in whole


def test_a_secret_of_other_letters_is_found_in_a_patch(repository: Repository) -> None:
    repository.write("train.py", "# hello пароль123 there\n")
    kept = kept_code(repository.root, secrets=Secrets({"DB_PASSWORD": "пароль123"}))
    assert b"+# hello *** there" in kept.diff


@pytest.mark.parametrize("secret", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("around", ["{}", "login {} now", "x = 1\n{}\ny", '{{"a": "{}"}}', "({})", "{0}\n\n{0}"])
def test_a_certain_secret_is_hidden_in_code_that_runs(secret: str, around: str) -> None:
    assert Secrets().hide_certain(around.format(secret)) == around.format("***").replace("{0}", "***")


@pytest.mark.parametrize("text", ['password = "changeme"', "token = tokens[0]", "https://host/x", "git@host:x"])
def test_code_without_a_certain_secret_stays(text: str) -> None:
    assert Secrets().hide_certain(text) == text


def test_a_private_key_in_code_goes_whole_and_the_lines_stay_as_many() -> None:
    begin, end = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
    assert Secrets().hide_certain(f"a\n{begin}\nMIIEow\n{end}\nb").split("\n") == ["a", "***", "", "", "b"]
