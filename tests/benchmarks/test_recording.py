"""What the benches of rules look at is what a training recorded, as often as was asked for."""

from pathlib import Path

import pytest

from barograph.store.urls import store_from_url
from benchmarks import recording
from benchmarks.following_worker import measure as follow
from benchmarks.judging_worker import measure as judge
from benchmarks.recording import Repeater, record_training, summaries_in, views_of


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A training of a few steps, of one block."""
    url = str(tmp_path_factory.mktemp("recorded") / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "BLOCKS", 1)
        record_training(url, 12)
    return url


def test_steps_are_repeated_with_numbers_that_go_on_and_tensors_of_every_tower(recorded, tmp_path):
    templates = [view for view in views_of(store_from_url(recorded)) if summaries_in(view)]
    url = str(tmp_path / "run")

    with Repeater(url, store_from_url(recorded), towers=2) as repeater:
        written = repeater.write(15) + repeater.write(5)

    views = views_of(store_from_url(url))
    assert [view.step.number for view in views] == list(range(20))
    assert {summaries_in(view) for view in views} == {2 * summaries_in(templates[-1])}
    assert written == sum(map(summaries_in, views))
    names = {subject.key.path for subject in views[0].rows["p0"].table.subjects}
    assert {name.partition(".")[2] for name in names if name.startswith("tower0.")} == {
        name.partition(".")[2] for name in names if name.startswith("tower1.")
    }


def test_all_of_it_is_judged(recorded, tmp_path):
    url = str(tmp_path / "run")
    written = judge({"verb": "repeat", "recorded": recorded, "url": url, "towers": 1, "steps": 20})

    report = judge({"verb": "judge", "url": url})

    assert report["judged"]["summaries"] == written["summaries"]
    assert report["judged"]["cpu_secs"] > 0
    assert (report["watched"]["rules"] > 60, report["watched"]["problems"]) == (True, [])


def test_a_run_that_grows_is_followed_to_its_end(recorded, tmp_path, monkeypatch):
    # The allocator is the worker process's own affair.
    monkeypatch.setattr("benchmarks.following_worker.give_memory_back", lambda: None)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))

    report = follow({"directory": str(tmp_path), "recorded": recorded, "steps": 40, "block": 10})

    assert [block["through"] for block in report["blocks"]] == [10, 20, 30, 40]
    assert all(block["cpu_secs"] > 0 and block["resident_bytes"] > 1e6 for block in report["blocks"])
    assert report["keys"] > 50
