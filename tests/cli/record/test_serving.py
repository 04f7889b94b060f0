"""A service in several processes: what dies or is lost is begun again, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barograph.cli.record.serving import _Shared, _summed
from barograph.cli.record.watching import POLL_SECS, Options
from barograph.errors import WatchError
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.step import Mode
from barograph.processes.process import HostLost
from barograph.queries.problems import problems_of
from barograph.watch.service import RunVerdict

FINDING = Finding(
    id="A101-9", code="A101", rule="dead-relu", severity=Severity.COSTLY, state=FindingState.OPEN, message="Dead.",
    remedy="", evidence=(), subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=2, opened_step=3,
    last_step=3, closed_step=None, opened_unix=0.0,
)


class Part:
    """A part of a service that says what it was told to at each look: a code, None while it goes on, or it is lost."""

    def __init__(self, *codes: int | str | None) -> None:
        self._codes = iter(codes)
        self.terminated = False

    def poll(self) -> int | None:
        code = next(self._codes)
        if isinstance(code, str):
            raise HostLost(code)
        return code

    def said(self) -> bytes:
        return b'[{"name": "a"}]'

    def interrupt(self) -> None:
        pass

    def terminate(self) -> None:
        self.terminated = True


def no_wait(_: float) -> None:
    pass


def shared(begin: Callable[[int], Part], processes: int = 2, **options: bool) -> _Shared:
    return _Shared(Options(processes=processes, **options), no_wait, begin)  # type: ignore[arg-type]


def test_a_part_that_is_lost_is_begun_again_and_its_last_summary_counts(capsys: pytest.CaptureFixture[str]) -> None:
    parts = {0: [Part(None, 0, 0, 0, 0)], 1: [Part(None, "no power"), Part(0, 0)]}
    assert shared(lambda number: parts[number].pop(0), as_json=True).follow() is False
    assert parts == {0: [], 1: []}
    said = capsys.readouterr()
    assert said.out.count('"name"') == 2
    assert "lost with its machine and is restarted: no power" in said.err


def test_a_part_that_dies_is_begun_again_but_not_for_ever() -> None:
    begun: list[Part] = []

    def begin(number: int) -> Part:
        begun.append(Part(*[None] * 99) if number == 0 else Part(None, 7))
        return begun[-1]

    with pytest.raises(WatchError, match="died 6 times within an hour, the last one with exit code 7"):
        shared(begin).follow()
    assert len(begun) == 7
    assert begun[0].terminated


def test_parts_that_die_now_and_then_are_begun_again_for_years() -> None:
    a_day = [None] * round(24 * 3600 / POLL_SECS)
    lives = [Part(*a_day, 7) for _ in range(20)]
    shared(lambda number: lives.pop() if lives else Part(0), processes=1).follow()
    assert lives == []


def test_losses_with_life_in_between_never_end_the_service() -> None:
    lives = [Part(None, "no power") for _ in range(50)]
    shared(lambda number: lives.pop() if lives else Part(0), processes=1).follow()
    assert lives == []


def test_a_part_that_no_machine_can_hold_ends_the_service() -> None:
    with pytest.raises(WatchError, match="cannot run on any machine: no power"):
        shared(lambda number: Part("no power"), processes=1).follow()


@pytest.mark.parametrize(("steps", "damage", "text"), [
    (9, (), "9 steps evaluated, no problems"),
    (0, (), "0 steps evaluated, nothing to evaluate"),
    (0, ("Chunk 0 is damaged.",), "0 steps evaluated, nothing could be evaluated; 1 part could not be read"),
    (9, ("Chunk 0 is damaged.", "Chunk 3 too."),
     "9 steps evaluated, no problems in the rest; 2 parts could not be read"),
])
def test_no_problems_is_said_only_of_what_was_judged_and_read(steps: int, damage: tuple[str, ...], text: str) -> None:
    assert _summed([RunVerdict("a", False, steps, (), damage, damage)]).endswith(f"  a  ended, {text}")


def test_the_line_of_a_run_names_its_first_open_problem() -> None:
    found = [replace(FINDING, id=f"{cause.name}-9", state=state, causes=(Suspicion(cause, 0.9),))
             for cause, state in ((Cause.DEAD_RELU, FindingState.OPEN), (Cause.MEMORY_LEAK, FindingState.CLOSED))]
    verdict = RunVerdict("a", False, 9, tuple(found), found=problems_of(found))

    assert _summed([verdict]).endswith("  a  ended, 9 steps evaluated, 2 problems, 1 open: ReLU units are dead")
