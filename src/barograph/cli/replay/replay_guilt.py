"""Finds the samples that make a replayed step fail, or that dominate it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from barograph.capsule.failing import failing_by
from barograph.capsule.guilty import Guilty
from barograph.capsule.names import named_samples
from barograph.capsule.order import ReplayOrder, ReplayResult
from barograph.capsule.weighing import Weighed, most_tries
from barograph.cli.printing import Printer
from barograph.cli.replay.replay_samples import (
    MadeAgain,
    came_from_another,
    failing_batch,
    guilt_sentence,
    guilty_of,
    heaviest_batch,
)
from barograph.cli.replay.replay_weights import contribution_sentences, weights_of
from barograph.errors import SettingsError
from barograph.model.capsule import Held
from barograph.model.recorder import is_function_name
from barograph.runs.state.capsules import Capsule
from barograph.watch.wording import shown

_NO_ROWS = "no input of the step has one row per sample."
_ONE = "the batch has one sample."
_ELSEWHERE = ("Everything this worker computed is finite; the NaN or infinity is in the gradients of another worker. "
              "Replay that worker's capsule, in the folder next to this one.")


@dataclass(frozen=True, slots=True)
class Guilt:
    """Guilty samples of a step.

    Attributes:
        content: Content of its capsule.
        batch: Index of the step's batch; None if unknown.
        guilty: Samples that make it fail on their own, if they were searched.
        weighed: Contribution of each sample, if no single sample can fail.
        elsewhere: The NaN or infinity came with the gradients of another worker.
        others: Other workers took part in the step.
        why_not: Why samples were not tested though requested; "" if they were.
    """

    content: Mapping[str, Any]
    batch: int | None = None
    guilty: Guilty | None = None
    weighed: Weighed | None = None
    elsewhere: bool = False
    others: bool = False
    why_not: str = ""

    @property
    def rows(self) -> tuple[int, ...]:
        """Indices of the samples to name."""
        if self.guilty is not None:
            return self.guilty.rows
        return self.weighed.outliers if self.weighed is not None else ()

    def entries(self, result: ReplayResult) -> Iterable[tuple[str, str]]:
        """Yield the lines to print.

        Args:
            result: Result of the whole step.
        """
        if self.why_not:
            yield "guilty", shown(f"unknown: {self.why_not}")
        batch = self.batch or 0
        if self.guilty is not None and self.batch is not None:
            yield "guilty", shown(guilt_sentence(self.guilty, batch, result.batches, finite=result.finite,
                                         others=self.others))
        if self.weighed is not None:
            for number, text in enumerate(contribution_sentences(self.weighed, batch, len(result.batches))):
                yield "" if number else "heaviest", shown(text)
        for item in named_samples(self.content, batch, self.rows):
            yield "", f"sample {item.row} is {shown(str(item))}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        about: dict[str, Any] = {"batch": self.batch, "samples": self._named(self.rows)}
        return {
            "guilty": None if self.guilty is None else {**asdict(self.guilty), **about},
            "weighed": None if self.weighed is None else {**asdict(self.weighed), **about},
            "samples_not_asked": self.why_not, "elsewhere": self.elsewhere,
        }

    def _named(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [asdict(item) for item in named_samples(self.content, self.batch or 0, rows)]


def when_of(held: Capsule, named: str) -> str:
    """Return the user's function that decides whether a step fails, as "module:function"; "" if none.

    Args:
        held: Capsule of the step.
        named: Function from the command line; "" for the one that triggered the capsule, if any.

    Raises:
        SettingsError: `named` is not "module:function".
    """
    if named and not is_function_name(named):
        raise SettingsError(f'--when is "{named}"; it must be a function, as in MODULE:FUNCTION.')
    recorded = held.content.get("when") if held.head.held is Held.OWN else None
    return named or (recorded if isinstance(recorded, str) and is_function_name(recorded) else "")


def guilt_of(
    made_again: MadeAgain, order: ReplayOrder, held: Capsule, result: ReplayResult, *, wanted: bool,
    say: Printer | None,
) -> Guilt:
    """Return the guilty samples of a step, found by replaying it with parts of its batch.

    Args:
        made_again: Replays the step.
        order: Order of the first replay.
        held: Capsule of the step.
        result: Result of the first replay.
        wanted: Search for samples. For frameworks other than PyTorch, the first replay did it in its process.
        say: Prints progress; None: silent.
    """
    if came_from_another(result, int(held.content["machine"]["world_size"])):
        if say is not None:
            say.entries([("elsewhere", _ELSEWHERE)])
        return Guilt(held.content, guilty=result.guilty, elsewhere=True)
    fails_by = failing_by(held.head, result, asked=bool(order.when))
    batch = failing_batch(result, fails_by)
    if order.framework != "torch":
        why_not = _why_not(held, order, result) if wanted and result.guilty is None else ""
        return Guilt(held.content, batch, guilty=result.guilty, why_not=why_not)
    if not wanted:
        return Guilt(held.content, heaviest_batch(result) if batch is None else batch)
    if batch is not None:
        _say(say, "Looking for single samples that cause the failure …")
        others = not order.alone and int(held.content["machine"]["world_size"]) > 1
        return Guilt(held.content, batch, guilty_of(made_again, order, result, batch, fails_by), others=others)
    if held.head.held is Held.FINDING and result.finite and not order.when:
        return _weighed(made_again, order, held, result, say)
    return Guilt(held.content, heaviest_batch(result), why_not=_why_not(held, order, result))


def _weighed(
    made_again: MadeAgain, order: ReplayOrder, held: Capsule, result: ReplayResult, say: Printer | None
) -> Guilt:
    batch = heaviest_batch(result)
    if batch is None or not result.batches[batch]:
        return Guilt(held.content, batch, why_not=_NO_ROWS)
    _say(say, f"Running each sample alone, up to {most_tries(result.batches[batch])} repetitions of the step (skip "
              "with --no-samples) …")
    return Guilt(held.content, batch, weighed=weights_of(made_again, order, result, batch))


def _why_not(held: Capsule, order: ReplayOrder, result: ReplayResult) -> str:
    """Return why the user's function names no sample; "" if there is no such function."""
    if order.when and result.own is not None:
        if result.own.holds:
            return _ONE if sum(result.batches) == 1 else _NO_ROWS
        return result.own.failure or (
            f"the function {order.when} does not report the replayed step as failing; it may depend on earlier steps, "
            "or another worker triggered the capsule.")
    if held.head.held is Held.OWN:
        return ("the capsule does not name the function that triggered it. To test single samples: --when "
                "MODULE:FUNCTION.")
    return ""


def _say(say: Printer | None, text: str) -> None:
    if say is not None:
        say.line(text)
