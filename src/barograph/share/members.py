"""Allowed members of an archive: an unpacked archive is a root of runs, and nothing else.

`barograph.json` is the manifest, `FOLDER/…` are the objects of a run, `.catalog/artifacts/…` and
`.catalog/journal/…` are as beside runs. All other names are refused, which prevents path traversal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barograph.errors import BadArchive
from barograph.experiments.artifacts import ARTIFACTS, place_of
from barograph.runs.format.layout import CAPSULES, CHECKPOINTS, FOLDERS, MANIFEST
from barograph.runs.state.journal import JOURNAL_OF_ROOT, is_exhibit_json

ARCHIVE_MANIFEST = "barograph.json"
"""Name of the manifest."""

ONLY_IF_ASKED = (CAPSULES, CHECKPOINTS)
"""Large directories of a run, included only on request."""

_MOST_NAME_BYTES = 1000
_MOST_PART_BYTES = 255
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_UNFIT = re.compile(r'[\x00-\x1f\x7f\ud800-\udfff<>:"|?*\\]')
_ARTIFACT = re.compile(rf"{re.escape(ARTIFACTS)}/[0-9a-f]{{2}}/sha256-(?P<digest>[0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class Member:
    """A classified member of an archive.

    Attributes:
        name: Full name.
        run: Directory of its run; "" if it belongs to none.
        object: Its name within the run.
        digest: Digest of the artifact, `sha256:…`; "" if it is not an artifact.
        metadata_file: Name of the journal file; "" if it is not one.
    """

    name: str
    run: str = ""
    object: str = ""
    digest: str = ""
    metadata_file: str = ""

    @property
    def is_optional(self) -> bool:
        """Whether two copies of the same run may differ in having it."""
        return self.object.partition("/")[0] in (*ONLY_IF_ASKED, "findings", "watch", "control", "journal")

    @property
    def is_replaced(self) -> bool:
        """Whether two copies of the same run may have different bytes for it."""
        return self.object.partition("/")[0] in ("heartbeats", "retention", "findings", "watch", "control", "imported")


def member_from_name(name: str) -> Member:
    """Return the classified member of that name.

    Raises:
        BadArchive: The name is not allowed; the message says why.

    Example:
        >>> member_from_name("first/records/p0/x.parquet").run
        'first'
        >>> member_from_name("../a/run.json")
        Traceback (most recent call last):
        ...
        barograph.errors.BadArchive: Forbidden member of the archive, "../a/run.json": the name leaves the directory.
    """
    problem = _problem_of(name)
    if problem:
        raise BadArchive(f'Forbidden member of the archive, "{_shown(name)}": {problem}.')
    if name == ARCHIVE_MANIFEST:
        return Member(name)
    match = _ARTIFACT.fullmatch(name)
    if match and place_of(f"sha256:{match['digest']}") == name:
        return Member(name, digest=f"sha256:{match['digest']}")
    folder, _, rest = name.rpartition("/")
    if folder == JOURNAL_OF_ROOT and is_exhibit_json(rest):
        return Member(name, metadata_file=rest)
    run, _, inside = name.partition("/")
    if not run.startswith(".") and (
        inside == MANIFEST or ("/" in inside and inside.partition("/")[0] in FOLDERS)
    ):
        return Member(name, run=run, object=inside)
    raise BadArchive(f'Forbidden member of the archive, "{_shown(name)}": not part of a run, artifact or journal.')


def fits_as_folder(name: str) -> bool:
    """Return whether an archive allows this directory name for a run.

    Example:
        >>> [fits_as_folder(name) for name in ("first", "läufe 3", ".hidden", "..", "con", "a/b", "")]
        [True, True, False, False, False, False, False]
    """
    return "/" not in name and not name.startswith(".") and not _problem_of(f"{name}/{MANIFEST}")


def _problem_of(name: str) -> str:
    """Return what is wrong with a name on any platform; "" if nothing is."""
    parts = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "the name is absolute"
    if ".." in parts:
        return "the name leaves the directory"
    if _UNFIT.search(name):
        return "the name has invalid characters"
    if "" in parts or "." in parts:
        return "the name is a directory or has an empty part"
    if any(part.lower() == ".git" for part in parts):
        return "git would treat the directory as a repository and obey its settings"
    if any(_DEVICES.fullmatch(part) for part in parts):
        return "the name is a device on Windows"
    if any(part[-1] in ". " for part in parts):
        return "a part of the name ends in a dot or a space, which Windows drops"
    if len(name.encode()) > _MOST_NAME_BYTES or any(len(part.encode()) > _MOST_PART_BYTES for part in parts):
        return "the name is too long"
    return ""


def _shown(name: str) -> str:
    short = name if len(name) <= 100 else f"{name[:100]}…"
    return short.encode("unicode_escape").decode() if not short.isprintable() else short
