"""The repository of a command: its commit, and all differences from it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from barograph.model.origin import Code, LeftOut, Submodule
from barograph.provenance.git import Git, GitFailed, TooMuch, all_but
from barograph.provenance.patch import hide_in_patch
from barograph.provenance.secrets import Secrets, is_secret_file
from barograph.provenance.untracked import Limits, archived, without_environments

_HIGHEST_DIFF_BYTES = 10 * 2**20
_MOST_CHANGED = 10_000
_NOT_A_REPOSITORY = "not a git repository"


@dataclass(frozen=True, slots=True)
class KeptCode:
    """Code of a run.

    Attributes:
        code: None without a repository, or if git failed.
        diff: Difference from the commit, for `git apply`; `code` does not name it yet.
        untracked: Archive of untracked files.
        problems: What could not be read, one sentence each.
    """

    code: Code | None = None
    diff: bytes = b""
    untracked: bytes = b""
    problems: list[str] = field(default_factory=list)


def kept_code(
    folder: str | Path, *, secrets: Secrets, away: Iterable[Path] = (), started_unix: float | None = None,
    git: Git | None = None, limits: Limits | None = None, diff_bytes: int = _HIGHEST_DIFF_BYTES,
) -> KeptCode:
    """Return the current code of the repository that contains a directory.

    Args:
        folder: Working directory of the command.
        secrets: Secrets to hide in everything that is stored.
        away: Directories of runs, which are not code.
        started_unix: Start time of the command; later changes are reported. None: now.
        git: The git command.
        limits: Limits of untracked files.
        diff_bytes: Maximum size of the difference, and of a file in it.
    """
    started = time.time() if started_unix is None else started_unix
    git = git or Git(folder)
    try:
        root = Path(os.fsdecode(git.ask("rev-parse", "--show-toplevel").rstrip(b"\n")))
    except GitFailed as error:
        why = "the directory is not in a git repository" if _NOT_A_REPOSITORY in str(error) else f"git failed: {error}"
        return KeptCode(problems=[f"The code was not saved: {why} ({folder})."])
    problems: list[str] = []
    git = git.at(root).without_filters()
    # Files that may change meanwhile come first.
    commit = git.maybe("rev-parse", "--verify", "--quiet", "HEAD")
    changes = _Changes(git, root, commit, secrets, diff_bytes, problems)
    submodules = _submodules(git, root, problems)
    untracked, left_out, any_untracked = _untracked(git, root, secrets, limits or Limits(), away, problems)
    late = [name for name in changes.paths if _modified_unix(root / name) > started]
    if late:
        problems.append(f"Changed after the command started, saved with these changes: {', '.join(sorted(late)[:5])}.")
    code = Code(
        root=str(root), remote=_remote(git, secrets), branch=git.maybe("symbolic-ref", "--quiet", "--short", "HEAD"),
        commit=commit, dirty=bool(changes.paths or changes.deleted or any_untracked or any(
            module.dirty for module in submodules)),
        describe=git.maybe("describe", "--tags", "--always", "--long") if commit else "",
        shallow=git.maybe("rev-parse", "--is-shallow-repository") == "true",
        submodules=submodules, deleted=tuple(changes.deleted), left_out=(*changes.left_out, *left_out),
    )
    return KeptCode(code, changes.diff, untracked, problems)


class _Changes:
    """Differences of tracked files from the commit, staged or not.

    Attributes:
        paths: Changed files that exist.
        deleted: Deleted files.
        diff: For `git apply`.
        left_out: Omissions.
    """

    def __init__(self, git: Git, root: Path, commit: str, secrets: Secrets, most_bytes: int,
                 problems: list[str]) -> None:
        self.paths: list[str] = []
        self.deleted: list[str] = []
        self.left_out: list[LeftOut] = []
        self.diff = b""
        try:
            base = commit or git.text("hash-object", "-t", "tree", "--stdin")
            self._find(git, base)
            self._keep(git, root, base, secrets, most_bytes)
        except TooMuch:
            self.left_out.append(LeftOut("the uncommitted changes", f"more than {most_bytes:,} bytes"))
        except GitFailed as error:
            self.left_out.append(LeftOut("the uncommitted changes", str(error)))
            problems.append(f"The uncommitted changes were not saved: {error}.")

    def _find(self, git: Git, base: str) -> None:
        said = git.names("diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all",
                         base)
        for status, path in zip(said[::2], said[1::2], strict=False):
            (self.deleted if status == "D" else self.paths).append(path)

    def _keep(self, git: Git, root: Path, base: str, secrets: Secrets, most_bytes: int) -> None:
        if not self.paths:
            return
        passed_over = []
        for path in self.paths[:_MOST_CHANGED]:
            size_bytes = _size_bytes(root / path)
            why = ("files of this name usually contain secrets" if is_secret_file(path) else
                   f"{size_bytes:,} bytes, more than {most_bytes:,}" if size_bytes > most_bytes else "")
            if why:
                passed_over.append(path)
                self.left_out.append(LeftOut(path, why))
        words = ("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv",
                 "--diff-filter=d", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/", base, "--")
        self.diff, hidden = hide_in_patch(git.ask(*words, *all_but(passed_over), most_bytes=most_bytes), secrets)
        self.left_out += [LeftOut(path, "a secret was replaced") for path in hidden]


def _untracked(
    git: Git, root: Path, secrets: Secrets, limits: Limits, away: Iterable[Path], problems: list[str]
) -> tuple[bytes, list[LeftOut], bool]:
    try:
        names = list(without_environments(git.names("ls-files", "--others", "--exclude-standard", "-z")))
        # A nested repository that is not a submodule is listed as a directory.
        files = sorted(name for name in names if not name.endswith("/"))
        packed, left_out = archived(root, files, secrets=secrets, limits=limits, away=away)
        left_out += [LeftOut(name, "a nested repository") for name in names if name.endswith("/")]
        return packed, left_out, bool(packed or left_out)
    except GitFailed as error:
        problems.append(f"Untracked files were not saved: {error}.")
        return b"", [LeftOut("untracked files", str(error))], True


def _submodules(git: Git, root: Path, problems: list[str]) -> tuple[Submodule, ...]:
    if not (root / ".gitmodules").is_file():
        return ()
    try:
        found = [entry for entry in git.names("ls-files", "--stage", "-z") if entry.startswith("160000 ")]
    except GitFailed as error:
        problems.append(f"Cannot read the submodules: {error}.")
        return ()
    return tuple(_submodule(git, root, entry.partition("\t")[2]) for entry in found)


def _submodule(git: Git, root: Path, path: str) -> Submodule:
    if not (root / path / ".git").exists():
        return Submodule(path, "")
    git = git.at(root / path).without_filters()
    try:
        commit = git.text("rev-parse", "HEAD")
        return Submodule(path, commit, bool(git.ask("status", "--porcelain", "--ignore-submodules=none")))
    except GitFailed:
        return Submodule(path, "")


def _remote(git: Git, secrets: Secrets) -> str:
    remotes = git.maybe("remote").splitlines()
    name = "origin" if "origin" in remotes else next(iter(remotes), "")
    return secrets.hide(git.maybe("config", "--get", f"remote.{name}.url")) if name else ""


def _size_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _modified_unix(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
