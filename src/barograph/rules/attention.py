"""The rule about attention that collapses onto one position or becomes uniform."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.records import Subject, UnitSummaries
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.model.summary import UNIT_FIELDS
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.columns import learning_rate, table_of
from barograph.rules.once import once
from barograph.rules.suspects import ranked
from barograph.rules.words import lower_rate, number, sentence
from barograph.runs.reading.view import StepView

_NONFINITE, _SUM, _SUM_SQ = (UNIT_FIELDS.index(name) for name in ("nonfinite", "sum", "sum_sq"))

_QUERIES, _KEYS = ("q_proj", "query", "to_q", "wq", "q_lin"), ("k_proj", "key", "to_k", "wk", "k_lin")
_PACKED = ("qkv", "c_attn", "in_proj", "qkv_proj", "to_qkv", "wqkv")
_NAMES = tuple(f"*{name}" for name in (*_QUERIES, *_KEYS, *_PACKED))
_PROBABILITIES = ("*softmax*", "*attn*", "*attend*")
_LEAST_PLACES = 4.0


@dataclass(frozen=True, kw_only=True)
class AttentionCollapse(Rule):
    """A104: Attention has collapsed onto one position, or is uniform.

    What it sees: (1) the outputs of Softmax modules inside attention (modules or paths named "softmax", "attn",
      "attend"). For rows that sum to one, sum and sum of squares give the number of positions attended to on average: 1
      / Σp², between one and all of them. A layer is reported if Σp² is above `one_place` over at least four positions,
      or within `uniform` of 1 / positions after it once was half as much again. (2) Fused attention
      (scaled_dot_product_attention) has no probabilities to record; there the outputs of the query and key projections
      are used, found by their usual names (q_proj, query, to_q, wq, …; qkv and c_attn, whose thirds are queries, keys,
      values). The spread of the logits is about the root mean square of the queries times the spread of the keys over
      positions. A layer is reported from `max_logit` on, where softmax passes no gradient.
    Why it matters: one-hot attention passes no gradient to queries and keys: the layer becomes fixed wiring, and logits
      that keep growing end in divergence.
    What to do: lower the learning rate or lengthen the warmup; normalize queries and keys (QK-norm); scale logits by
      1/√d; add weight decay on the query and key projections.
    When it is wrong: layers that copy from one position by design (hard attention, a pointer network).
      nn.MultiheadAttention, whose projections are no modules, and projections with other names are not seen; the rule
      then reports that it was not evaluated. The heads of a layer are judged together, so a single collapsed head may
      go unseen.
    Source: Zhai et al., "Stabilizing transformer training by preventing attention entropy collapse", 2023; Dehghani et
      al., "Scaling vision transformers to 22 billion parameters", 2023, section 3, on the growth of attention logits.
    """

    code: ClassVar[str] = "A104"
    name: ClassVar[str] = "attention-collapse"
    severity: ClassVar[Severity] = Severity.COSTLY

    one_place: float = parameter(0.99, "Mean of Σp² above which attention is on one position.", above=0.0, below=1.0)
    uniform: float = parameter(1e-4, "Relative distance of Σp² from 1 / positions below which attention is uniform.",
                               at_least=0.0, below=1.0)
    max_logit: float = parameter(
        100.0, "Spread of the logits, estimated from queries and keys, that is too large.", above=0.0,
    )
    patience: int = parameter(3, "Consecutive evaluated steps with the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        schedule = Schedule(every=50, steps=frozenset({10, 20, 30, 40}), modes=frozenset({Mode.TRAIN}))
        # One Selection for both ways to see attention: either is enough.
        return (Selection(kinds=frozenset({Kind.OUTPUT}), include=(*_NAMES, *_PROBABILITIES),
                          layers=frozenset({"Softmax", "Linear", "Conv1D"}), schedule=schedule, units=True),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.mode is not Mode.TRAIN:
            yield Unjudged("only evaluations were recorded")
            return
        judged = 0
        for key, collisions, places in _probabilities(view):
            judged += 1
            yield from self._of_probabilities(view, key, collisions, places, memory)
        for key, logit in _logits(view):
            judged += 1
            if logit > self.max_logit:
                yield self._of_logits(view, key, logit)
        if not judged:
            yield Unjudged("no attention was recorded: no Softmax over four or more positions, and no query and key "
                           "projections with their usual names")

    def _of_probabilities(
        self, view: StepView, key: Key, collisions: float, places: float, memory: Memory
    ) -> Iterable[Symptom]:
        sharp: dict[str, float] = memory.setdefault("sharpest", {})
        sharp[key.path] = max(collisions * places, sharp.get(key.path, 0.0))
        if collisions > self.one_place:
            yield _symptom(view, key, "is on one position only", f"Σp² is {number(collisions)} on average over "
                           f"{number(places)} positions", ("collisions", collisions, self.one_place), one_place=True)
        elif collisions * places < 1 + self.uniform and sharp[key.path] > _ONCE_SHARP:
            yield _symptom(view, key, "is uniform", f"Σp² is {number(collisions)} on average, that of "
                           f"{number(places)} equal weights",
                           ("collisions", collisions, (1 + self.uniform) / places), one_place=False)

    def _of_logits(self, view: StepView, key: Key, logit: float) -> Symptom:
        why = f"its queries and keys are so large that the logits spread by about {number(logit)}"
        return _symptom(view, key, "is on one position only", why, ("logit_spread", logit, self.max_logit),
                        one_place=True)


_ONCE_SHARP = 1.5


def _symptom(
    view: StepView, key: Key, what: str, why: str, measured: tuple[str, float, float], *, one_place: bool
) -> Symptom:
    statistic, value, limit = measured
    slower = sentence(lower_rate(learning_rate(view), 3))
    return Symptom(
        message=f'The attention of "{key.path}" {what}: {why}.',
        remedy=f"{slower} or lengthen the warmup; normalize queries and keys before their product (QK-norm); check "
               "that "
               "logits are scaled by 1/√d.",
        evidence=(Evidence(key, view.step.number, statistic, value, limit, why),),
        subject=key.path,
        causes=ranked(
            Suspicion(Cause.ATTENTION_COLLAPSE, 0.7, f'the attention of "{key.path}" {what}: {why}'),
            Suspicion(Cause.LEARNING_RATE_TOO_HIGH, 0.4, why, f"{slower}."),
            Suspicion(Cause.NO_WARMUP, 0.2, why) if one_place else None,
        ),
    )


def _probabilities(view: StepView) -> Iterator[tuple[Key, float, float]]:
    """Yield each recorded attention softmax with its mean Σp² and its number of positions."""
    table = table_of(view, Kind.OUTPUT)
    for row in _softmaxes(table.subjects):
        total, squares = float(table.column("sum")[row]), float(table.column("sum_sq")[row])
        if not table.whole[row] or total <= 0 or float(table.column("min")[row]) < 0:
            continue
        # Each row sums to one, so the total is the number of rows.
        places = float(table.column("count")[row]) / total
        if places >= _LEAST_PLACES and abs(total - round(total)) < _OFF_BY * total:
            yield table.subjects[row].key, squares / total, places


_OFF_BY = 1e-3


@once
def _softmaxes(subjects: tuple[Subject, ...]) -> tuple[int, ...]:
    return tuple(row for row, subject in enumerate(subjects) if subject.layer == "Softmax"
                 and any(word in subject.key.path.lower() for word in ("attn", "attention", "attend")))


@once
def _projections(subjects: tuple[Subject, ...]) -> dict[str, tuple[str, str]]:
    """Return the paths of query and key projections, each with its block's path and its own name."""
    parts = {subject.key.path: subject.key.path.rpartition(".")[::2] for subject in subjects}
    return {path: part for path, part in parts.items() if part[1] in (*_QUERIES, *_KEYS, *_PACKED)}


