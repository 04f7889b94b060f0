"""How a process comes to write a run: the run is claimed once an attempt, and each worker takes a name."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import Enum, auto
from typing import NamedTuple

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound, RunFinished, RunInUse
from barograph.model.clock import Clock
from barograph.model.manifest import EndState, Manifest, Worker
from barograph.runs.format.layout import (
    ATTEMPTS,
    ENDINGS,
    MANIFEST,
    RECORDS,
    TENSORS,
    WORKERS,
    attempt_from_name,
    attempt_name,
    metadata_from_name,
    metadata_name,
)
from barograph.runs.format.metadata import (
    CLAIM,
    ending_from_bytes,
    manifest_bytes,
    manifest_from_bytes,
    sealed,
    unsealed,
    worker_bytes,
    worker_from_bytes,
)
from barograph.runs.state.process import Process, is_alive, parent_process, process_of, this_process
from barograph.runs.state.survey import surveyed
from barograph.runs.state.vitals import DEAD_SECS, Vitals
from barograph.store.base import Store

GRACE_SECS = 600.0
"""So long a run that was claimed on another machine is left to it though no worker has come: before the first step
data may have to be fetched and prepared, and nobody gives a sign of life meanwhile."""

_LOOK_AGAIN_SECS = 0.5

_LAUNCH_VARIABLES = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID",
)


class Claim(NamedTuple):
    """The right to write a run.

    Attributes:
        manifest: Of the run; where it is resumed, as it was first written.
        attempt: The attempt to write, from 0.
    """

    manifest: Manifest
    attempt: int


class _State(Enum):
    FINISHED = auto()
    ALIVE = auto()
    OVER = auto()
    """Ended without finishing, or killed: the run may be resumed."""
    UNKNOWN = auto()
    """On another machine, and its heartbeat has not been watched for long enough."""


def claim_run(
    store: Store,
    manifest: Manifest,
    *,
    clock: Clock,
    rank: int | None = None,
    dead_secs: float = DEAD_SECS,
    grace_secs: float = GRACE_SECS,
    wait: Callable[[float], None] = time.sleep,
) -> Claim:
    """Return the right to write the run in `store`: a new one, or the next attempt of one that is over.

    Of the processes that one launcher starts (`rank` tells them apart) the first claims the run and the others
    join it. Where the run's workers are on another machine, their heartbeats are watched for `dead_secs`
    before it is called over; where none has come yet, it is watched for `grace_secs`.

    Args:
        store: Where.
        manifest: Written where there is no run yet.
        clock: Its monotonic face is asked for how long heartbeats were watched.
        rank: Of this process among those started with it; None where there are no ranks.
        dead_secs: How long a heartbeat may stand still.
        grace_secs: How long no worker may come, see `GRACE_SECS`.
        wait: Lets some seconds pass.

    Raises:
        RunInUse: A process that lives writes this run.
        RunFinished: The run has ended by itself.
        NewerFormat, DamagedChunk: The manifest that is there cannot be used.
        StoreError: The store does not do what is asked.
    """
    stored = _write_manifest(store, manifest)
    vitals = Vitals(store, clock, dead_secs)
    launch = launch_of(rank)
    while True:
        newest = max(attempts_of(store), default=None)
        if newest is not None:
            state, joinable = _look(store, newest, vitals, rank, launch, grace_secs)
            if joinable:
                return Claim(stored, newest)
            if state is _State.UNKNOWN:
                wait(_LOOK_AGAIN_SECS)
                continue
            _refuse(state, store.url)
        attempt = 0 if newest is None else newest + 1
        if begin_attempt(store, attempt, started_unix=clock.unix(), launch=launch):
            return Claim(stored, attempt)


def begin_attempt(store: Store, attempt: int, *, started_unix: float, launch: str = "") -> bool:
    """Return whether this process is the one that began the attempt; else another was quicker."""
    name, claim = attempt_name(attempt), new_claim()
    body = {"attempt": attempt, "started_unix": started_unix, "launch": launch, **asdict(this_process())}
    try:
        store.create(name, sealed({**body, CLAIM: claim}))
    except ObjectExists:
        return _claim_in(store, name) == claim
    return True


def new_claim() -> str:
    """Return what tells one claim from every other, those of the same process too.

    A bucket may take an object in while its answer is lost on the way. Whoever asks again then hears that the
    name is taken, and sees by this that it was himself.
    """
    return secrets.token_hex(16)


def claim_worker(
    store: Store,
    *,
    attempt: int,
    clock: Clock,
    rank: int | None = None,
    world_size: int = 1,
    versions: Mapping[str, str] | None = None,
    device: str = "",
    process: Process | None = None,
    claim: str = "",
) -> Worker:
    """Return this process as a worker of a claimed run, declared in the store.

    A rank whose name is taken in this attempt was started anew by its launcher: it goes to the next
    attempt, as do the ranks beside it. A process without rank takes the first name that is free.
    What was declared with the same claim before is found again.

    Args:
        store: The run's.
        attempt: As claimed, or as handed on by the process that claimed.
        clock: Time.
        rank: Of this process; None where there are no ranks.
        world_size: How many ranks there are.
        versions: Package to version, in this process.
        device: What it trains on, for people.
        process: The process that trains; None: the one that calls.
        claim: As `new_claim` made it, where the same is asked again after a failure; "": a new one.

    Raises:
        StoreError: The store does not do what is asked; trying again with the same claim is safe.
    """
    me = process or this_process()
    claim = claim or new_claim()
    run_id = _run_id(store)
    number = 0
    while True:
        name = f"p{number}" if rank is None else f"r{rank}"
        worker = Worker(
            name=name, attempt=attempt, pid=me.pid, host=me.host, boot_id=me.boot_id, started_unix=clock.unix(),
            world_size=world_size, versions=dict(versions or {}), device=device, started_ticks=me.started_ticks,
            run_id=run_id,
        )
        metadata_file = metadata_name(WORKERS, name, attempt)
        try:
            store.create(metadata_file, worker_bytes(worker, claim=claim))
        except ObjectExists:
            if _claim_in(store, metadata_file) == claim:
                return worker_from_bytes(store.get(metadata_file), metadata_file)
            if rank is None:
                number += 1
            else:
                attempt += 1
                begin_attempt(store, attempt, started_unix=clock.unix(), launch=launch_of(rank))
            continue
        return worker


def next_chunk_of(store: Store, worker: Worker) -> int:
    """Return the sequence number after those of all chunks that a worker has published.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed([*store.list(f"{RECORDS}/{worker.name}"), *store.list(f"{TENSORS}/{worker.name}")])
    stream = worker.attempt, worker.name
    chunks = [file.last for file in found.chunks.get(stream, ())]
    chunks += [file.chunk for file in found.tensors.get(stream, ())]
    return max(chunks, default=-1) + 1


