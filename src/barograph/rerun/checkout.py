"""The code of a run in a folder of its own, as it was when the command was started."""

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

    @property
    def inside(self) -> Inside:
        """What else is written in the folder is written by this."""
        return Inside(self.folder)

    def make_directory(self) -> None:
        """Make the directory that the command was typed in.

        Raises:
            StoreDenied: It leads through a link.
        """
        self.inside.make_directory(self.directory.relative_to(self.folder).as_posix())

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
        raise CheckoutFailed(f"{folder} already exists; name a folder that does not exist.")
    diff, untracked = (_kept(store, name) for name in (code.diff, code.untracked))
    # Before anything is laid out.
    check_paths(paths_in(diff), "the patch")
    check_paths(code.deleted, "the list of deleted files")
    check_paths((module.path for module in code.submodules), "the list of submodules")
    for commit in (code.commit, *(module.commit for module in code.submodules)):
        # git would take another text for an option.
        if not _COMMIT.fullmatch(commit):
            raise CheckoutFailed(f"{quoted(commit)} is not a commit; nothing was laid out.")
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
    git, inside = Git(folder, patience_secs=_PATIENCE_SECS), Inside(folder)
    try:
        if code.deleted:
            git.ask("rm", "--quiet", "--cached", "--", *(f":(top,literal){path}" for path in code.deleted))
            for path in code.deleted:
                inside.remove(path)
        if diff:
            whole = refilled(diff, lambda path: _lines(git, code.commit, path)) if MARK.encode() in diff else diff
            # First the index alone: the links that the patch makes are checked before any file is written. The index
            # also tells what was added from what was never tracked.
            git.ask("apply", "--binary", "--cached", "--whitespace=nowarn", "-", stdin=whole)
            _check_links(git)
            git.ask("apply", "--binary", "--whitespace=nowarn", "-", stdin=whole)
    except GitFailed as error:
        raise CheckoutFailed(f"The uncommitted changes do not fit the commit {code.commit[:12]}: {error}.") from None
    except StoreDenied as error:
        raise CheckoutFailed(f"A deleted file cannot be removed: {error}") from error
    if untracked:
        unpack(untracked, folder)
    notes = [f"{item.what} is not as it was: {item.why}." for item in code.left_out]
    return [*notes, *(note for module in code.submodules if (note := _fill(module, code, folder)))]


def _check_links(git: Git) -> None:
    """Refuse links in the index that lead out of the folder and that the commit does not have.

    Raises:
        CheckoutFailed: There is one.
        GitFailed: git cannot tell.
    """
    words = iter(git.names("diff", "--cached", "--raw", "--no-renames", "--abbrev=64", "-z"))
    for change, path in zip(words, words, strict=True):
        _, mode, _, blob, _ = change.split(" ")
        if mode == _LINK_MODE:
            check_link(path, os.fsdecode(git.ask("cat-file", "blob", blob)), "the patch")


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
        Inside(folder).make_directory(module.path)
        Git(folder, patience_secs=_PATIENCE_SECS, may_fetch=True).ask(
            "clone", "--quiet", "--no-checkout", "--", str(source), str(target))
        Git(target, patience_secs=_PATIENCE_SECS).ask("checkout", "--quiet", "--detach", module.commit)
    except (GitFailed, StoreDenied) as error:
        return f"The submodule {module.path} is not there: {str(error).removesuffix('.')}."
    return f"The submodule {module.path} had changes, which were not kept." if module.dirty else ""


def _directory(origin: Origin, code: Code, folder: Path) -> Path:
    here, root = Path(origin.directory).resolve(), Path(code.root).resolve()
    return folder / here.relative_to(root) if here.is_relative_to(root) else folder