def _logits(view: StepView) -> Iterator[tuple[Key, float]]:
    """Yield each attention whose projections were recorded, with the estimated spread of its logits."""
    queries: dict[str, UnitSummaries] = {}
    keys: dict[str, tuple[Key, UnitSummaries]] = {}
    parts = _projections(view.columns(Kind.OUTPUT, histograms=False).subjects)
    if not parts:
        return
    for subject, units in view.unit_summaries(Kind.OUTPUT):
        if subject.key.path not in parts:
            continue
        block, name = parts[subject.key.path]
        if name in _QUERIES:
            queries[block] = units
        elif name in _KEYS:
            keys[block] = subject.key, units
        elif name in _PACKED and len(units.columns) % 3 == 0:
            third = len(units.columns) // 3
            yield subject.key, _spread(UnitSummaries(units.count, units.columns[:third]),
                                       UnitSummaries(units.count, units.columns[third : 2 * third]))
    for block, (key, units) in keys.items():
        if block in queries:
            yield key, _spread(queries[block], units)


def _spread(queries: UnitSummaries, keys: UnitSummaries) -> float:
    """Return the spread of logits over positions, for queries and keys with independent directions.

    A part of the keys that is equal at all positions shifts all logits equally, and softmax ignores it.
    """
    finite = np.maximum(keys.count - keys.columns[:, _NONFINITE], 1.0)
    squares = keys.columns[:, _SUM_SQ] / finite
    variance = np.maximum(squares - (keys.columns[:, _SUM] / finite) ** 2, 0.0)
    return math.sqrt(float(np.mean(queries.columns[:, _SUM_SQ]) / max(queries.count, 1)) * float(np.mean(variance)))
