"""The code of a run, laid out as it was; and all that is refused."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.cli.replay.checkout_page import lay_settings
from barograph.errors import CheckoutFailed, DamagedChunk, RerunFailed, StoreDenied
from barograph.model.origin import Code, Origin, Package
from barograph.provenance.code import kept_code
from barograph.provenance.gathering import Gathered
from barograph.provenance.secrets import Secrets
from barograph.rerun.checkout import checked_out
from barograph.rerun.environment import requirements
from barograph.rerun.listing import environment_listing
from barograph.rerun.unpacking import unpack
from barograph.runs.format.layout import digest_of
from barograph.runs.state.origins import read_origin, write_origin
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from repositories import Repository, new_repository


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_from_url(str(tmp_path / "run"))


def kept(repository: Repository, store: Store, folder: Path | None = None) -> Origin:
    """Keep the code of a repository in a run, and read it back."""
    found = kept_code(repository.root, secrets=Secrets(), started_unix=time.time() + 3600)
    origin = Origin(command=("train.py",), directory=str(folder or repository.root), code=found.code,
                    problems=tuple(found.problems))
    write_origin(store, 0, Gathered(origin, found.diff, found.untracked))
    read = read_origin(store)
    assert read is not None
    return read


def test_everything_is_as_it_was_and_kept_again_it_is_the_same(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    repository.write("gone.py", "1\n")
    repository.write("image.bin", bytes(range(256)))
    repository.commit()
    repository.write("train.py", "print('changed')\n")
    repository.write("image.bin", bytes(range(255, -1, -1)))
    repository.write("staged.py", "new = 1\n")
    repository.git("add", "staged.py")
    (repository.root / "gone.py").unlink()
    repository.write("deep/untracked.sh", "echo\n").chmod(0o755)
    os.symlink("deep/untracked.sh", repository.root / "link")
    origin = kept(repository, store)
    repository.git("checkout", "--quiet", "--force", "HEAD")
    made = checked_out(store, origin, tmp_path / "out")
    assert (made.folder / "train.py").read_text() == "print('changed')\n"
    assert (made.folder / "image.bin").read_bytes() == bytes(range(255, -1, -1))
    assert (made.folder / "staged.py").read_text() == "new = 1\n"
    assert not (made.folder / "gone.py").exists()
    assert os.access(made.folder / "deep" / "untracked.sh", os.X_OK)
    assert os.readlink(made.folder / "link") == "deep/untracked.sh"
    again = kept_code(made.folder, secrets=Secrets(), started_unix=time.time() + 3600)
    assert again.code is not None
    assert origin.code is not None
    assert (again.code.commit, again.code.deleted) == (origin.code.commit, origin.code.deleted)
    assert origin.code.diff == f"origin/0000.{digest_of(again.diff)}.diff"
    assert origin.code.untracked == f"origin/0000.{digest_of(again.untracked)}.untracked.tar.gz"
    assert made.notes == ()


def test_the_repository_keeps_its_files_and_branch_and_forgets_the_folder(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    repository.write("train.py", "mine\n")
    made = checked_out(store, kept(repository, store), tmp_path / "out")
    made.remove()
    assert not made.folder.exists()
    assert repository.git("worktree", "list").count("\n") == 0
    assert repository.git("status", "--porcelain") == "M train.py"
    assert repository.git("symbolic-ref", "--short", "HEAD") == "trunk"


def test_the_directory_in_which_the_command_was_typed_is_told(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    repository.write("deep/er/x.py", "1\n")
    repository.commit()
    origin = kept(repository, store, repository.root / "deep" / "er")
    assert checked_out(store, origin, tmp_path / "out").directory == tmp_path / "out" / "deep" / "er"


def test_before_the_first_commit_all_is_in_the_patch(store: Store, tmp_path: Path) -> None:
    (tmp_path / "unborn").mkdir()
    unborn = Repository(tmp_path / "unborn")
    unborn.git("init", "--quiet")
    unborn.write("train.py", "print(1)\n")
    unborn.git("add", "train.py")
    unborn.write("more.py", "2\n")
    made = checked_out(store, kept(unborn, store), tmp_path / "out")
    assert (made.folder / "train.py").read_text() == "print(1)\n"
    assert (made.folder / "more.py").read_text() == "2\n"


def test_where_the_repository_is_gone_its_remote_is_cloned(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", f"file://{repository.root}", str(clone))
    Repository(clone).write("train.py", "changed\n")
    origin = kept(Repository(clone), store)
    shutil.rmtree(clone)
    made = checked_out(store, origin, tmp_path / "out")
    assert (made.folder / "train.py").read_text() == "changed\n"
    assert made.repository is None


def test_submodules_are_laid_out_and_changes_in_them_are_said(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    library = new_repository(tmp_path / "library")
    repository.git("submodule", "--quiet", "add", str(library.root), "library")
    repository.commit()
    (repository.root / "library" / "train.py").write_text("changed\n")
    made = checked_out(store, kept(repository, store), tmp_path / "out")
    assert (made.folder / "library" / "train.py").read_text() == "print(1)\nprint(2)\nprint(3)\n"
    assert made.notes == ("Submodule library had uncommitted changes, which were not saved.",)


def test_lines_of_the_commit_in_which_a_secret_was_hidden_are_whole_again(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    secret = "gh" + "p_0123456789abcdefghijABCDEFGHIJ012345"
    repository.write("train.py", f"one\nkey = '{secret}'\nthree\n")
    repository.commit()
    repository.write("train.py", f"one\nkey = '{secret}'\nthree, changed\n")
    origin = kept(repository, store)
    assert [path for path in (tmp_path / "run").rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] \
        == []
    made = checked_out(store, origin, tmp_path / "out")
    assert (made.folder / "train.py").read_text() == f"one\nkey = '{secret}'\nthree, changed\n"


def test_a_worktree_of_a_shallow_clone_does(repository: Repository, store: Store, tmp_path: Path) -> None:
    repository.write("train.py", "2\n")
    repository.commit()
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(shallow))
    made = checked_out(store, kept(Repository(shallow), store), tmp_path / "out")
    assert (made.folder / "train.py").read_text() == "2\n"


def test_a_commit_that_is_gone_is_said(
    repository: Repository, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = kept(repository, store)
    shutil.rmtree(repository.root)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckoutFailed, match=r"^Commit \w{12} not found: .* and it has no remote"):
        checked_out(store, origin, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_code_that_was_not_kept_is_said(store: Store, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(CheckoutFailed, match="not in a git repository"):
        checked_out(store, kept(Repository(tmp_path / "plain"), store), tmp_path / "out")


def test_a_folder_that_is_there_is_refused(repository: Repository, store: Store, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckoutFailed, match="already exists"):
        checked_out(store, kept(repository, store), tmp_path / "out")


@pytest.mark.parametrize("path", ["../evil.py", "a/../../evil.py", ".git/hooks/post-checkout", "sub/.GIT/config"])
def test_a_patch_that_climbs_out_lays_nothing_out(
    repository: Repository, store: Store, tmp_path: Path, path: str
) -> None:
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
    name = f"origin/0001.{digest_of(patch.encode())}.diff"
    store.create(name, patch.encode())
    origin = kept(repository, store)
    assert origin.code is not None
    hostile = replace(origin, code=replace(origin.code, diff=name))
    with pytest.raises(CheckoutFailed, match="Nothing was checked out"):
        checked_out(store, hostile, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.parametrize("path", ["../evil", "/evil", ".git/config", "a\\..\\..\\evil"])
def test_a_deleted_path_that_climbs_out_is_refused(store: Store, tmp_path: Path, path: str) -> None:
    with pytest.raises(CheckoutFailed, match="Nothing was checked out"):
        checked_out(store, Origin(code=Code(str(tmp_path), deleted=(path,))), tmp_path / "out")


def test_a_part_of_the_run_that_is_not_its_own_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DamagedChunk, match="names an unknown file"):
        checked_out(store, Origin(code=Code(str(tmp_path), diff="../../elsewhere.diff")), tmp_path / "out")


def archive(*entries: tuple[str, str]) -> bytes:
    """An archive of files by name and content; a content that begins with "->" makes a link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            if content.startswith("->"):
                entry.type, entry.linkname = tarfile.SYMTYPE, content[2:]
                made.addfile(entry)
            else:
                entry.size = len(content)
                made.addfile(entry, io.BytesIO(content.encode()))
    return packed.getvalue()


