"""Describes in sentences which models a study used, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barograph.tune.heritage import Heritage
from barograph.tune.spec import StudySpec
from barograph.tune.trial import Trial
from barograph.watch.figures import count

_NAMES = {
    "start": "initial design", "gp": "Gaussian process", "tpe": "TPE", "cma-es": "CMA-ES", "random": "random search",
    "grid": "grid", "given": "user", "import": "import",
    "parent": "earlier studies",
}
_WHAT = "the space and its constraints"


def about(spec: StudySpec, heritage: Heritage, trials: Sequence[Trial]) -> list[str]:
    """Return which strategies were used and why, and what the seed does not guarantee."""
    found = []
    if trials:
        counts = Counter(trial.origin.proposer for trial in trials)
        used = ", ".join(f"{_NAMES.get(name, name)} {times}" for name, times in counts.most_common())
        found.append(f"Strategy {spec.strategy}, seed {spec.seed}. Trials proposed by: {used}.")
        if trials[-1].origin.why:
            latest = trials[-1]
            found.append(f"Trial {latest.number}: {_NAMES.get(latest.origin.proposer, '')}, {latest.origin.why}.")
    if text := start_of(heritage):
        found.append(text)
    if any(trial.beside for trial in trials):
        found.append("Trials ran in parallel: the seed does not reproduce the study, because the order in which trials "
                     "end decides what is proposed.")
    return found


def start_of(heritage: Heritage) -> str:
    """Return from which trials of earlier studies a study starts, or that none fits; "" if there are none."""
    dropped = f"; {count(heritage.dropped, 'other')} did not fit {_WHAT}" if heritage.dropped else ""
    if heritage.trials:
        return f"Starts from {count(len(heritage.trials), 'trial')} of earlier studies{dropped}."
    if heritage.given:
        return f"First tries the parameters of {count(len(heritage.given), 'trial')} of earlier studies{dropped}."
    if heritage.dropped:
        return f"Leaves out {count(heritage.dropped, 'trial')} of earlier studies: none fits {_WHAT}."
    return ""
