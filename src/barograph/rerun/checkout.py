"""Checks out the code of a run, with uncommitted changes, into a new directory."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import CheckoutFailed, DamagedChunk, ObjectNotFound, StoreDenied
from barograph.model.one_line import quoted
from barograph.model.origin import Code, Origin, Submodule
from barograph.provenance.git import Git, GitFailed
from barograph.provenance.patch import paths_in, refilled
from barograph.provenance.secrets import MARK
from barograph.rerun.unpacking import check_link, check_paths, unpack
from barograph.runs.state.origins import read_file
from barograph.store.base import Store
from barograph.store.inside import Inside

_PATIENCE_SECS = 600.0
_COMMIT = re.compile(r"[0-9a-f]{7,64}|")
_LINK_MODE = "120000"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout.

    Attributes:
        folder: Root of the code.
        directory: Working directory of the command, within it.
        repository: Repository that the folder is a worktree of; None: a clone.
        notes: Differences from the original, one sentence each.
    """

    folder: Path
    directory: Path
    repository: Path | None
    notes: tuple[str, ...]

    @property
    def inside(self) -> Inside:
        """Writer for further files in the folder."""
        return Inside(self.folder)

    def make_directory(self) -> None:
        """Create the working directory of the command.

        Raises:
            StoreDenied: The path has a symbolic link.
        """
        self.inside.make_directory(self.directory.relative_to(self.folder).as_posix())

    def remove(self) -> None:
        """Delete the checkout, and remove it from the repository's worktrees."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.repository is not None:
            with contextlib.suppress(GitFailed):
                Git(self.repository).ask("worktree", "prune")


def checked_out(store: Store, origin: Origin, folder: Path) -> Checkout:
    """Check out the code of a run.

    Args:
        store: Store of the run.
        origin: Origin of the run.
        folder: Destination; must not exist.

    Raises:
        CheckoutFailed: The code was not saved, the folder exists, the commit is gone, or a saved path leaves the
            folder.
        DamagedChunk, StoreError: The run cannot be read.
    """
    code = origin.code
    if code is None:
        why = next((text for text in origin.problems if text.startswith("The code")), "the run has no code.")
        raise CheckoutFailed(f"There is nothing to check out: {why}")
    check_is_new(folder)
    diff, untracked = (_kept(store, name) for name in (code.diff, code.untracked))
    # Before anything is written.
    check_paths(paths_in(diff), "the patch")
    check_paths(code.deleted, "the list of deleted files")
    check_paths((module.path for module in code.submodules), "the list of submodules")
    for commit in (code.commit, *(module.commit for module in code.submodules)):
        # git could take another text for an option.
        if not _COMMIT.fullmatch(commit):
            raise CheckoutFailed(f"{quoted(commit)} is not a commit. Nothing was checked out.")
    repository = _commit_in(code, folder)
    made = Checkout(folder, _directory(origin, code, folder), repository, ())
    try:
        notes = _change(code, folder, diff, untracked)
    except BaseException:
        made.remove()
        raise
    return Checkout(folder, made.directory, repository, tuple(notes))


def check_is_new(folder: Path) -> None:
    """Raise `CheckoutFailed` if a folder exists."""
    if folder.exists() or folder.is_symlink():
        raise CheckoutFailed(f"The directory already exists. Choose a new one ({folder}).")


def _kept(store: Store, name: str) -> bytes:
    try:
        return read_file(store, name)
    except ObjectNotFound:
        raise DamagedChunk(f"A file with the run's code is missing ({name} in {store.url}).") from None


def _change(code: Code, folder: Path, diff: bytes, untracked: bytes) -> list[str]:
    """Apply the uncommitted changes; return what differs from the original."""
    git, inside = Git(folder, patience_secs=_PATIENCE_SECS), Inside(folder)
    try:
        if code.deleted:
            git.ask("rm", "--quiet", "--cached", "--", *(f":(top,literal){path}" for path in code.deleted))
            for path in code.deleted:
                inside.remove(path)
        if diff:
            whole = refilled(diff, lambda path: _lines(git, code.commit, path)) if MARK.encode() in diff else diff
            # The index first: symbolic links in the patch are checked before any file is written. The index also
            # distinguishes added files from untracked ones.
            git.ask("apply", "--binary", "--cached", "--whitespace=nowarn", "-", stdin=whole)
            _check_links(git)
            git.ask("apply", "--binary", "--whitespace=nowarn", "-", stdin=whole)
    except GitFailed as error:
        to = f" to commit {code.commit[:12]}" if code.commit else ""
        raise CheckoutFailed(f"Cannot apply the uncommitted changes{to}: {error}.") from None
    except StoreDenied as error:
        raise CheckoutFailed(f"Cannot delete a file: {error}") from error
    if untracked:
        unpack(untracked, folder)
    notes = [f"{item.what} differs from the original: {item.why}." for item in code.left_out]
    return [*notes, *(note for module in code.submodules if (note := _fill(module, code, folder)))]


def _check_links(git: Git) -> None:
    """Refuse symbolic links in the index that leave the folder and are not in the commit.

    Raises:
        CheckoutFailed: There is one.
        GitFailed: git failed.
    """
    words = iter(git.names("diff", "--cached", "--raw", "--no-renames", "--abbrev=64", "-z"))
    for change, path in zip(words, words, strict=True):
        _, mode, _, blob, _ = change.split(" ")
        if mode == _LINK_MODE:
            check_link(path, os.fsdecode(git.ask("cat-file", "blob", blob)), "the patch")


def _lines(git: Git, commit: str, path: str) -> list[bytes]:
    return git.ask("cat-file", "blob", f"{commit}:{path}").split(b"\n") if commit else []


def _commit_in(code: Code, folder: Path) -> Path | None:
    """Check out the commit; return the repository if this is a worktree, None if it is a clone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not code.commit:
            Git(folder.parent).ask("init", "--quiet", str(folder.absolute()))
            return None
        for place in (Path(code.root), Path.cwd()):
            if _has(place, code.commit):
                git = Git(place, patience_secs=_PATIENCE_SECS)
                git.ask("worktree", "add", "--quiet", "--detach", str(folder.absolute()), code.commit)
                return place
    except GitFailed as error:
        raise CheckoutFailed(f"Cannot check out commit {code.commit[:12]} at {folder}: {error}.") from None
    _clone(code, folder)
    return None