@pytest.mark.parametrize("entries", [
    [("good", "1"), ("../evil", "x")], [("good", "1"), ("/evil", "x")], [("a/../../evil", "x")],
    [("good", "1"), (".git/config", "x")], [("link", "->/etc")], [("a/link", "->../../x")], [("link", "->..")],
])
def test_an_archive_that_climbs_out_lays_nothing_out(tmp_path: Path, entries: list[tuple[str, str]]) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(CheckoutFailed, match="Nothing was checked out"):
        unpack(archive(*entries), folder)
    assert list(folder.rglob("*")) == []
    assert list(tmp_path.rglob("evil")) == []


def test_nothing_is_written_through_a_link_that_the_commit_has(tmp_path: Path) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    with pytest.raises(CheckoutFailed, match="through a link"):
        unpack(archive(("link/evil", "x")), folder)
    assert list(outside.iterdir()) == []


def test_what_is_no_archive_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckoutFailed, match="Cannot unpack"):
        unpack(b"no archive", tmp_path)


def test_no_hook_of_the_repository_runs(repository: Repository, store: Store, tmp_path: Path) -> None:
    hook = repository.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    hook.chmod(0o755)
    checked_out(store, kept(repository, store), tmp_path / "out")
    assert not (tmp_path / "was-run").exists()
    subprocess.run(["git", "worktree", "add", "--quiet", str(tmp_path / "by-hand")], cwd=repository.root, check=True)
    assert (tmp_path / "was-run").exists()


def link_patch(path: str, target: str) -> str:
    return (f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n"
            f"+{target}\n\\ No newline at end of file\n")


