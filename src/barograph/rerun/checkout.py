"""The code of a run in a folder of its own, as it was when the command was started."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import CheckoutFailed, DamagedChunk, ObjectNotFound
from barograph.model.origin import Code, Origin, Submodule
from barograph.provenance.git import Git, GitFailed
from barograph.provenance.patch import paths_in, refilled
from barograph.provenance.secrets import MARK
from barograph.rerun.unpacking import check_paths, unpack
from barograph.runs.origins import read_file
from barograph.store.base import Store

_PATIENCE_SECS = 600.0


@dataclass(frozen=True, slots=True)
class Checkout:
    """What was laid out.

    Attributes:
        folder: Top of the code.
        directory: Within it, that the command was typed in.
        repository: That the folder is a worktree of; None: it stands by itself.
        notes: What is not as it was, one sentence each.
    """

    folder: Path
    directory: Path
    repository: Path | None
    notes: tuple[str, ...]

    def remove(self) -> None:
        """Take the folder away again, and out of its repository's list of worktrees."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.repository is not None:
            with contextlib.suppress(GitFailed):
                Git(self.repository).ask("worktree", "prune")


def checked_out(store: Store, origin: Origin, folder: Path) -> Checkout:
    """Return the code of a run, laid out.

    Args:
        store: The run's.
        origin: What made it.
        folder: Where to; nothing may be there yet.

    Raises:
        CheckoutFailed: The code was not kept, something is at the folder, the commit is gone, or what was kept would
            lead out of the folder.
        DamagedChunk, StoreError: The run cannot be read.
    """
    code = origin.code
    if code is None:
        why = next((text for text in origin.problems if text.startswith("The code")), "the run has no code.")
        raise CheckoutFailed(f"There is nothing to check out: {why}")
    if folder.exists() or folder.is_symlink():
        raise CheckoutFailed(f"Something is at {folder} already; name a folder that is not there yet.")
    diff, untracked = (_kept(store, name) for name in (code.diff, code.untracked))
    # Before anything is laid out.
    check_paths(paths_in(diff), "the patch")
    check_paths(code.deleted, "the list of deleted files")
    check_paths((module.path for module in code.submodules), "the list of submodules")
    repository = _commit_in(code, folder)
    made = Checkout(folder, _directory(origin, code, folder), repository, ())
    try:
        notes = _change(code, folder, diff, untracked)
    except BaseException:
        made.remove()
        raise
    return Checkout(folder, made.directory, repository, tuple(notes))


def _kept(store: Store, name: str) -> bytes:
    try:
        return read_file(store, name)
    except ObjectNotFound:
        raise DamagedChunk(f"The run names a part of its code that is not there ({name} in {store.url}).") from None


def _change(code: Code, folder: Path, diff: bytes, untracked: bytes) -> list[str]:
    """Make the changes that were not committed; return what is not as it was."""
    git = Git(folder, patience_secs=_PATIENCE_SECS)
    try:
        if code.deleted:
            git.ask("rm", "--quiet", "--cached", "--", *(f":(top,literal){path}" for path in code.deleted))
            for path in code.deleted:
                (folder / path).unlink(missing_ok=True)
        if diff:
            whole = refilled(diff, lambda path: _lines(git, code.commit, path)) if MARK.encode() in diff else diff
            # Into the index as well, so that what was added is told from what never was.
            git.ask("apply", "--binary", "--index", "--whitespace=nowarn", "-", stdin=whole)
    except GitFailed as error:
        raise CheckoutFailed(f"The uncommitted changes do not fit the commit {code.commit[:12]}: {error}.") from None
    if untracked:
        unpack(untracked, folder)
    notes = [f"{item.what} is not as it was: {item.why}." for item in code.left_out]
    return [*notes, *(note for module in code.submodules if (note := _fill(module, code, folder)))]


def _lines(git: Git, commit: str, path: str) -> list[bytes]:
    return git.ask("cat-file", "blob", f"{commit}:{path}").split(b"\n") if commit else []


def _commit_in(code: Code, folder: Path) -> Path | None:
    """Lay the commit out in the folder; return the repository that this is a worktree of, None: it is one by itself."""
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
        raise CheckoutFailed(f"The commit {code.commit[:12]} cannot be laid out at {folder}: {error}.") from None
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
    gone = f"The commit {code.commit[:12]} is gone: it is not in {code.root}"
    if not code.remote or MARK in code.remote:
        why = "its remote asks for credentials, which were not kept" if code.remote else "it has no remote"
        raise CheckoutFailed(f"{gone}, nor in the repository here, and {why}; run this in a clone that has it.")
    git = Git(folder.parent, patience_secs=_PATIENCE_SECS, may_fetch=True)
    try:
        git.ask("clone", "--quiet", "--no-checkout", "--", code.remote, str(folder.absolute()))
        Git(folder, patience_secs=_PATIENCE_SECS).ask("checkout", "--quiet", "--detach", code.commit)
    except GitFailed as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CheckoutFailed(f"{gone}, nor can it be had from {code.remote}: {error}.") from None


def _fill(module: Submodule, code: Code, folder: Path) -> str:
    """Lay a submodule out; return what is not as it was, "" where all is."""
    if not module.commit:
        return ""
    source, target = Path(code.root, module.path), folder / module.path
    try:
        Git(folder, patience_secs=_PATIENCE_SECS, may_fetch=True).ask(
            "clone", "--quiet", "--no-checkout", "--", str(source), str(target))
        Git(target, patience_secs=_PATIENCE_SECS).ask("checkout", "--quiet", "--detach", module.commit)
    except GitFailed as error:
        return f"The submodule {module.path} is not there: {error}."
    return f"The submodule {module.path} had changes, which were not kept." if module.dirty else ""


def _directory(origin: Origin, code: Code, folder: Path) -> Path:
    here, root = Path(origin.directory).resolve(), Path(code.root).resolve()
    return folder / here.relative_to(root) if here.is_relative_to(root) else folder
