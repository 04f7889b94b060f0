"""What a trial of the replay bench is worth: held at the right step, made again to the bit, and rightly blamed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.replay.programs import Program
from benchmarks.replay.trial import Trial


@dataclass(frozen=True, slots=True)
class Score:
    """What came of one program.

    Attributes:
        program: Which.
        trial: None where it gave no result.
        failure: Why not.
    """

    program: Program
    trial: Trial | None
    failure: str = ""

    @property
    def held(self) -> bool:
        """Whether the right step was held for the right reason."""
        program = self.program
        wanted = f"{program.optimizer}{' ' if program.optimizer else ''}{program.held}@{program.step}"
        return self.trial is not None and self.trial.held == wanted

    @property
    def exact(self) -> bool:
        """Whether it was made again to the last bit."""
        return self.trial is not None and self.trial.grade == "bitwise"

    @property
    def blamed(self) -> bool | None:
        """Whether the operation and its line, or what was handed in, were named; None where there is neither."""
        program = self.program
        if not program.blames:
            return None
        said = self.trial.blamed if self.trial is not None else {}
        if program.handed_in:
            return bool(said.get("handed_in")) and said.get("module") == program.handed_in
        place = f"{program.path.name}:{program.line}"
        return (said.get("name") in program.operations and said.get("phase") == program.phase
                and str(said.get("line")).replace("\\", "/").rpartition("/")[2] == place
                and program.of in ("", said.get("of")))

    @property
    def sampled(self) -> bool | None:
        """Whether exactly the guilty samples were named; None where that is not asked."""
        if self.program.guilty is None:
            return None
        return self.trial is not None and self.trial.guilty == self.program.guilty


@dataclass(frozen=True, slots=True)
class Total:
    """How many of how many, beside a target.

    Attributes:
        name: Of what.
        right: How many were.
        of: Of how many.
        least: Of them at least.
    """

    name: str
    right: int
    of: int
    least: int

    @property
    def kept(self) -> bool:
        """Whether all were right, and there were enough."""
        return self.right == self.of >= self.least


def totals_of(scores: Sequence[Score]) -> tuple[Total, ...]:
    """Return what the bench is made for, each beside its target."""
    blamed = [score.blamed for score in scores if score.blamed is not None]
    sampled = [score.sampled for score in scores if score.program.guilty]
    nobody = [score.sampled for score in scores if score.program.guilty == ()]
    return (
        Total("held at the right step", sum(score.held for score in scores), len(scores), 20),
        Total("replay exact, bit for bit", sum(score.exact for score in scores), len(scores), 20),
        Total("first bad operation named rightly", sum(map(bool, blamed)), len(blamed), 20),
        Total("guilty sample named rightly, where one is", sum(map(bool, sampled)), len(sampled), 1),
        Total("nobody named, where no sample alone is guilty", sum(map(bool, nobody)), len(nobody), 1),
    )
