"""Ranks of searches, what counts as the same code, and simulated workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.tune import epochs, findings, ranks
from benchmarks.tune.searchers import digest_of


def test_equal_losses_share_the_mean_rank() -> None:
    losses = {"a": {"p 0": [3.0, 1.0]}, "b": {"p 0": [1.0, 1.0]}, "c": {"p 0": [0.5, 0.5]}}
    assert ranks.ranks(losses, ["a", "b", "c"], ["p 0"], 2) == {"a": [2.5], "b": [2.5], "c": [1.0]}
    assert ranks.ranks(losses, ["a", "b", "c"], ["p 0"], 1) == {"a": [3.0], "b": [2.0], "c": [1.0]}


def test_the_test_of_equal_ranks_finds_no_difference() -> None:
    assert ranks.wilcoxon([1.0, 2.0], [1.0, 2.0]) == 1.0
    assert ranks.wilcoxon([float(one) for one in range(20)], [one + 1.0 for one in range(20)]) < 0.01


def test_a_digest_depends_on_code_alone(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "code.py").write_text(text)
        return digest_of([tmp_path / "code.py"])

    plain = digest("def f():\n    return 1\n")
    assert digest('"""Text."""\n\ndef f():\n    """More."""\n    return 1  # why\n') == plain
    assert digest("def f():\n    return 2\n") != plain


def test_losses_of_other_code_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "version_of", lambda _: "new")
    kept = tmp_path / "kept.jsonl"
    rows = [{"search": "auto", "version": version, "key": f"p {seed}", "losses": [float(seed)]}
            for seed, version in enumerate(("old", "new"))]
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ranks.kept_losses(kept, ["auto"]) == {"auto": {"p 1": [1.0]}}


def test_the_epochs_of_all_workers_count() -> None:
    rows = [({}, [0.1] * epochs.EPOCHS) for _ in range(3)] + [({}, [0.1, 0.2, 0.9, *[0.9] * (epochs.EPOCHS - 3)])]
    order = iter(range(4))
    spent = epochs.simulated(rows, lambda: next(order, None), lambda row, epoch, accuracy: False,
                             lambda row, accuracy: None)
    assert spent == 12  # the fourth worker is the last of each round


def test_a_trial_that_is_stopped_makes_room_for_the_next() -> None:
    rows = [({}, [0.1] * epochs.EPOCHS) for _ in range(4)] + [({}, [0.9] * epochs.EPOCHS)]
    order, ended = iter(range(5)), []
    spent = epochs.simulated(rows, lambda: next(order, None), lambda row, epoch, accuracy: row == 0,
                             lambda row, accuracy: ended.append(row))
    assert (spent, ended) == (5, [0])


def test_drawn_settings_depend_on_part_and_number_alone() -> None:
    assert findings.settings_of("good", 3) == findings.settings_of("good", 3)
    assert findings.settings_of("good", 3) != findings.settings_of("broken", 3)
    assert all(findings.settings_of("good", number)["lr"] <= 0.51 for number in range(50))


def _looks(accuracies: list[float]) -> list[findings.Look]:
    """Return looks a second apart; the last one of each report has an accuracy."""
    nothing = [None] * (findings.LOOKS - 1)
    seen = [one for accuracy in accuracies for one in (*nothing, accuracy)]
    return [findings.Look(1.0 + place, accuracy, ()) for place, accuracy in enumerate(seen)]


def test_the_time_of_parallel_workers_runs_once() -> None:
    rows = {number: _looks([0.5] * findings.REPORTS) for number in range(4)}
    rows[2] = _looks([0.5, 0.9, *[0.9] * (findings.REPORTS - 2)])
    found = findings.simulated(rows, 1, strategy="random", findings=False)
    assert found == 2 * findings.LOOKS
