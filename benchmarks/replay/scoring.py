"""The scores of a trial: withheld at the right step, replayed to the bit, and correctly explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.replay.programs import Program
from benchmarks.replay.trial import Trial


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one program.

    Attributes:
        program: The program.
        trial: Its trial; None if it failed.
        failure: Reason of the failure.
    """

    program: Program
    trial: Trial | None
    failure: str = ""

    @property
    def held(self) -> bool:
        """Whether the right step was withheld for the right reason."""
        program = self.program
        wanted = f"{program.optimizer}{' ' if program.optimizer else ''}{program.held}@{program.step}"
        return self.trial is not None and self.trial.held == wanted

    @property
    def exact(self) -> bool:
        """Whether it was replayed to the last bit."""
        return self.trial is not None and self.trial.grade == "bitwise"

    @property
    def blamed(self) -> bool | None:
        """Whether the operation and its line, or the input, were named; None if there is neither."""
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
        """Whether exactly the guilty samples were named; None if not checked."""
        if self.program.guilty is None:
            return None
        return self.trial is not None and self.trial.guilty == self.program.guilty


@dataclass(frozen=True, slots=True)
class Total:
    """A count of successes with its target.

    Attributes:
        name: Its name.
        right: Number of successes.
        of: Number of cases.
        least: Minimum number of cases.
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
    """Return the results of the benchmark with their targets."""
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
