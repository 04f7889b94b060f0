"""The code of a run: what is kept of a repository, and what is said where it cannot be."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import psutil
import pytest

from barograph.provenance.code import KeptCode, kept_code
from barograph.provenance.git import Git
from barograph.provenance.secrets import Secrets
from barograph.provenance.untracked import Limits
from repositories import Repository, new_repository

LATER = time.time() + 3600


def keep(folder: Path, **options: object) -> KeptCode:
    return kept_code(folder, secrets=Secrets(), started_unix=LATER, **options)  # type: ignore[arg-type]


def names(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}  # type: ignore[union-attr]


def test_a_clean_repository_is_its_commit(repository: Repository) -> None:
    kept = keep(repository.root)
    assert kept.code is not None
    assert (kept.code.commit, kept.code.branch) == (repository.git("rev-parse", "HEAD"), "trunk")
    assert (kept.code.dirty, kept.diff, kept.untracked, kept.problems) == (False, b"", b"", [])


def test_staged_and_unstaged_changes_are_one_patch_that_applies(repository: Repository, tmp_path: Path) -> None:
    repository.write("train.py", "print(1)\nprint(20)\nprint(3)\n")
    repository.write("added.py", "new = 1\n")
    repository.git("add", "--all")
    repository.write("train.py", "print(1)\nprint(20)\nprint(30)\n")
    kept = keep(repository.root)
    assert kept.code is not None
    assert kept.code.dirty
    other = tmp_path / "other"
    repository.git("clone", "--quiet", str(repository.root), str(other))
    subprocess.run(["git", "apply", "--binary"], cwd=other, input=kept.diff, check=True)
    assert (other / "train.py").read_text() == "print(1)\nprint(20)\nprint(30)\n"
    assert (other / "added.py").read_text() == "new = 1\n"


def test_binary_changes_modes_and_names_in_any_language_apply(repository: Repository, tmp_path: Path) -> None:
    repository.write("größe — 大.bin", bytes(range(256)))
    repository.write('a "quoted"\tname', "one\n")
    repository.commit()
    repository.write("größe — 大.bin", bytes(range(255, -1, -1)))
    repository.write('a "quoted"\tname', "two\n")
    (repository.root / "train.py").chmod(0o755)
    kept = keep(repository.root)
    other = tmp_path / "other"
    repository.git("clone", "--quiet", str(repository.root), str(other))
    subprocess.run(["git", "apply", "--binary"], cwd=other, input=kept.diff, check=True)
    assert (other / "größe — 大.bin").read_bytes() == bytes(range(255, -1, -1))
    assert (other / 'a "quoted"\tname').read_text() == "two\n"
    assert os.access(other / "train.py", os.X_OK)


def test_deleted_files_are_named_and_their_content_is_not_kept(repository: Repository) -> None:
    (repository.root / "train.py").unlink()
    kept = keep(repository.root)
    assert kept.code is not None
    assert (kept.code.deleted, kept.diff, kept.code.dirty) == (("train.py",), b"", True)


def test_untracked_files_are_kept_and_ignored_ones_are_not(repository: Repository) -> None:
    repository.write(".gitignore", "*.log\n")
    repository.commit()
    repository.write("settings/new.toml", "lr = 1\n")
    repository.write("big.log", "x")
    assert names(keep(repository.root).untracked) == {"settings/new.toml": b"lr = 1\n"}


def test_changes_in_a_folder_above_the_one_where_it_starts_are_kept(repository: Repository) -> None:
    repository.write("deep/er/script.py", "1\n")
    repository.commit()
    repository.write("train.py", "changed\n")
    repository.write("other.txt", "new\n")
    kept = keep(repository.root / "deep" / "er")
    assert b"+changed" in kept.diff
    assert names(kept.untracked) == {"other.txt": b"new\n"}


def test_what_is_too_large_is_left_out_and_named(repository: Repository) -> None:
    repository.write("train.py", "x" * 2000)
    repository.write("small.py", "1\n")
    repository.write("large.bin", b"\1" * 3000)
    repository.write("second.py", "2\n" * 300)
    kept = keep(repository.root, diff_bytes=1000, limits=Limits(file_bytes=1000, all_bytes=100, files=10))
    assert kept.code is not None
    assert {item.what: item.why for item in kept.code.left_out} == {
        "train.py": "2,000 bytes, more than 1,000", "large.bin": "3,000 bytes, more than 1,000",
        "second.py": "total size over 100 bytes",
    }
    assert (kept.diff, names(kept.untracked)) == (b"", {"small.py": b"1\n"})


def test_a_patch_that_is_too_long_is_left_out_whole(repository: Repository) -> None:
    for number in range(30):
        repository.write(f"file{number}.py", "a\n" * 50)
    repository.git("add", "--all")
    kept = keep(repository.root, diff_bytes=1000)
    assert kept.code is not None
    assert [(item.what, item.why) for item in kept.code.left_out] == [
        ("the uncommitted changes", "more than 1,000 bytes")]
    assert kept.diff == b""


def test_runs_in_the_repository_are_no_code(repository: Repository) -> None:
    repository.write("results/one/run.json", "{}")
    repository.write("results/one/attempts/0000.json", "{}")
    repository.write("results/one/records/a.parquet", "x")
    repository.write("barograph-runs/two/heartbeats/x", "x")
    for name in ("catalog.sqlite-wal", "journal/0.json", "artifacts/ab/sha256-ab"):
        repository.write(f"results/.catalog/{name}", "x")
    repository.write("results/notes.txt", "mine")
    kept = keep(repository.root, away=[repository.root / "barograph-runs"])
    assert names(kept.untracked) == {"results/notes.txt": b"mine"}


def test_compiled_modules_and_environments_are_no_code(repository: Repository) -> None:
    before = keep(repository.root)
    for name in ("__pycache__/helper.cpython-311.pyc", "venv/pyvenv.cfg", "venv/bin/activate",
                 "conda/conda-meta/history", "conda/bin/activate"):
        repository.write(name, "x")
    assert keep(repository.root) == before


def test_a_folder_in_no_repository_says_so(tmp_path: Path) -> None:
    kept = keep(tmp_path)
    assert (kept.code, kept.diff) == (None, b"")
    assert "not in a git repository" in kept.problems[0]


def test_without_git_it_is_said(repository: Repository) -> None:
    kept = keep(repository.root, git=Git(repository.root, program="no-such-git"))
    assert kept.code is None
    assert "cannot run git" in kept.problems[0]


def test_a_git_that_hangs_is_ended(repository: Repository, tmp_path: Path) -> None:
    hanging = tmp_path / "git"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    began = time.monotonic()
    kept = keep(repository.root, git=Git(repository.root, program=str(hanging), patience_secs=0.1))
    assert time.monotonic() - began < 300
    assert "took too long" in kept.problems[0]


def test_before_the_first_commit_all_that_is_staged_is_in_the_patch(tmp_path: Path) -> None:
    root = tmp_path / "unborn"
    root.mkdir()
    made = Repository(root)
    made.git("init", "--quiet")
    made.write("train.py", "print(1)\n")
    made.git("add", "train.py")
    made.write("more.py", "2\n")
    kept = keep(root)
    assert kept.code is not None
    assert (kept.code.commit, kept.code.dirty) == ("", True)
    assert b"+print(1)" in kept.diff
    assert names(kept.untracked) == {"more.py": b"2\n"}


def test_a_repository_of_somebody_else_is_refused_by_git_and_that_is_told(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    kept = keep(repository.root)
    assert kept.code is None
    assert "dubious ownership" in kept.problems[0]


def test_a_shallow_clone_is_told(repository: Repository, tmp_path: Path) -> None:
    repository.write("train.py", "2\n")
    repository.commit()
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(tmp_path / "shallow"))
    kept = keep(tmp_path / "shallow")
    assert kept.code is not None
    assert (kept.code.shallow, kept.code.remote) == (True, f"file://{repository.root}")


def test_submodules_are_told_with_commit_and_changes(repository: Repository, tmp_path: Path) -> None:
    library = new_repository(tmp_path / "library")
    repository.git("submodule", "--quiet", "add", str(library.root), "library")
    repository.commit()
    (repository.root / "library" / "train.py").write_text("changed\n")
    kept = keep(repository.root)
    assert kept.code is not None
    assert [(item.path, item.commit, item.dirty) for item in kept.code.submodules] == [
        ("library", library.git("rev-parse", "HEAD"), True)]
    assert (kept.code.dirty, kept.diff) == (True, b"")


def test_the_index_and_the_files_stay_as_they_were(repository: Repository) -> None:
    repository.write("train.py", "changed\n")
    index = repository.root / ".git" / "index"
    os.utime(repository.root / "train.py", (1, 1))
    before = index.read_bytes()
    keep(repository.root)
    assert index.read_bytes() == before
    assert not (repository.root / ".git" / "index.lock").exists()


def test_the_index_of_a_submodule_stays_as_it_was(repository: Repository, tmp_path: Path) -> None:
    library = new_repository(tmp_path / "library")
    repository.git("submodule", "--quiet", "add", str(library.root), "library")
    repository.commit()
    index = repository.root / ".git" / "modules" / "library" / "index"
    # Only the time differs, which git would note for later.
    os.utime(repository.root / "library" / "train.py", (1, 1))
    before = index.read_bytes()
    keep(repository.root)
    assert index.read_bytes() == before


def test_files_that_are_called_like_secrets_are_left_out_whatever_is_in_them(repository: Repository) -> None:
    repository.write("server.pem", "tracked\n")
    repository.commit()
    repository.write("server.pem", "changed\n")
    repository.write(".env", "plain\n")
    kept = keep(repository.root)
    assert kept.code is not None
    assert [item.what for item in kept.code.left_out] == ["server.pem", ".env"]
    assert (kept.diff, kept.untracked) == (b"", b"")


def test_a_file_that_changed_after_the_start_is_named(repository: Repository) -> None:
    repository.write("train.py", "changed\n")
    kept = kept_code(repository.root, secrets=Secrets(), started_unix=time.time() - 3600)
    assert kept.problems == ["Changed after the command started, saved with these changes: train.py."]


def test_no_program_that_the_repository_names_is_run(repository: Repository, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for name in ("diff.external", "core.fsmonitor", "diff.mine.textconv", "diff.mine.command"):
        repository.git("config", name, str(program))
    repository.write(".gitattributes", "*.py diff=mine\n")
    repository.write("train.py", "changed\n")
    assert b"+changed" in keep(repository.root).diff
    assert not mark.exists()


def test_no_filter_that_the_repository_names_is_run(repository: Repository, tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\nexec cat\n")
    program.chmod(0o755)
    repository.write(".gitattributes", "*.py filter=a=b.c\n*.txt filter=long\n")
    repository.write("numbers.txt", "1\n")
    repository.commit()
    for name in ("filter.a=b.c.clean", "filter.a=b.c.smudge", "filter.long.process"):
        repository.git("config", name, str(program))
    repository.git("config", "filter.long.required", "true")
    repository.write("train.py", "changed\n")
    repository.write("numbers.txt", "2\n")
    os.utime(repository.root / ".gitattributes", (1, 1))
    kept = keep(repository.root)
    assert b"+changed" in kept.diff
    assert b"+2" in kept.diff
    assert not mark.exists()


def test_a_detached_head_has_a_commit_and_no_branch(repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "--quiet", "--detach")
    kept = keep(repository.root)
    assert kept.code is not None
    assert (kept.code.branch, kept.code.commit, kept.code.dirty) == ("", commit, False)


def test_a_worktree_is_told_with_its_own_branch_and_changes(repository: Repository, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    repository.git("worktree", "add", "--quiet", "-b", "side", str(tree))
    (tree / "train.py").write_text("changed\n")
    kept = keep(tree)
    assert kept.code is not None
    assert (kept.code.root, kept.code.branch) == (str(tree), "side")
    assert b"+changed" in kept.diff
    assert keep(repository.root).diff == b""


def test_a_repository_that_is_locked_by_another_git_is_read_all_the_same(repository: Repository) -> None:
    lock = repository.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    repository.write("train.py", "changed\n")
    kept = keep(repository.root)
    assert b"+changed" in kept.diff
    assert kept.problems == []
    assert lock.exists()


def test_a_name_with_a_line_break_is_kept(repository: Repository, tmp_path: Path) -> None:
    repository.write("two\nlines.py", "one\n")
    repository.write("both\nuntracked.py", "kept\n")
    repository.git("add", "two\nlines.py")
    repository.git("commit", "--quiet", "--message", "odd")
    repository.write("two\nlines.py", "two\n")
    kept = keep(repository.root)
    other = tmp_path / "other"
    repository.git("clone", "--quiet", str(repository.root), str(other))
    subprocess.run(["git", "apply", "--binary"], cwd=other, input=kept.diff, check=True)
    assert (other / "two\nlines.py").read_text() == "two\n"
    assert names(kept.untracked) == {"both\nuntracked.py": b"kept\n"}


def test_a_command_that_a_hook_of_another_repository_starts_has_its_own_code(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git" / "index"))
    kept = keep(repository.root)
    assert kept.code is not None
    assert kept.code.root == str(repository.root)


def test_a_remote_with_a_password_is_kept_without_it(repository: Repository) -> None:
    repository.git("remote", "add", "origin", "https://me:hunter22hunter@example.org/code.git")
    kept = keep(repository.root)
    assert kept.code is not None
    assert kept.code.remote == "https://***@example.org/code.git"


def test_files_of_ten_gigabytes_cost_no_time(repository: Repository) -> None:
    repository.write("data.bin", b"small")
    repository.commit()
    for name in ("data.bin", "more.bin"):
        with (repository.root / name).open("wb") as file:
            file.truncate(10 * 2**30)
    began = time.monotonic()
    kept = keep(repository.root)
    assert time.monotonic() - began < 10
    assert kept.code is not None
    assert {item.what for item in kept.code.left_out} == {"data.bin", "more.bin"}


def test_thousands_of_untracked_files_are_not_read_beyond_the_limit(repository: Repository) -> None:
    for number in range(3000):
        (repository.root / f"file{number}.txt").write_bytes(b"x")
    kept = keep(repository.root, limits=Limits(files=10))
    assert kept.code is not None
    assert len(names(kept.untracked)) == 10
    assert [item.what for item in (kept.code.left_out[0], kept.code.left_out[-1])] == [
        "file1006.txt", "2,980 more untracked files"]


def gone_within(number: int, *, secs: float) -> bool:
    try:
        process = psutil.Process(number)
        if process.status() != psutil.STATUS_ZOMBIE:
            process.wait(secs)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def test_what_git_starts_is_ended_with_it(repository: Repository, tmp_path: Path) -> None:
    mark = tmp_path / "number"
    hanging = tmp_path / "git"
    hanging.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {mark}\nwait\n")
    hanging.chmod(0o755)
    keep(repository.root, git=Git(repository.root, program=str(hanging), patience_secs=0.5))
    # A process that was killed is still there for a moment; what ends by itself would be there for a minute.
    number = int(mark.read_text())
    assert gone_within(number, secs=20.0)


def test_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    # A program that wants one finds no terminal, and a helper that says nothing.
    asking = tmp_path / "git"
    asking.write_text('#!/bin/sh\n(: < /dev/tty) 2> /dev/null && echo terminal\n$SSH_ASKPASS\n$GIT_ASKPASS\n'
                      'echo "$GIT_TERMINAL_PROMPT"\n')
    asking.chmod(0o755)
    assert Git(tmp_path, program=str(asking), may_fetch=True).text("fetch") == "0"
