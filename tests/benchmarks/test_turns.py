"""What recording costs within one process is told from the bare steps beside it."""

from __future__ import annotations

import pytest

from benchmarks import turns
from benchmarks.turns_worker import measure


def turn(bare: tuple[int, float], recorded: tuple[int, float]) -> dict[str, dict[str, float]]:
    return {name: {"steps": steps, "wall": 2 * secs, "thread": secs}
            for name, (steps, secs) in (("bare", bare), ("recorded", recorded))}


def test_each_turn_is_judged_by_the_bare_steps_beside_it() -> None:
    # The machine halves its speed after the first turn; recorded steps take a tenth more each time.
    found = [turn((10, 1.0), (20, 2.2)), turn((10, 2.0), (10, 2.2))]
    cost = turns.cost_of(found, "thread")
    assert cost.more == pytest.approx(0.1)
    assert cost.share == pytest.approx(0.4 / 7.4)
    assert turns.cost_of(found, "wall") == cost


def test_the_interval_widens_with_what_turns_differ() -> None:
    even = turns.with_interval([turn((10, 1.0), (10, 1.1))] * 9, "thread")
    odd = turns.with_interval([turn((10, 1.0), (10, 1.0 + number / 40)) for number in range(9)], "thread")
    assert even[1].more == pytest.approx(even[2].more) == pytest.approx(0.1)
    assert odd[0].more == pytest.approx(0.1)
    assert 0.0 < odd[1].more < 0.1 < odd[2].more < 0.2


def test_what_the_flight_recorder_takes_by_itself_is_told(capsys) -> None:
    recorder, without = ([turn((10, 1.0), (10, secs))] * 5 for secs in (1.03, 1.01))
    assert turns.difference(recorder, without, "thread") == pytest.approx((0.02, 0.02, 0.02))
    odd = [turn((10, 1.0), (10, 1.03 + number / 100)) for number in (-2, 0, 2)]
    more, low, high = turns.difference(odd, without, "thread")
    assert more == pytest.approx(0.02)
    assert low < more < high
    turns.print_turns({"workloads": {"gpt": {"with the flight recorder": [recorder], "losses alone": [without]}}})
    assert "gpt: the flight recorder alone (its checks and the data it keeps of a step) adds +2.00%" in " ".join(
        capsys.readouterr().out.split())


def test_a_training_is_measured_by_turns_and_printed(tmp_path, capsys) -> None:
    found = measure({"workload": "tiny", "options": {"preset": "moments", "budget": None}, "secs": 0.3,
                     "block_secs": 0.05, "warm_up_secs": 0.05, "directory": str(tmp_path)})
    assert len(found["turns"]) >= 2
    assert all(block["steps"] > 0 for one in found["turns"] for block in one.values())
    assert turns.cost_of(found["turns"], "thread").more > 0
    turns.print_turns({"workloads": {"tiny": {"default settings": [found["turns"]]}}})
    said = capsys.readouterr().out
    assert "default settings" in said
    assert "added in total" in said
