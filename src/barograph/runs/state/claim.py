"""Claiming a run for writing: once an attempt, and a name for each worker."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import Enum, auto
from typing import NamedTuple

from barograph.errors import (
    DamagedChunk,
    ObjectExists,
    ObjectNotFound,
    RunFinished,
    RunInUse,
    StoreDenied,
    StoreUnavailable,
)
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
from barograph.store.folders import why_not_writable

GRACE_SECS = 600.0
"""How long a run claimed on another machine counts as in use without workers: before the first step data may have
to be fetched and prepared, without heartbeats."""

_LOOK_AGAIN_SECS = 0.5

_LAUNCH_VARIABLES = (
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID",
)


class Claim(NamedTuple):
    """The right to write a run.

    Attributes:
        manifest: Manifest of the run; of a resumed run, the original one.
        attempt: The attempt to write, from 0.
    """

    manifest: Manifest
    attempt: int


class _State(Enum):
    FINISHED = auto()
    ALIVE = auto()
    OVER = auto()
    """Not finished, or killed: the run may be resumed."""
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
    """Claim the run in `store` for writing: a new run, or the next attempt of one that is over.

    The first process of a launcher (by `rank`) claims the run, and the others join it. If the workers of the run are on
    another machine, their heartbeats are watched for `dead_secs` before it counts as over; without workers, for
    `grace_secs`.

    Args:
        store: Store of the run.
        manifest: Manifest for a new run.
        clock: Measures how long heartbeats were watched.
        rank: Rank of this process; None without ranks.
        dead_secs: Timeout of heartbeats.
        grace_secs: Timeout without workers, see `GRACE_SECS`.
        wait: Sleeps for some seconds.

    Raises:
        RunInUse: A live process writes this run.
        RunFinished: The run has finished.
        NewerFormat, DamagedChunk: The existing manifest cannot be used.
        StoreError: An operation of the store failed.
    """
    stored = create_run(store, manifest)
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


def begin_attempt(
    store: Store, attempt: int, *, started_unix: float, launch: str = "", process: Process | None = None
) -> bool:
    """Begin an attempt; return False if another process was faster.

    Args:
        store: Store of the run.
        attempt: The attempt.
        started_unix: Time by the clock of the caller.
        launch: See `launch_of`.
        process: The process that trains or starts what trains: the attempt goes on while it lives. None: the caller.
    """
    name, claim = attempt_name(attempt), new_claim()
    body = {"attempt": attempt, "started_unix": started_unix, "launch": launch,
            **asdict(process or this_process())}
    try:
        store.create(name, sealed({**body, CLAIM: claim}))
    except ObjectExists:
        return _claim_in(store, name) == claim
    return True


def new_claim() -> str:
    """Return a unique token for a claim.

    A bucket may store an object although its response is lost. A retry then fails because the name exists, and the
    token shows that it was this process.
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
    """Register this process as a worker of a claimed run.

    A rank whose name exists in this attempt was restarted by its launcher: it joins the next attempt, like the other
    ranks. A process without rank gets the first unused name. A worker with the same claim is found again.

    Args:
        store: Store of the run.
        attempt: The claimed attempt.
        clock: Clock.
        rank: Rank of this process; None without ranks.
        world_size: Number of ranks.
        versions: Package to version, in this process.
        device: Device it trains on, for people.
        process: The training process; None: the caller.
        claim: Token from `new_claim` for retries; "": a new one.

    Raises:
        StoreError: An operation failed; retrying with the same claim is safe.
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
    """Return the next sequence number after all published chunks of a worker.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed([*store.list(f"{RECORDS}/{worker.name}"), *store.list(f"{TENSORS}/{worker.name}")])
    stream = worker.attempt, worker.name
    chunks = [file.last for file in found.chunks.get(stream, ())]
    chunks += [file.chunk for file in found.tensors.get(stream, ())]
    return max(chunks, default=-1) + 1


def launch_of(rank: int | None, environ: Mapping[str, str] | None = None) -> str:
    """Return an ID shared by the processes of one launch; "" for a process without rank."""
    if rank is None:
        return ""
    environ = os.environ if environ is None else environ
    if "RANK" in environ and "MASTER_ADDR" in environ:
        parts = [environ.get(name, "") for name in _LAUNCH_VARIABLES]
    else:
        parts = [str(part) for part in asdict(parent_process()).values()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def attempts_of(store: Store) -> list[int]:
    """Return the attempts in ascending order."""
    attempts = (attempt_from_name(item.name) for item in store.list(ATTEMPTS))
    return sorted(attempt for attempt in attempts if attempt is not None)


def workers_of(store: Store, attempt: int) -> list[Worker]:
    """Return the workers of an attempt, without those with damaged metadata files."""
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
    """Return the process that began an attempt, and its launch; None if that cannot be read."""
    name = attempt_name(attempt)
    try:
        body = unsealed(store.get(name), name)
        process = Process(int(body["pid"]), body["host"], body["boot_id"], body["started_ticks"])
        return process, str(body["launch"])
    except (ObjectNotFound, DamagedChunk, KeyError, TypeError, ValueError):
        return None


def _claim_in(store: Store, name: str) -> str | None:
    """Return the claim token of a metadata file; None if it has none."""
    try:
        return str(unsealed(store.get(name), name).get(CLAIM))
    except (ObjectNotFound, DamagedChunk):
        return None


def _run_id(store: Store) -> str:
    """Return the ID of the run; "" if its manifest cannot be read, which readers report."""
    try:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST).run_id
    except (ObjectNotFound, DamagedChunk):
        return ""


def create_run(store: Store, manifest: Manifest) -> Manifest:
    """Write the manifest of a run unless it has one; return the one that it has.

    Raises:
        DamagedChunk, NewerFormat: The existing manifest cannot be used.
        StoreError: An operation of the store failed.
    """
    try:
        store.create(MANIFEST, manifest_bytes(manifest))
    except ObjectExists:
        return manifest_from_bytes(store.get(MANIFEST), MANIFEST)
    except (StoreDenied, StoreUnavailable) as error:
        # Loaded here: it loads obstore, which a training process must not need.
        from barograph.store.files import FileStore

        why = why_not_writable(store.root, error.__cause__) if isinstance(store, FileStore) else ""
        if not why:
            raise
        raise StoreDenied(f"Cannot record a run there: {why}. Choose another folder (--to; in a script, to=), or "
                          f"change that one ({store.url}).") from error
    return manifest


def _look(
    store: Store, attempt: int, vitals: Vitals, rank: int | None, launch: str, grace_secs: float
) -> tuple[_State, bool]:
    """Return the state of an attempt, and whether this process belongs to it."""
    workers = workers_of(store, attempt)
    endings = {worker.name: _end_state(store, worker) for worker in workers}
    claimer = claimer_of(store, attempt)
    state = _state(attempt, workers, endings, claimer, vitals, grace_secs)
    mine = bool(launch) and claimer is not None and claimer[1] == launch
    taken = any(worker.name == f"r{rank}" for worker in workers)
    # Ranks may be restarted in the same environment, so they do not join an attempt that is over, unless its
    # first worker finished before the last one started.
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
    # A process may end one session and start another: its own worker does not block it.
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
        # Claimed on another machine, without workers yet: they may still start.
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
        raise RunInUse(f"Another process is writing this run. End it, or record into another folder (--to; in a "
                       f"script, to=). To follow it: barograph watch {shlex.quote(url)}")
    if state is _State.FINISHED:
        raise RunFinished(f"The run has finished and cannot be continued. Record into another folder (--to; in a "
                          f"script, to=). To evaluate rules on this one: barograph watch {shlex.quote(url)}")
