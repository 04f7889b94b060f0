"""The repository that a command was started in: its commit, and all that differs from it."""

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
from barograph.provenance.untracked import Limits, archived

_HIGHEST_DIFF_BYTES = 10 * 2**20
_MOST_CHANGED = 10_000
_NOT_A_REPOSITORY = "not a git repository"


@dataclass(frozen=True, slots=True)
class KeptCode:
    """What was found.

    Attributes:
        code: None where there is no repository, or git does not tell.
        diff: The difference from the commit, as `git apply` takes it; without names yet in `code`.
        untracked: The archive of what git does not track.
        problems: What could not be learnt.
    """

    code: Code | None = None
    diff: bytes = b""
    untracked: bytes = b""
    problems: list[str] = field(default_factory=list)


def kept_code(
    folder: str | Path, *, secrets: Secrets, away: Iterable[Path] = (), started_unix: float | None = None,
    git: Git | None = None, limits: Limits | None = None, diff_bytes: int = _HIGHEST_DIFF_BYTES,
) -> KeptCode:
    """Return the code of the repository that a folder lies in, as it stands now.

    Args:
        folder: Where the command is started.
        secrets: Are hidden in all that is kept.
        away: Folders of runs, which are no code.
        started_unix: When the command was started: what was changed since is said. None: now.
        git: Is asked.
        limits: Of untracked files.
        diff_bytes: Longest difference that is kept, and greatest file that is in it.
    """
    started = time.time() if started_unix is None else started_unix
    git = git or Git(folder)
    try:
        root = Path(os.fsdecode(git.ask("rev-parse", "--show-toplevel").rstrip(b"\n")))
    except GitFailed as error:
        why = "the folder is in no git repository" if _NOT_A_REPOSITORY in str(error) else f"git does not tell: {error}"
        return KeptCode(problems=[f"The code was not saved: {why} ({folder})."])
    problems: list[str] = []
    git = git.at(root).without_filters()
    # First what may change meanwhile.
    commit = git.maybe("rev-parse", "--verify", "--quiet", "HEAD")
    changes = _Changes(git, root, commit, secrets, diff_bytes, problems)
    submodules = _submodules(git, root, problems)
    untracked, left_out, any_untracked = _untracked(git, root, secrets, limits or Limits(), away, problems)
    late = [name for name in changes.paths if _modified_unix(root / name) > started]
    if late:
        problems.append(f"Changed after the command was started, and kept as it is now: {', '.join(sorted(late)[:5])}.")
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
    """What differs from the commit in tracked files, staged or not.

    Attributes:
        paths: That differ and are there.
        deleted: That are gone.
        diff: For `git apply`.
        left_out: What is not in it.
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
            why = ("its name is that of a file with secrets" if is_secret_file(path) else
                   f"{size_bytes:,} bytes, more than {most_bytes:,}" if size_bytes > most_bytes else "")
            if why:
                passed_over.append(path)
                self.left_out.append(LeftOut(path, why))
        words = ("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv",
                 "--diff-filter=d", "--ignore-submodules=all", "--src-prefix=a/", "--dst-prefix=b/", base, "--")
        self.diff, hidden = hide_in_patch(git.ask(*words, *all_but(passed_over), most_bytes=most_bytes), secrets)
        self.left_out += [LeftOut(path, "a secret in it was replaced") for path in hidden]


def _untracked(
    git: Git, root: Path, secrets: Secrets, limits: Limits, away: Iterable[Path], problems: list[str]
) -> tuple[bytes, list[LeftOut], bool]:
    try:
        names = git.names("ls-files", "--others", "--exclude-standard", "-z")
        # A repository within that is no submodule is named as a folder.
        files = sorted(name for name in names if not name.endswith("/"))
        packed, left_out = archived(root, files, secrets=secrets, limits=limits, away=away)
        left_out += [LeftOut(name, "a repository of its own") for name in names if name.endswith("/")]
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
