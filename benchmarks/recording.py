"""A training with about a thousand keys, recorded completely, for benchmarks of rules."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Self

import numpy as np
import torch

import barograph
from barograph.model.clock import SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.view import StepView
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from benchmarks.models import GPT

VOCABULARY, CONTEXT, WIDTH, BLOCKS, HEADS, BATCH = 64, 16, 32, 13, 4, 8
"""Thirteen narrow blocks: every step has about a thousand tensors, and is fast."""

OF_A_STEP = frozenset({
    Kind.BATCH, Kind.INPUT, Kind.TARGET, Kind.OUTPUT, Kind.LOSS, Kind.GRADIENT, Kind.GRADIENT_CLIPPED,
    Kind.LEARNING_RATE, Kind.UPDATE, Kind.OPTIMIZER_STATE, Kind.WEIGHT,
})
"""Kinds of records of a step, due or not."""

STEP_SECS = 0.05
"""Time between two repeated steps."""


def record_training(url: str, steps: int) -> None:
    """Train a small decoder and record everything that the default settings ever record, at every step.

    Args:
        url: URL of the run.
        steps: Number of steps. The tokens are a noisy walk in which each depends on the previous one, so that the loss
            falls as in healthy trainings.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = GPT(VOCABULARY, CONTEXT, WIDTH, BLOCKS, HEADS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_fn = torch.nn.CrossEntropyLoss()
    whole = Selection(name="whole", kinds=OF_A_STEP)
    with barograph.attach(model, optimizer, to=url, budget=None, watch=False, collections=[whole]):
        for _ in range(steps):
            tokens = _walks()
            optimizer.zero_grad()
            loss_fn(model(tokens[:, :-1]), tokens[:, 1:].flatten()).backward()
            optimizer.step()


def views_of(store: Store) -> list[StepView]:
    """Return all steps of an ended run."""
    feed = Feed(store, patient=False)
    views: list[StepView] = []
    while True:
        result = feed.poll()
        views += result.views
        if not result.more:
            return views


class Repeater:
    """Writes a run of any length: the same recorded steps repeatedly, with increasing step numbers.

    Args:
        url: URL of the new run.
        recorded: Store of the run whose steps are repeated, except those of the first half, which contain records made
            only at the start of a training.
        towers: Number of copies of every tensor per step, under different names: a model that many times as large.
        keep_last: Number of steps to keep; None: all.
    """

    def __init__(self, url: str, recorded: Store, *, towers: int = 1, keep_last: int | None = None) -> None:
        views = [view for view in views_of(recorded) if view.step.mode is Mode.TRAIN and summaries_in(view)]
        tables: dict[int, tuple[Subject, ...]] = {}
        self._templates = [_records_of(view, towers, tables) for view in views[len(views) // 2:]]
        self._store, clock = store_from_url(url), SystemClock()
        self._begun = clock.unix()
        self._written = 0
        attempt = claim_run(self._store, Manifest("repeated", "repeated", self._begun), clock=clock).attempt
        worker = claim_worker(self._store, attempt=attempt, clock=clock)
        settings = Settings(keep_last=keep_last, close_timeout_secs=600.0)
        self._writer = RunWriter(self._store, worker, settings=settings, status=lambda: Heartbeat(0, 0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        closing = self._writer.close(EndState.FINISHED)
        if not closing.complete:
            raise OSError(f"{closing.lost_steps} steps were not written: {closing.problems}")

    def write(self, steps: int) -> int:
        """Write this many more steps; return the number of their summaries. Blocks while the queue is full."""
        summaries = 0
        for number in range(self._written, self._written + steps):
            template = self._templates[number % len(self._templates)]
            step = replace(template.step, tick=number, number=number, time_unix=self._begun + number * STEP_SECS)
            while not self._writer.put(replace(template, step=step)):
                time.sleep(0.01)
            summaries += len(template.subjects)
        self._written += steps
        return summaries


def summaries_in(view: StepView) -> int:
    """Return the number of summaries recorded in a step: one per tensor and worker."""
    return sum(len(rows.moments) for rows in view.rows.values())


def _records_of(view: StepView, towers: int, tables: dict[int, tuple[Subject, ...]]) -> StepRecords:
    """Return the records of a step; `tables` caches the subjects of each plan, which its steps must share."""
    (rows,) = view.rows.values()
    subjects, histograms = rows.table.subjects, rows.histograms()
    if id(rows.table) not in tables:
        tables[id(rows.table)] = tuple(
            replace(subject, key=Key(subject.key.kind, f"tower{number}.{subject.key.path}"))
            for number in range(towers) for subject in subjects
        )
    units = {row + number * len(subjects): item for row, item in rows.units.items() for number in range(towers)}
    return StepRecords(
        view.step, tables[id(rows.table)], np.concatenate([rows.moments] * towers),
        None if histograms is None else np.concatenate([histograms] * towers), units, rows.scalars,
    )


def _walks() -> torch.Tensor:
    """Return token sequences, shape (BATCH, CONTEXT + 1)."""
    starts, noise = torch.randint(0, VOCABULARY, (BATCH, 1)), torch.randint(0, 2, (BATCH, CONTEXT + 1))
    return (starts + torch.cumsum(3 * torch.ones_like(noise) + noise, dim=1)) % VOCABULARY
