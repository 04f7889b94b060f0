"""Blocks of steps by turns, and the table that frameworks print of them."""

from __future__ import annotations

import time

from benchmarks import frameworks
from benchmarks.blocks import block_of, by_turns


def test_turns_begin_once_both_kinds_have_run_often_enough() -> None:
    made: list[str] = []
    turns = by_turns(block_of(lambda: made.append("bare")), block_of(lambda: made.append("recorded")),
                     secs=0.01, block_secs=0.0, warm_up_secs=0.0, warm_up_steps=5)
    before = made.index("recorded")
    assert made[before:before + 5] == ["recorded"] * 5
    assert made[before + 5:] == ["bare", "recorded"] * len(turns)
    assert turns
    for turn in turns:
        assert list(turn) == ["bare", "recorded"]
        assert all(block["steps"] == 1 and block["wall"] > 0 for block in turn.values())


def test_all_blocks_have_as_many_steps_however_fast_they_are() -> None:
    made: list[str] = []

    def slow(steps: int) -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.002 * steps:
            pass
        made.extend(["bare"] * steps)

    turns = by_turns(slow, block_of(lambda: made.append("recorded")), secs=0.03, block_secs=0.01, warm_up_secs=0.0)
    assert {block["steps"] for turn in turns for block in turn.values()} == {turns[0]["bare"]["steps"]}
    assert turns[0]["bare"]["steps"] <= 6
    assert made.count("recorded") == (len(turns) + 1) * turns[0]["bare"]["steps"]


def test_there_are_two_turns_at_least() -> None:
    step = block_of(lambda: None)
    assert len(by_turns(step, step, secs=0.0, block_secs=0.0, warm_up_secs=0.0)) == 2


def test_frameworks_are_told_by_variant_with_what_is_missing(capsys) -> None:
    def process(wall: float) -> dict[str, object]:
        block = {"steps": 10, "wall": 1.0, "thread": 1.0, "process": 1.0}
        return {"turns": [{"bare": block, "recorded": {**block, "wall": wall, "process": 1.3}}] * 2, "recorded": 7}

    frameworks.print_frameworks({
        "frameworks": [{"framework": "flax nnx", "workload": "gpt",
                        "variants": {"everything": [process(1.2)], "budget": [process(1.01), process(1.01)]}}],
        "missing": {"keras on jax": "keras"}, "threads": 2})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    everything, budget = (next(row for row in rows if name in row) for name in ("everything", "budget"))
    assert {"+20.0%", "+9.09%", "+13.04%"} <= set(everything)
    assert {"+1.0%", "+0.50%", "4"} <= set(budget)
    assert budget[-2:] == ["7,", "7"]
    assert any("keras on jax was not measured" in " ".join(row) for row in rows)
    assert any(row[-2:] == ["Threads:", "2"] for row in rows)
