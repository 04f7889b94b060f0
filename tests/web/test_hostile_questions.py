"""Every route answers any query string with data or with a sentence in JSON, and never fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pytest
from starlette.datastructures import QueryParams
from starlette.routing import Route

from barograph.experiments.artifacts import artifact_from_bytes
from barograph.experiments.handle import catalog_at
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.model.exhibits import Picture
from barograph.model.items import Entry, Verb
from barograph.store.urls import store_from_url
from barograph.tune.study import Study
from barograph.web import charting
from barograph.web.app import application
from probed import probed
from web_client import Client, recorded

USUAL = {"run": "0/first", "name": "loss", "step": "0", "key": "gradient:fc.weight", "layer": "fc", "kind": "gradient",
         "by": "tags.team", "metric": "loss", "sample": "a", "study": "0/a", "title": "a", "path": "run.json"}
"""A valid value of each parameter without which a route says nothing else."""

BOTH = ["0/first", "0/second"]
PROBED = {"run": "0/probed", "sample": "11"}
OF_ROUTES: dict[str, dict[str, str | list[str]]] = {
    "/api/bands": {"run": BOTH, "group": ["0", "0"]}, "/api/differences": {"run": BOTH}, "/api/parting": {"run": BOTH},
    "/api/file": {"role": "output"}, "/api/sample": {**PROBED}, "/api/saliency": {**PROBED},
    "/api/study-contour": {"x": "lr", "y": "width"},
}
"""Valid values for routes that need others."""

HOSTILE = ["", "\0", "-1", "9" * 5000, "nan", "(", "../../x", "x" * 3000, "\ud800", "params.x", "0/first/.."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    root = tmp_path_factory.mktemp("hostile")
    recorded(root / "first", [3.0, 2.0, 1.0])
    recorded(root / "second", [3.0, float("nan"), 2.5])
    probed(str(root / "probed")).ended()
    study = Study.create(root / "a", {"lr": "1e-4..1:log", "width": (8, 64)}, strategy="random", seed=1,
                         minimize="loss", trials=12)
    for number in range(12):
        study.tell(study.ask(), float(number))
    catalog = catalog_at(str(root))
    catalog.feed()
    (first,) = catalog.find("kind = 'run' and name = 'first'")
    catalog.tell([Entry(first.uid, Verb.TAG, {"team": "a"}), Entry(first.uid, Verb.OUTPUT, asdict(
        artifact_from_bytes(store_from_url(str(root)), b"text", "loss", "text/plain")))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(charting, "exhibits_of_run", lambda store, uid: (Picture("a", "image/png", b"a"),))
        job = store_from_url(str(tmp_path_factory.mktemp("job")))
        write_submission(job, Submission("loss", JobSpec(("train.py",))))
        EventLog(job, EVENTS).append("submitted")
        JobsHome().add(JobRecord("loss", job.url, 0, "local"), {})
        yield Client(application([str(root)], hosts=["127.0.0.1"]))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the parameters that were looked at."""
    names: set[str] = set()

    def noting(method: Any) -> Any:
        def noted(self: QueryParams, name: str, *default: Any) -> Any:
            names.add(name)
            return method(self, name, *default)
        return noted

    for name in ("get", "getlist"):
        monkeypatch.setattr(QueryParams, name, noting(getattr(QueryParams, name)))
    return names


def routes_of(client: Client) -> list[str]:
    client.get("/api/schema")  # loads all
    found = [*client.app.routes, *client.app._others._router.routes]
    return sorted({route.path for route in found if isinstance(route, Route) and "GET" in (route.methods or ())})


def usual(route: str) -> dict[str, str | list[str]]:
    return {**USUAL, **OF_ROUTES.get(route, {})}


def question(route: str, values: Mapping[str, str | list[str]]) -> str:
    return f"{route}?" + "&".join(f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}"
                                  for name, several in values.items()
                                  for value in ([several] if isinstance(several, str) else several))


def is_answered(client: Client, url: str) -> bool:
    try:
        answer = client.get(url)
    except Exception:  # noqa: BLE001 - the server would log it, and send a 500
        return False
    if answer.status < 400:
        return True
    return answer.status < 500 and answer.headers["content-type"] == "application/json" and bool(answer.json["error"])


def test_the_usual_values_are_answered_with_data(server: Client) -> None:
    refused = {route for route in routes_of(server) if server.get(question(route, usual(route))).status >= 400}

    assert refused == set()


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value[:12]))
def test_no_value_of_a_parameter_makes_a_route_fail(server: Client, asked: set[str], value: str) -> None:
    failed = []
    for route in routes_of(server):
        asked.clear()
        assert is_answered(server, question(route, usual(route))), route
        failed += [(route, name) for name in sorted(asked)
                   if not is_answered(server, question(route, {**usual(route), name: value}))]
    assert failed == []


def test_no_route_fails_without_parameters(server: Client) -> None:
    assert [route for route in routes_of(server) if not is_answered(server, route)] == []