def _has(place: Path, commit: str) -> bool:
    if not place.is_dir():
        return False
    with contextlib.suppress(GitFailed):
        Git(place).ask("cat-file", "-e", f"{commit}^{{commit}}")
        return True
    return False


def _clone(code: Code, folder: Path) -> None:
    gone = f"Commit {code.commit[:12]} not found: it is not in {code.root}"
    if not code.remote or MARK in code.remote:
        why = "its remote needs credentials, which were not saved" if code.remote else "it has no remote"
        raise CheckoutFailed(f"{gone} or the repository here, and {why}. Run this in a clone that has it.")
    git = Git(folder.parent, patience_secs=_PATIENCE_SECS, may_fetch=True)
    try:
        git.ask("clone", "--quiet", "--no-checkout", "--", code.remote, str(folder.absolute()))
        Git(folder, patience_secs=_PATIENCE_SECS).ask("checkout", "--quiet", "--detach", code.commit)
    except GitFailed as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckoutFailed(f"{gone}, and cannot be fetched from {code.remote}: {error}.") from None


def _fill(module: Submodule, code: Code, folder: Path) -> str:
    """Check out a submodule; return what differs from the original, or ""."""
    if not module.commit:
        return ""
    source, target = Path(code.root, module.path), folder / module.path
    try:
        Inside(folder).make_directory(module.path)
        Git(folder, patience_secs=_PATIENCE_SECS, may_fetch=True).ask(
            "clone", "--quiet", "--no-checkout", "--", str(source), str(target))
        Git(target, patience_secs=_PATIENCE_SECS).ask("checkout", "--quiet", "--detach", module.commit)
    except (GitFailed, StoreDenied) as error:
        return f"Submodule {module.path} is missing: {str(error).removesuffix('.')}."
    return f"Submodule {module.path} had uncommitted changes, which were not saved." if module.dirty else ""


def _directory(origin: Origin, code: Code, folder: Path) -> Path:
    here, root = Path(origin.directory).resolve(), Path(code.root).resolve()
    return folder / here.relative_to(root) if here.is_relative_to(root) else folder
