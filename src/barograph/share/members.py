"""What may stand in an archive, by its name: an archive that is unpacked is a root of runs, and nothing else.

`barograph.json`, the manifest; `FOLDER/…`, the objects of a run; `.catalog/artifacts/…` and `.catalog/journal/…` as
beside runs. Whatever has another name is refused, so nothing climbs out, and nothing lands where nobody expects it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from barograph.errors import BadArchive
from barograph.experiments.artifacts import ARTIFACTS, place_of
from barograph.runs.format.layout import CAPSULES, CHECKPOINTS, FOLDERS, MANIFEST
from barograph.runs.state.journal import JOURNAL_OF_ROOT, is_exhibit_json

ARCHIVE_MANIFEST = "barograph.json"
"""The member that says what all others are."""

ONLY_IF_ASKED = (CAPSULES, CHECKPOINTS)
"""Folders of a run that are large, and left out where nobody asks for them."""

_MOST_NAME_BYTES = 1000
_MOST_PART_BYTES = 255
_DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_UNFIT = re.compile(r'[\x00-\x1f\x7f\ud800-\udfff<>:"|?*\\]')
_ARTIFACT = re.compile(rf"{re.escape(ARTIFACTS)}/[0-9a-f]{{2}}/sha256-(?P<digest>[0-9a-f]{{64}})")


@dataclass(frozen=True, slots=True)
class Member:
    """What a member of an archive is.

    Attributes:
        name: Its whole name.
        run: Folder of the run that it is part of; "" where it is of none.
        object: Its name within the run.
        digest: Of the artifact that it is, `sha256:…`; "" where it is none.
        metadata file: Name of the metadata file of the journal that it is; "" where it is none.
    """

    name: str
    run: str = ""
    object: str = ""
    digest: str = ""
    metadata_file: str = ""

    @property
    def is_optional(self) -> bool:
        """Whether a run may lack it and be the same run all the same: what may be left out, or is added later."""
        return self.object.partition("/")[0] in (*ONLY_IF_ASKED, "findings", "watch", "control", "journal")

    @property
    def is_replaced(self) -> bool:
        """Whether a run may hold other bytes under its name and be the same run all the same."""
        return self.object.partition("/")[0] in ("heartbeats", "retention", "findings", "watch", "control", "imported")


def member_from_name(name: str) -> Member:
    """Return what a member of that name is.

    Raises:
        BadArchive: Nothing in an archive is called so; the message says why.

    Example:
        >>> member_from_name("first/records/p0/x.parquet").run
        'first'
        >>> member_from_name("../first/run.json")
        Traceback (most recent call last):
        ...
        barograph.errors.BadArchive: The archive holds "../first/run.json": the name climbs out of the folder.
    """
    problem = _problem_of(name)
    if problem:
        raise BadArchive(f'The archive holds "{_shown(name)}": {problem}.')
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
    raise BadArchive(f'The archive holds "{_shown(name)}": that is no part of a run, no artifact and no entry.')


def fits_as_folder(name: str) -> bool:
    """Return whether a run may be called so in an archive.

    Example:
        >>> [fits_as_folder(name) for name in ("first", "läufe 3", ".hidden", "..", "con", "a/b", "")]
        [True, True, False, False, False, False, False]
    """
    return "/" not in name and not name.startswith(".") and not _problem_of(f"{name}/{MANIFEST}")


def _problem_of(name: str) -> str:
    """Return what is wrong with a name wherever it is unpacked; "" where nothing is."""
    parts = name.split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "the name is absolute"
    if ".." in parts:
        return "the name climbs out of the folder"
    if _UNFIT.search(name):
        return "the name holds characters that no name of ours has"
    if "" in parts or "." in parts:
        return "the name is that of a folder, or has an empty part"
    if any(part.lower() == ".git" for part in parts):
        return "git would take the folder for a repository, and obey its settings"
    if any(_DEVICES.fullmatch(part) for part in parts):
        return "the name is that of a device on Windows"
    if any(part[-1] in ". " for part in parts):
        return "a part of the name ends in a dot or a space, which Windows drops"
    if len(name.encode()) > _MOST_NAME_BYTES or any(len(part.encode()) > _MOST_PART_BYTES for part in parts):
        return "the name is too long for a file"
    return ""


def _shown(name: str) -> str:
    short = name if len(name) <= 100 else f"{name[:100]}…"
    return short.encode("unicode_escape").decode() if not short.isprintable() else short