def launch_of(rank: int | None, environ: Mapping[str, str] | None = None) -> str:
    """Return what the processes of one launch have in common and no other; "" for a process without rank."""
    if rank is None:
        return ""
    environ = os.environ if environ is None else environ
    if "RANK" in environ and "MASTER_ADDR" in environ:
        parts = [environ.get(name, "") for name in _LAUNCH_VARIABLES]
    else:
        parts = [str(part) for part in asdict(parent_process()).values()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def attempts_of(store: Store) -> list[int]:
    """Return the attempts that were begun, rising."""
    attempts = (attempt_from_name(item.name) for item in store.list(ATTEMPTS))
    return sorted(attempt for attempt in attempts if attempt is not None)


def workers_of(store: Store, attempt: int) -> list[Worker]:
    """Return the workers that declared themselves in an attempt; a damaged metadata file declares nobody."""
    workers = []
    for item in store.list(WORKERS):
        metadata_file = metadata_from_name(item.name)
        if metadata_file and metadata_file[2] == attempt:
            try:
                workers.append(worker_from_bytes(store.get(item.name), item.name))
            except DamagedChunk:
                continue
    return workers


def claimer_of(store: Store, attempt: int) -> tuple[Process, str] | None:
    """Return the process that began an attempt, and its launch; None where that cannot be read."""
    name = attempt_name(attempt)
    try:
        body = unsealed(store.get(name), name)
        process = Process(int(body["pid"]), body["host"], body["boot_id"], body["started_ticks"])
        return process, str(body["launch"])
    except (ObjectNotFound, DamagedChunk, KeyError, TypeError, ValueError):
        return None


def _claim_in(store: Store, name: str) -> str | None:
    """Return with which claim a metadata file was written; None where it does not say so."""
    try:
        return str(unsealed(store.get(name), name).get(CLAIM))
    except (ObjectNotFound, DamagedChunk):
        return None


def _run_id(store: Store) -> str:
    """Return the id of the run; "" where its manifest cannot be read, of which readers say more."""
    try:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id
    except (ObjectNotFound, DamagedChunk):
        return ""


def _write_manifest(store: Store, manifest: Manifest) -> Manifest:
    try:
        store.create(MANIFEST, manifest_bytes(manifest))
    except ObjectExists:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST)
    return manifest


