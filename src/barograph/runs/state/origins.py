"""Provenance files of a run: `origin/AAAA.json` and related files.

An attempt A may have `origin/AAAA.DIGEST.diff`, `….untracked.tar.gz` and `….settings.toml`, written before the
metadata file that names them. Each worker may have `origin/AAAA-data-W.json` with the files that it
opened, and `origin/AAAA-options-W.json` with the parsed options of its script. If the script ran with another Python
than the one that was known when the attempt began, `origin/AAAA-packages.json` has its packages.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound
from barograph.model.origin import (
    DataFile,
    Option,
    Origin,
    Package,
    Untrained,
    data_from_json,
    origin_from_json,
    packages_from_json,
    with_options,
)
from barograph.provenance.gathering import Gathered
from barograph.provenance.packages import Interpreter
from barograph.runs.format.layout import ORIGIN, digest_of
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.format.proof import proved
from barograph.store.base import Store

_METADATA_NAME = re.compile(rf"{ORIGIN}/(?P<attempt>\d{{4,}})\.json")
_FILE = re.compile(rf"{ORIGIN}/\d{{4,}}\.(?P<digest>[0-9a-f]{{32}})\.(?:diff|untracked\.tar\.gz|settings\.toml)")


def write_origin(store: Store, attempt: int, gathered: Gathered) -> Origin:
    """Write the provenance of an attempt; return it with the names of its objects.

    Raises:
        ObjectExists: The attempt has one.
        StoreError: The store rejects it.
    """
    origin = gathered.origin
    if origin.code is not None:
        code = replace(origin.code, diff=_put(store, attempt, "diff", gathered.diff),
                       untracked=_put(store, attempt, "untracked.tar.gz", gathered.untracked))
        origin = replace(origin, code=code)
    origin = replace(origin, settings=_put(store, attempt, "settings.toml", gathered.settings))
    store.create(f"{ORIGIN}/{attempt:04d}.json", sealed(origin.to_json()))
    return origin


def read_origin(store: Store, attempt: int | None = None) -> Origin | None:
    """Return the provenance of an attempt, with the files that its workers opened; None if it has none.

    Args:
        store: Store of the run.
        attempt: Attempt; None: the last one with provenance.

    Raises:
        DamagedChunk: It is damaged.
        StoreError: The store cannot be read.
    """
    metadata = {int(match["attempt"]): name for name in _names(store) if (match := _METADATA_NAME.fullmatch(name))}
    which = max(metadata, default=-1) if attempt is None else attempt
    if which not in metadata:
        return None
    try:
        origin = origin_from_json(unsealed(store.get(metadata[which]), metadata[which]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedChunk(
            f"The metadata file is invalid: {type(error).__name__}: {error} ({metadata[which]})."
        ) from error
    files, uncounted = read_data(store, which)
    origin = _with_packages(replace(origin, data=files, data_uncounted=uncounted), store, which)
    options = _read_options(store, which)
    return with_options(origin, options) if options else origin


def write_data(store: Store, attempt: int, worker: str, files: Sequence[DataFile], uncounted: int) -> None:
    """Write the files that a worker opened, replacing an earlier list.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        worker: Name of the worker.
        files: Files opened for reading.
        uncounted: Number of further files.

    Raises:
        StoreError: The store rejects it.
    """
    entries = [{name: getattr(file, name) for name in DataFile.__slots__} for file in files]
    store.put(_data_name(attempt, worker), sealed({"files": entries, "uncounted": uncounted}))


def write_options(
    store: Store, attempt: int, worker: str, options: Mapping[str, Option], untrained: Untrained | None = None
) -> None:
    """Write the parsed options of a worker's script, replacing earlier ones; and what it is if it did not train.

    Raises:
        StoreError: The store rejects it.
    """
    entries = {name: [option.value, list(option.flags)] for name, option in options.items()}
    store.put(f"{ORIGIN}/{attempt:04d}-options-{worker}.json", sealed({
        "options": entries,
        **({} if untrained is None else {"untrained": asdict(untrained)}),
    }))


def write_packages(store: Store, attempt: int, interpreter: Interpreter, packages: Mapping[str, Package]) -> None:
    """Write the Python that the script of an attempt runs with, and its packages, unless they are there.

    Raises:
        StoreError: The store rejects it.
    """
    with contextlib.suppress(ObjectExists):
        store.create(_packages_name(attempt), sealed({
            "interpreter": interpreter.executable, "python_version": interpreter.version,
            "packages": {name: asdict(package) for name, package in packages.items()}}))


def _with_packages(origin: Origin, store: Store, attempt: int) -> Origin:
    """Return an origin with what `write_packages` wrote; raises as `read_origin`."""
    name = _packages_name(attempt)
    if name not in _names(store):
        return origin
    body = unsealed(store.get(name), name)
    try:
        return replace(origin, interpreter=str(body["interpreter"]), python_version=str(body["python_version"]),
                       packages=packages_from_json(body["packages"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedChunk(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).") from error


def read_untrained(store: Store, attempt: int) -> Untrained | None:
    """Return what is known of a script that did not train; None if nothing is.

    Raises:
        DamagedChunk: The file is damaged.
        StoreError: The store cannot be read.
    """
    for name in _names(store):
        if not name.startswith(f"{ORIGIN}/{attempt:04d}-options-") or not name.endswith(".json"):
            continue
        body = unsealed(store.get(name), name)
        if "untrained" not in body:
            continue
        try:
            found = body["untrained"]
            return Untrained(tuple(map(str, found["frameworks"])), bool(found["loops"]), str(found.get("error", "")))
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedChunk(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).") from error
    return None


def _read_options(store: Store, attempt: int) -> dict[str, Option]:
    """Return the options of all workers; the first worker with an option wins; raises as `read_origin`."""
    found: dict[str, Option] = {}
    for name in _names(store):
        if not name.startswith(f"{ORIGIN}/{attempt:04d}-options-") or not name.endswith(".json"):
            continue
        body = unsealed(store.get(name), name)
        try:
            for option, (value, flags) in body["options"].items():
                found.setdefault(option, Option(value, tuple(map(str, flags))))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedChunk(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).") \
                from error
    return found


def read_data(store: Store, attempt: int) -> tuple[tuple[DataFile, ...], int]:
    """Return the files that workers opened, each once, and the number of further ones; raises as `read_origin`."""
    found: dict[str, DataFile] = {}
    uncounted = 0
    for name in _names(store):
        if not name.startswith(f"{ORIGIN}/{attempt:04d}-data-") or not name.endswith(".json"):
            continue
        body = unsealed(store.get(name), name)
        try:
            for file in map(data_from_json, body["files"]):
                if file.path not in found or not found[file.path].fingerprint:
                    found[file.path] = file
            uncounted += int(body["uncounted"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedChunk(f"The metadata file is invalid: {type(error).__name__}: {error} ({name}).") \
                from error
    return tuple(sorted(found.values(), key=lambda file: file.path)), uncounted


def read_file(store: Store, name: str) -> bytes:
    """Return the bytes of an object of an origin; b"" for an empty name.

    Raises:
        DamagedChunk: It is damaged, or the name is invalid.
        ObjectNotFound: There is no such object.
        StoreError: The store cannot be read.
    """
    if not name:
        return b""
    match = _FILE.fullmatch(name)
    if match is None:
        raise DamagedChunk(f"The metadata of the origin names an unknown file: {name} ({store.url}).")
    return bytes(proved(store, name, match["digest"]))


def damaged_files(store: Store, names: Iterable[str]) -> list[str]:
    """Return one sentence for each damaged object of an origin.

    Args:
        store: Store of the run.
        names: Names of all its objects.

    Raises:
        StoreError: The store cannot be read.
    """
    found = []
    for name in names:
        if _FILE.fullmatch(name):
            try:
                read_file(store, name)
            except DamagedChunk as error:
                found.append(str(error))
            except ObjectNotFound:
                continue  # it was removed since the listing
    return found


def _put(store: Store, attempt: int, ending: str, data: bytes) -> str:
    if not data:
        return ""
    name = f"{ORIGIN}/{attempt:04d}.{digest_of(data)}.{ending}"
    try:
        store.create(name, data)
    except ObjectExists:
        return name  # the name has the digest
    return name


def _data_name(attempt: int, worker: str) -> str:
    return f"{ORIGIN}/{attempt:04d}-data-{worker}.json"


def _packages_name(attempt: int) -> str:
    return f"{ORIGIN}/{attempt:04d}-packages.json"


def _names(store: Store) -> list[str]:
    return [item.name for item in store.list(ORIGIN)]
