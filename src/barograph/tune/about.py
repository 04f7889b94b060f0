"""Describes in sentences which models a study used, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barograph.tune.heritage import Heritage
from barograph.tune.spec import StudySpec
from barograph.tune.trial import Trial

_NAMES = {
    "start": "initial design", "gp": "Gaussian process", "tpe": "TPE", "cma-es": "CMA-ES", "random": "random search",
    "grid": "grid", "given": "user", "import": "import",
}


def about(spec: StudySpec, heritage: Heritage, trials: Sequence[Trial]) -> list[str]:
    """Return which strategies were used and why, and what the seed does not guarantee."""
    found = []
    if trials:
        counts = Counter(trial.origin.proposer for trial in trials)
        used = ", ".join(f"{_NAMES.get(name, name)} {count}" for name, count in counts.most_common())
        found.append(f"Strategy {spec.strategy}, seed {spec.seed}. Trials proposed by: {used}.")
        if trials[-1].origin.why:
            latest = trials[-1]
            found.append(f"Trial {latest.number}: {_NAMES.get(latest.origin.proposer, '')}, {latest.origin.why}.")
    if heritage.trials or heritage.given:
        dropped = f"; {heritage.dropped} do not fit the space" if heritage.dropped else ""
        found.append(f"Starts from {len(heritage.trials)} trials of earlier studies{dropped}." if heritage.trials else
                     f"Tries the {len(heritage.given)} best of earlier studies first.")
    if any(trial.beside for trial in trials):
        found.append("Trials ran in parallel: the seed does not reproduce the study, because the order in which trials "
                     "end decides what is proposed.")
    return found
