"""Rules about boosted trees."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.importance import is_counted_otherwise
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.words import names, percent
from barograph.runs.reading.view import StepView

_DEPTH = Key(Kind.TREE, "depth")
_EVERY = Schedule(every=10, steps=frozenset(range(10)))


@dataclass(frozen=True, kw_only=True)
class TreeDepth(Rule):
    """T101: A tree is deeper than the data bear.

    What it sees: the depth of the trees grown in a round. A fault is more than `depth`.
    Why it matters: a path that deep holds few samples at its end: the tree learns them by heart, and costs memory.
    What to do: set max_depth (XGBoost: 3 to 8), or num_leaves (LightGBM: well below 2**max_depth); ask for more
      samples in a leaf.
    When it is wrong: large data sets bear deep trees, and trees grown leaf by leaf are deep on one side: the default
      speaks only of trees that hardly any data bear.
    Source: Amazon SageMaker Debugger's TreeDepth, whose `depth` of 4 is less than XGBoost's own default of 6.
    """

    code: ClassVar[str] = "T101"
    name: ClassVar[str] = "tree-depth"
    severity: ClassVar[Severity] = Severity.NOTE

    depth: int = parameter(40, "Depth that is let pass.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.TREE}), include=(f"{_DEPTH.path}*",), schedule=_EVERY),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        depth = view.scalar(_DEPTH)
        if depth is None or not math.isfinite(depth):
            yield Unjudged("no depth of a tree was recorded")
            return
        if depth > self.depth:
            all_facts = f"a tree of round {view.step.number} is {int(depth)} levels deep"
            yield Symptom(
                message=f"{all_facts[0].upper()}{all_facts[1:]}.",
                remedy=f"Set max_depth to {min(self.depth, 8)} or less (LightGBM: num_leaves to 31), and ask for more "
                       "samples in a leaf (min_child_weight, min_data_in_leaf).",
                evidence=(Evidence(_DEPTH, view.step.number, "depth", depth, float(self.depth), all_facts),),
                causes=(Suspicion(Cause.TREES_TOO_DEEP, 0.8, all_facts),),
            )


@dataclass(frozen=True, kw_only=True)
class FeatureImportanceOverweight(Rule):
    """T102: A few features hold nearly all importance.

    What it sees: what each feature counts for in the model. A fault is that the `nfeatures` heaviest together hold more
      than `threshold` of all, where at least `least_features` features were recorded.
    Why it matters: one feature that decides all often gives the label away (a column made after the fact), and the
      model fails where that column is empty.
    What to do: look where the heaviest feature comes from, and whether it is known when the answer is needed; train
      once without it.
    When it is wrong: problems that one feature does decide. With three features at 0.8, Amazon's defaults, most small
      tables fire.
    Source: Amazon SageMaker Debugger's FeatureImportanceOverweight; Kaufman, Rosset & Perlich, "Leakage in Data
      Mining", 2011.
    """

    code: ClassVar[str] = "T102"
    name: ClassVar[str] = "feature-importance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    nfeatures: int = parameter(1, "Heaviest features that are added up.", at_least=1)
    threshold: float = parameter(0.95, "Share of all importance they may hold.", above=0.0, below=1.0)
    least_features: int = parameter(5, "Features that must have been recorded.", at_least=2)
    patience: int = parameter(3, "Judged rounds in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.IMPORTANCE}), schedule=_EVERY),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        importance = {key: value for key, value in view.scalars(Kind.IMPORTANCE).items()
                      if value >= 0 and not is_counted_otherwise(key.path)}
        total = sum(importance.values())
        if len(importance) < max(self.least_features, self.nfeatures + 1) or not total:
            yield Unjudged(f"the importance of fewer than {max(self.least_features, self.nfeatures + 1)} features was "
                           "recorded")
            return
        heaviest = sorted(importance, key=lambda key: -importance[key])[: self.nfeatures]
        share = sum(importance[key] for key in heaviest) / total
        if share > self.threshold:
            which = names([key.path for key in heaviest])
            all_facts = f"{which} {'holds' if len(heaviest) == 1 else 'hold'} {percent(share)} of all importance"
            yield Symptom(
                message=f"Of {len(importance)} features {all_facts}.",
                remedy="Look where that comes from, and whether it is known when the answer is needed; train once "
                       "without it.",
                evidence=(Evidence(heaviest[0], view.step.number, "share", share, self.threshold, all_facts),),
                causes=(Suspicion(Cause.FEW_FEATURES_DOMINATE, 0.7, all_facts),
                        Suspicion(Cause.TARGETS_IN_INPUT, 0.3, "one feature may give the label away")),
            )