def with_patch(store: Store, origin: Origin, patch: str) -> Origin:
    name = f"origin/0001.{digest_of(patch.encode())}.diff"
    store.create(name, patch.encode())
    assert origin.code is not None
    return replace(origin, code=replace(origin.code, diff=name))


@pytest.mark.parametrize(("path", "target"), [
    ("barograph.toml", "/etc/passwd"), ("barograph-environment.txt", "../victim"), ("deep/link", "../../victim"),
    ("link", "train.py/../../victim"), ("link", ".git/hooks"), ("link", "deep/.GIT/config"),
])
@pytest.mark.parametrize("committed", [True, False])
def test_a_patch_that_makes_a_link_that_leads_out_lays_nothing_out(
    repository: Repository, store: Store, tmp_path: Path, path: str, target: str, committed: bool
) -> None:
    origin = kept(repository, store) if committed else Origin(code=Code(str(repository.root)))
    with pytest.raises(CheckoutFailed, match="Nothing was checked out"):
        checked_out(store, with_patch(store, origin, link_patch(path, target)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_patch_that_turns_a_file_into_a_link_that_leads_out_is_refused(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    origin = kept(repository, store)
    (repository.root / "train.py").unlink()
    (repository.root / "train.py").symlink_to("../victim")
    patch = repository.git("diff") + "\n"
    assert "120000" in patch
    repository.git("checkout", "--", "train.py")
    with pytest.raises(CheckoutFailed, match="leaves the directory"):
        checked_out(store, with_patch(store, origin, patch), tmp_path / "out")


def test_links_of_a_patch_that_stay_inside_are_laid_out(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    made = checked_out(store, with_patch(store, kept(repository, store), link_patch("deep/link", "../train.py")),
                       tmp_path / "out")
    assert os.readlink(made.folder / "deep" / "link") == "../train.py"


def test_settings_take_the_place_of_a_link_that_the_commit_has(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("original")
    os.symlink(tmp_path / "victim", repository.root / "barograph.toml")
    repository.commit()
    store.create(f"origin/0000.{digest_of(b'every = 5')}.settings.toml", b"every = 5")
    origin = replace(kept(repository, store), settings=f"origin/0000.{digest_of(b'every = 5')}.settings.toml")
    made = checked_out(store, origin, tmp_path / "out")
    lay_settings(store, origin, made)
    assert (made.folder / "barograph.toml").read_bytes() == b"every = 5"
    assert not (made.folder / "barograph.toml").is_symlink()
    assert (tmp_path / "victim").read_text() == "original"


def test_nothing_is_done_in_a_directory_behind_a_link_that_the_commit_has(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("original")
    os.symlink(tmp_path / "outside", repository.root / "link")
    repository.commit()
    origin = replace(kept(repository, store), directory=str(repository.root / "link" / "deep"))
    assert origin.code is not None
    made = checked_out(store, replace(origin, directory=f"{repository.root}/link2/deep"), tmp_path / "out")
    made.make_directory()
    assert made.directory.is_dir()
    through = replace(made, directory=made.folder / "link" / "deep")
    with pytest.raises(StoreDenied, match="through a link"):
        through.make_directory()
    with pytest.raises(CheckoutFailed, match="Cannot apply the uncommitted changes"):
        checked_out(store, replace(origin, code=replace(origin.code, deleted=("link/kept",))), tmp_path / "second")
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["kept"]


@pytest.mark.parametrize("commit", ["--orphan=x", "-f", "HEAD", "main"])
def test_what_is_no_commit_is_refused(store: Store, tmp_path: Path, commit: str) -> None:
    with pytest.raises(CheckoutFailed, match="is not a commit"):
        checked_out(store, Origin(code=Code(str(tmp_path), commit=commit)), tmp_path / "out")


def test_a_repository_that_came_with_files_runs_nothing(
    repository: Repository, store: Store, tmp_path: Path
) -> None:
    repository.write(".gitattributes", "* filter=evil\n")
    repository.commit()
    origin = kept(repository, store)
    assert origin.code is not None
    bare = tmp_path / "run" / "capsules"
    repository.git("clone", "--quiet", "--bare", str(repository.root), str(bare))
    Repository(bare).git("config", "filter.evil.smudge", f"touch {tmp_path}/was-run")
    hostile = replace(origin, code=replace(origin.code, root=str(bare)))
    with pytest.raises(CheckoutFailed):
        checked_out(store, hostile, tmp_path / "out")
    assert not (tmp_path / "was-run").exists()


def test_a_line_break_in_the_name_of_a_package_begins_no_line_of_the_listing() -> None:
    origin = Origin(packages={"x": Package("1\n--index-url http://evil"), "-r": Package("2"),
                              "good": Package("3.0.0+cpu")}, directory="/a\nb")
    lines = environment_listing(origin, "runs/x\ny").splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["good==3.0.0+cpu"]
    with pytest.raises(RerunFailed, match="has an invalid package"):
        requirements({"--index-url=http://evil": Package("1")})
