"""Things are measured once a round, and what fails is left out from then on, and named."""

from __future__ import annotations

from benchmarks.processes import WorkerFailed
from benchmarks.rounds import in_rounds


def test_what_fails_is_left_out_of_the_rounds_that_follow() -> None:
    seen: list[tuple[str, int]] = []

    def measure(name: str, number: int) -> None:
        seen.append((name, number))
        if name == "b" and number == 1:
            raise WorkerFailed("no network")

    assert in_rounds("some", ["a", "b"], 4, measure, seed=0) == {"b": "no network"}
    assert sorted(seen) == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("b", 1)]
