from __future__ import annotations

from pathlib import Path

import pytest

from barograph.cli.jobs.logs_page import print_logs
from barograph.errors import StoreUnavailable
from barograph.jobs.home import HOME_VARIABLE, JobRecord, JobsHome
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.job_report import JobView
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.provenance.secrets import Secrets
from barograph.store.urls import store_from_url


def test_following_goes_on_while_the_store_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    store = store_from_url(str(tmp_path / "job"))
    write_submission(store, Submission("digits", JobSpec(("train.py",))))
    JobsHome().add(JobRecord("digits", store.url, 1, "local", over=True), {})
    events = EventLog(store, EVENTS)
    events.append("submitted")
    events.append("starting", attempt=0)
    log = InstanceLog(store, 0, 0, secrets=Secrets())
    log.add(b"epoch 1\n")
    log.write(last=True)
    events.append("over", phase="finished", reason="")
    refresh, failures = JobView.refresh, ["once", "twice"]

    def flaky(view: JobView) -> object:
        if failures:
            failures.pop()
            raise StoreUnavailable("The store cannot be reached.")
        return refresh(view)

    monkeypatch.setattr(JobView, "refresh", flaky)
    monkeypatch.setattr("barograph.cli.jobs.logs_page.ensure_controller", lambda home: False)
    print_logs("digits", follow=True, everything=False, as_json=False, wait=lambda secs: None)
    assert capsys.readouterr().out == "epoch 1\n"
    failures.append("once")
    with pytest.raises(StoreUnavailable):
        print_logs("digits", follow=False, everything=False, as_json=False)
