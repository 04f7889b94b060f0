"""Studies in the page: the list, one with everything it found, contours, and the study of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from answer_types import problems_of
from barograph.jobs.home import JobsHome
from barograph.jobs.spec import JobSpec
from barograph.model.clock import ManualClock
from barograph.store.files import FileStore
from barograph.tune.study import Study
from barograph.tune.study_events import EVENTS
from barograph.tune.study_home import StudyHome
from barograph.tune.trial_plan import TrialPlan
from barograph.web.app import application
from barograph.web.changes import Changes
from barograph.web.open_studies import OpenStudies
from barograph.web.places import Places
from web_client import Client, recorded


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyHome:
    monkeypatch.setenv("BAROGRAPH_HOME", str(tmp_path / "home"))
    return StudyHome(JobsHome())


def write(place: Path, *, trials: int = 6, start: float = 1_000.0, name: str = "digits") -> Study:
    """Write a study whose trials are jobs beside its folder."""
    clock = ManualClock(unix=start)
    plan = TrialPlan(name, JobSpec(("train.py",)), f"file://{place.parent.parent}")
    study = Study.create(place, {"lr": "1e-4..1:log", "width": (8, 64)}, strategy="random", seed=1, minimize="loss",
                         trials=trials, details=plan.to_json(), clock=clock)
    for number in range(trials):
        trial = study.ask(job=plan.job_names)
        clock.advance(10)
        study.tell(trial, float(10 - number))
    return study


def test_the_list_has_the_studies_of_the_roots_and_of_this_user(client: Client, root: Path, home: StudyHome) -> None:
    write(root / "studies" / "digits")
    write(root / "own", start=5_000.0, name="own")
    write(root.parent / "elsewhere" / "studies" / "far", start=3_000.0, name="far")
    home.add("digits", f"file://{root}/studies/digits")
    home.add("far", f"file://{root.parent}/elsewhere/studies/far")

    answer = client.get("/api/studies").json

    assert [(row["key"], row["name"]) for row in answer["studies"]] == [
        ("0/own", "own"), ("home/far", "far"), ("0/studies/digits", "digits")]
    assert (answer["studies"][2]["best"], answer["studies"][2]["trials"]) == (5.0, 6)
    assert answer["problems"] == []
    assert problems_of(answer, "Studies") == []
    assert client.get("/api/study?study=home/far").json["name"] == "far"


def test_runs_of_trials_are_their_study_on_the_page_of_what_is_new(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")
    write(root / "group" / "studies" / "digits")
    for name in ("digits-000", "digits-001-s2", "group/digits-002", "other-000"):
        recorded(root / name, [1.0])

    found = client.get("/api/now").json
    named = client.get("/api/studies?" + "&".join(f"study={key}" for key in found["studies"])).json

    assert {run["key"] for run in found["runs"]} == {"0/first", "0/group/second", "0/other-000"}
    assert (sorted(found["studies"]), found["count"]) == (["0/group/studies/digits", "0/studies/digits"], 6)
    assert sorted(row["key"] for row in named["studies"]) == ["0/group/studies/digits", "0/studies/digits"]


def test_a_run_in_the_folder_of_studies_hides_no_other_run(client: Client, root: Path) -> None:
    for name in ("studies/digits", "digits-000"):
        recorded(root / name, [1.0])

    found = client.get("/api/now").json

    assert {run["key"] for run in found["runs"]} == {"0/first", "0/group/second", "0/studies/digits", "0/digits-000"}
    assert found["studies"] == []


def test_runs_beside_studies_are_no_studies(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")
    recorded(root / "studies" / "digits-000", [1.0])

    assert [row["key"] for row in client.get("/api/studies").json["studies"]] == ["0/studies/digits"]


def test_a_root_may_be_a_study(tmp_path: Path) -> None:
    write(tmp_path / "studies" / "digits")
    alone = Client(application([str(tmp_path / "studies" / "digits")], hosts=["127.0.0.1"]))

    assert [row["key"] for row in alone.get("/api/studies").json["studies"]] == ["0"]
    assert alone.get("/api/study?study=0").json["runs_at"] is None, "its runs are not below the root"


def test_a_study_has_everything_it_found(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")

    answer = client.get("/api/study?study=0/studies/digits").json

    assert problems_of(answer, "Study") == []
    assert (answer["key"], answer["runs_at"], answer["trials"][3]["job"]) == ("0/studies/digits", "0", "digits-003")
    assert answer["verdict"].startswith("Trial 5 is the best of 6: loss 5 with lr=")
    assert (answer["secs"], answer["state"]) == (60.0, "finished")


def test_a_study_that_is_written_is_read_again(client: Client, root: Path) -> None:
    study = write(root / "studies" / "digits")
    assert client.get("/api/study?study=0/studies/digits").json["limit"] == 6
    study.extend(study.spec.completion.__class__(trials=7))
    trial = study.ask()
    assert client.get("/api/study?study=0/studies/digits").json["trials"][6]["state"] == "running"
    study.tell(trial, 0.5)
    assert client.get("/api/study?study=0/studies/digits").json["best"]["trial"] == 6


def test_to_look_at_a_study_takes_none_of_its_time(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")
    assert {client.get("/api/study?study=0/studies/digits").json["secs"] for _ in range(3)} == {60.0}


def test_damage_is_named_and_hides_no_other_study(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")
    write(root / "studies" / "broken")
    (root / "studies" / "broken" / EVENTS / "00000000.json").write_text("{")
    (root / "studies" / "begun" / EVENTS).mkdir(parents=True)

    rows = {row["name"]: row for row in client.get("/api/studies").json["studies"]}

    assert (rows["digits"]["state"], rows["digits"]["problem"]) == ("finished", "")
    assert (rows["broken"]["state"], rows["begun"]["state"]) == ("unreadable", "unreadable")
    assert "is damaged" in rows["broken"]["problem"]
    broken = client.get("/api/study?study=0/studies/broken")
    assert (broken.status, broken.json["type"]) == (500, "TuneError")
    (root / "studies" / "digits" / EVENTS / "00000002.json").write_text("{")
    fresh = Client(application([str(root)], hosts=["127.0.0.1"])).get("/api/study?study=0/studies/digits").json
    assert "1 event is damaged" in fresh["problems"][0]


@pytest.mark.parametrize("key", ["", "0/none", "1/studies/digits", "0/../studies", "home/", "home/none",
                                 "home/../../etc", "home//etc", "0/studies/digits/study"])
def test_no_key_opens_what_is_no_study(client: Client, root: Path, key: str) -> None:
    write(root / "studies" / "digits")
    for question in ("study", "study-contour"):
        answer = client.get(f"/api/{question}?study={key}&x=lr&y=width")
        assert (answer.status, answer.json["type"]) in ((404, "UnknownStudy"), (404, "UnknownName")), question


def test_a_link_out_of_the_root_is_no_study(client: Client, root: Path) -> None:
    write(root.parent / "secret" / "studies" / "digits")
    (root / "studies").mkdir()
    (root / "studies" / "digits").symlink_to(root.parent / "secret" / "studies" / "digits")

    assert client.get("/api/study?study=0/studies/digits").status == 404


def test_a_contour_is_of_two_parameters(client: Client, root: Path) -> None:
    write(root / "studies" / "digits")
    write(root / "studies" / "short", trials=3)
    ask = "/api/study-contour?study=0/studies"

    answer = client.get(f"{ask}/digits&x=lr&y=width").json

    assert problems_of(answer, "Contour") == []
    assert (answer["x"], answer["y"], len(answer["points"])) == ("lr", "width", 6)
    assert {len(line) for line in answer["surface"]} == {len(answer["x_values"])}
    wrong = [client.get(f"{ask}/{end}") for end in ("digits&x=lr&y=lr", "digits&x=lr&y=depth", "short&x=lr&y=width")]
    assert [one.status for one in wrong] == [400, 400, 400]
    assert 'no parameter "depth"' in wrong[1].json["error"]
    assert "needs four finished trials" in wrong[2].json["error"]


@pytest.mark.parametrize(("run", "trial"), [
    ("0/digits-003", 3), ("0/digits-003-s2", 3), ("0/digits-003-refit", 3), ("0/digits-003-s2.3", 3),
    ("0/digits-003-refit.2", 3), ("0/digits-099", None),
    ("0/digits-099-refit", None), ("0/digits", None), ("0/first", None), ("0", None), ("", None),
    ("7/digits-001", None),
])
def test_a_run_knows_the_study_it_is_a_trial_of(client: Client, root: Path, run: str, trial: int | None) -> None:
    write(root / "studies" / "digits")

    answer = client.get(f"/api/study-of-run?run={run}").json

    assert problems_of(answer, "StudyOfRun") == []
    assert (answer["trial"], answer["study"]) == (trial, None if trial is None else "0/studies/digits")


def test_a_study_is_announced_when_it_changes(root: Path) -> None:
    study = write(root / "studies" / "digits")
    clock = ManualClock()
    changes = Changes(Places([str(root)]), clock=clock)
    before = changes.cursor("study/0/studies/digits")
    clock.advance(1)
    assert changes.cursor("study/0/studies/digits") == before
    study.end()
    clock.advance(1)
    assert changes.cursor("study/0/studies/digits") != before
    assert changes.cursors({"study/0/none": "x", "study/home/none": "x"}) == {"study/0/none": "", "study/home/none": ""}


def test_a_look_for_changes_does_not_list_the_events_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(root / "studies" / "digits")
    listed: list[str] = []
    known = FileStore.list
    monkeypatch.setattr(FileStore, "list", lambda store, folder: listed.append(folder) or known(store, folder))
    clock = ManualClock()
    changes = Changes(Places([str(root)]), clock=clock)
    found = [changes.cursor("study/0/studies/digits")]
    for _ in range(3):
        study.add(study.trials[0].parameters, 1.0)
        clock.advance(1)
        found.append(changes.cursor("study/0/studies/digits"))
    assert len(set(found)) == 4
    assert listed.count(EVENTS) == 1
    assert Changes(Places([str(root)])).cursor("study/0/studies/digits") == found[-1], "also after a restart"


def test_a_new_value_of_a_running_trial_computes_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = write(root / "studies" / "digits")
    study.extend(study.spec.completion.__class__(trials=8))
    first, second = study.ask(), study.ask()
    studies = OpenStudies(Places([str(root)]))
    before = studies.overview("0/studies/digits")
    clock: Any = study._clock
    clock.advance(5)
    study.report(first, 4, 0.25)
    monkeypatch.setattr("barograph.web.open_studies.overview_of", None)
    after = studies.overview("0/studies/digits")
    assert after["trials"][6] == {**before["trials"][6], "step": 4, "last": 0.25}
    assert {**after, "trials": after["trials"][:6] + after["trials"][7:]} == {
        **before, "trials": before["trials"][:6] + before["trials"][7:]}
    assert second is not None


def test_the_list_leaves_out_a_deleted_study_but_not_an_unreachable_one(
    client: Client, root: Path, home: StudyHome
) -> None:
    write(root / "studies" / "digits")
    home.add("gone", f"file://{root}/studies/gone")
    home.add("away", f"file://{root}/not mounted/studies/away")

    rows = {row["name"]: row["state"] for row in client.get("/api/studies").json["studies"]}

    assert rows == {"digits": "finished", "away": "unreadable"}


def test_a_study_that_was_removed_is_not_answered_from_memory(client: Client, root: Path) -> None:
    import shutil

    write(root / "studies" / "digits")
    assert client.get("/api/study?study=0/studies/digits").status == 200
    shutil.rmtree(root / "studies" / "digits")
    assert client.get("/api/study?study=0/studies/digits").status == 404
    write(root / "studies" / "digits", trials=2)
    assert len(client.get("/api/study?study=0/studies/digits").json["trials"]) == 2


def test_a_study_that_was_created_again_between_two_requests_is_the_new_one(client: Client, root: Path) -> None:
    import shutil

    write(root / "studies" / "digits")
    assert len(client.get("/api/study?study=0/studies/digits").json["trials"]) == 6
    assert client.get("/api/studies").json["studies"][0]["trials"] == 6
    shutil.rmtree(root / "studies" / "digits")
    write(root / "studies" / "digits", trials=2)
    assert client.get("/api/studies").json["studies"][0]["trials"] == 2
    assert len(client.get("/api/study?study=0/studies/digits").json["trials"]) == 2


def test_a_running_trial_has_its_latest_value(client: Client, root: Path) -> None:
    study = write(root / "studies" / "digits")
    study.extend(study.spec.completion.__class__(trials=7))
    trial = study.ask()
    changes = Changes(Places([str(root)]), clock=ManualClock())
    before = changes.cursor("study/0/studies/digits")
    assert client.get("/api/study?study=0/studies/digits").json["trials"][6]["step"] is None
    study.report(trial, 4, 0.25)
    shown = client.get("/api/study?study=0/studies/digits").json["trials"][6]
    assert (shown["state"], shown["step"], shown["last"]) == ("running", 4, 0.25)
    assert Changes(Places([str(root)])).cursor("study/0/studies/digits") != before


def test_a_list_of_many_studies_reads_only_those_that_changed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [write(root / "studies" / f"s{number}", trials=1) for number in range(40)]
    studies = OpenStudies(Places([str(root)]))
    keys, _ = studies.keys()
    assert [studies.row(key).trials for key in keys] == [1] * 40
    opened: list[Any] = []
    known = Study.open
    monkeypatch.setattr(Study, "open", lambda store, **options: opened.append(store.url) or known(store, **options))
    assert [studies.row(key).trials for key in keys] == [1] * 40
    assert opened == []
    written[0].add(written[0].trials[0].parameters, 1.0)
    assert studies.row("0/studies/s0").trials == 2
    assert [url.rpartition("/")[2] for url in opened] == ["s0"]


def test_only_the_last_studies_stay_open(root: Path) -> None:
    studies: Any = OpenStudies(Places([str(root)]))
    for number in range(40):
        write(root / "studies" / f"s{number}", trials=1)
        with studies.study(f"0/studies/s{number}") as study:
            assert len(study.trials) == 1
    assert len(studies._open) == 32
