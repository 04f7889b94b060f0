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
    """T101: A tree is too deep for the data.

    What it sees: the depth of the trees grown in a round. The rule fires above `depth`.
    Why it matters: such long paths end in few samples: the tree memorizes them, and costs memory.
    What to do: set max_depth (XGBoost: 3 to 8) or num_leaves (LightGBM: well below 2**max_depth); require more samples
      per leaf.
    When it is wrong: large data sets support deep trees, and trees grown leaf by leaf are deep on one side. The default
      reports only trees that are too deep for nearly all data.
    Source: Amazon SageMaker Debugger's TreeDepth, whose `depth` of 4 is less than XGBoost's own default of 6.
    """

    code: ClassVar[str] = "T101"
    name: ClassVar[str] = "tree-depth"
    severity: ClassVar[Severity] = Severity.NOTE

    depth: int = parameter(40, "Largest allowed depth.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.TREE}), include=(f"{_DEPTH.path}*",), schedule=_EVERY),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        depth = view.scalar(_DEPTH)
        if depth is None or not math.isfinite(depth):
            yield Unjudged("no tree depth was recorded")
            return
        if depth > self.depth:
            all_facts = f"a tree of round {view.step.number} is {int(depth)} levels deep"
            yield Symptom(
                message=f"{all_facts[0].upper()}{all_facts[1:]}.",
                remedy=f"Set max_depth to {min(self.depth, 8)} or less (LightGBM: num_leaves to 31), and require more "
                       "samples per leaf (min_child_weight, min_data_in_leaf).",
                evidence=(Evidence(_DEPTH, view.step.number, "depth", depth, float(self.depth), all_facts),),
                causes=(Suspicion(Cause.TREES_TOO_DEEP, 0.8, all_facts),),
            )


@dataclass(frozen=True, kw_only=True)
class FeatureImportanceOverweight(Rule):
    """T102: A few features have nearly all importance.

    What it sees: the importance of each feature. The rule fires if the `nfeatures` most important ones together have
      more than `threshold` of the total, with at least `least_features` features recorded.
    Why it matters: a feature that dominates often leaks the target (a column created after the fact), and the model
      fails where that column is empty.
    What to do: check where the top feature comes from, and whether it is known at prediction time; train once without
      it.
    When it is wrong: problems that one feature really decides. With three features at 0.8, Amazon's defaults, most
      small tables fire.
    Source: Amazon SageMaker Debugger's FeatureImportanceOverweight; Kaufman, Rosset & Perlich, "Leakage in Data
      Mining", 2011.
    """

    code: ClassVar[str] = "T102"
    name: ClassVar[str] = "feature-importance"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    nfeatures: int = parameter(1, "Number of top features to sum.", at_least=1)
    threshold: float = parameter(0.95, "Largest allowed share of the total importance.", above=0.0, below=1.0)
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
            yield Unjudged(f"needs the importance of {max(self.least_features, self.nfeatures + 1)} features; this run "
                           f"has {len(importance)}")
            return
        heaviest = sorted(importance, key=lambda key: -importance[key])[: self.nfeatures]
        share = sum(importance[key] for key in heaviest) / total
        if share > self.threshold:
            which = names([key.path for key in heaviest])
            all_facts = f"{which} {'has' if len(heaviest) == 1 else 'have'} {percent(share)} of the total importance"
            yield Symptom(
                message=f"Of {len(importance)} features, {all_facts}.",
                remedy="Check where this feature comes from, and whether it is known at prediction time; train once "
                       "without it.",
                evidence=(Evidence(heaviest[0], view.step.number, "share", share, self.threshold, all_facts),),
                causes=(Suspicion(Cause.FEW_FEATURES_DOMINATE, 0.7, all_facts),
                        Suspicion(Cause.TARGETS_IN_INPUT, 0.3, "one feature may leak the target")),
            )