def _look(
    store: Store, attempt: int, vitals: Vitals, rank: int | None, launch: str, grace_secs: float
) -> tuple[_State, bool]:
    """Return how an attempt stands, and whether this process belongs to it."""
    workers = workers_of(store, attempt)
    endings = {worker.name: _end_state(store, worker) for worker in workers}
    claimer = claimer_of(store, attempt)
    state = _state(attempt, workers, endings, claimer, vitals, grace_secs)
    mine = bool(launch) and claimer is not None and claimer[1] == launch
    taken = any(worker.name == f"r{rank}" for worker in workers)
    # Ranks may be restarted with everything in their environment as before, so an attempt that is over is
    # not theirs, unless its first worker has ended well before the last one came.
    joinable = mine and not taken and state in (_State.ALIVE, _State.FINISHED)
    return state, joinable


def _state(
    attempt: int,
    workers: list[Worker],
    endings: Mapping[str, EndState | None],
    claimer: tuple[Process, str] | None,
    vitals: Vitals,
    grace_secs: float,
) -> _State:
    open_workers = [worker for worker in workers if endings[worker.name] is None]
    me = this_process()
    # A process may have ended one session and begin another: by itself it is not in its own way.
    if any(is_alive(process_of(worker)) and process_of(worker) != me for worker in open_workers):
        return _State.ALIVE
    claiming = claimer[0] if claimer else None
    has_ended = any(process_of(worker) == claiming for worker in workers if endings[worker.name] is not None)
    if claiming is not None and claiming != me and not has_ended and is_alive(claiming):
        return _State.ALIVE
    if workers and all(endings[worker.name] is EndState.FINISHED for worker in workers):
        return _State.FINISHED
    far = [worker for worker in open_workers if is_alive(process_of(worker)) is None]
    if any(vitals.has_counted(worker) for worker in far):
        return _State.ALIVE
    if not all(vitals.is_gone(worker) for worker in far):
        return _State.UNKNOWN
    if not workers and claiming is not None and is_alive(claiming) is None:
        # Claimed on another machine, and no worker has declared itself: it may be about to.
        return _State.OVER if vitals.is_still("", attempt, 0, secs=grace_secs) else _State.UNKNOWN
    return _State.OVER


def _end_state(store: Store, worker: Worker) -> EndState | None:
    name = metadata_name(ENDINGS, worker.name, worker.attempt)
    try:
        return ending_from_bytes(store.get(name), name)[0].state
    except (ObjectNotFound, DamagedChunk):
        return None


def _refuse(state: _State, url: str) -> None:
    if state is _State.ALIVE:
        raise RunInUse(f"Another process is writing this run. End it, or choose another folder ({url}).")
    if state is _State.FINISHED:
        raise RunFinished(f"The run has finished and cannot be continued. Choose another folder ({url}).")
