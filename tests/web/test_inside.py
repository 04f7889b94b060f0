"""What the page gets when it asks about the inside of a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from barograph.store.urls import store_from_url
from barograph.web.app import application
from barograph.web.in_process import get_inside
from barograph.web.saved import saved_answers
from barograph.web.schema import schema_of
from barograph.web.shapes import SHAPES
from diary import Diary
from probed import SAMPLES, probed
from web_client import Client


@pytest.fixture
def client(tmp_path: Path) -> Client:
    probed(str(tmp_path / "probed")).ended()
    plain = Diary("plain", store_from_url(str(tmp_path / "plain")))
    plain.step(0, {"loss:total": 1.0})
    plain.ended()
    return Client(application([str(tmp_path)], hosts=["127.0.0.1", "localhost"]))


def test_the_overview_says_what_there_is(client: Client) -> None:
    found = client.get("/api/inside?run=0/probed").json

    assert (found["evaluations"], found["saliency_samples"]) == (3, ["11", "22"])
    assert found["saliency_methods"] == ["smoothgrad"]
    assert found["tensors"] == ["weight:fc.weight"]
    assert [step for step, _, _ in found["curves"]["gaps"]] == [1, 2, 3]


@pytest.mark.parametrize("query", ["", "&fit=each", "&fit=last", "&method=tsne"])
def test_the_latent_space_has_a_point_for_each_sample(client: Client, query: str) -> None:
    found = client.get(f"/api/latent?run=0/probed{query}").json

    assert found["samples"] == [str(sample) for sample in SAMPLES.tolist()]
    assert [frame["step"] for frame in found["frames"]] == [1, 2, 3]
    assert {len(frame["points"]) for frame in found["frames"]} == {14}
    assert max(abs(value) for frame in found["frames"] for value in frame["points"]) == 1
    assert found["frames"][0]["accuracy"] == pytest.approx(5 / 6)
    assert client.get(f"/api/latent?run=0/probed{query}").json == found


def test_a_sample_its_maps_and_a_distribution_are_answered(client: Client) -> None:
    sample = client.get("/api/sample?run=0/probed&sample=11").json
    maps = client.get("/api/saliency?run=0/probed&sample=11").json
    ridges = client.get("/api/ridges?run=0/probed&key=weight:fc.weight").json

    assert (sample["input"]["shape"], sample["predictions"]) == ([1, 5, 5], [0, 0, 0])
    assert [item["step"] for item in maps["maps"]] == [1, 2, 3]
    assert ridges["steps"] == [0, 1, 2]
    assert ridges["zeros"] == [0.25] * 3


def test_a_run_without_a_probe_has_an_empty_answer(client: Client) -> None:
    assert client.get("/api/latent?run=0/plain").json is None
    assert client.get("/api/inside?run=0/plain").json["evaluations"] == 0


@pytest.mark.parametrize(("question", "status", "says"), [
    ("latent?run=0/probed&method=umap", 404, "umap"), ("latent", 400, "run is missing"),
    ("sample?run=0/probed", 400, "sample is missing"), ("sample?run=0/probed&sample=9", 404, "has no sample"),
    ("sample?run=0/probed&sample=<b>", 404, "has no sample"),
    ("saliency?run=0/probed&sample=44", 404, "no saliency maps of the sample"),
    ("saliency?run=0/plain&sample=44", 404, "--saliency"),
    ("ridges?run=0/probed&key=weight:x", 404, "no histogram"),
])
def test_a_wrong_question_is_answered_with_a_sentence(client: Client, question: str, status: int, says: str) -> None:
    answer = client.get(f"/api/{question}")

    assert (answer.status, says in answer.json["error"]) == (status, True), answer.body


def test_a_saved_page_has_what_the_tab_shows_first(client: Client) -> None:
    found = saved_answers(partial(get_inside, client.app), ["0/probed"])
    about = [url.removeprefix("api/") for url in found if "probed" in url]

    for name in ("inside?", "latent?", "sample?", "saliency?", "ridges?"):
        assert [url for url in about if url.startswith(name)], name
    assert "api/latent?run=0%2Fprobed&method=pca&fit=all&n=3" in found


@pytest.mark.parametrize(("address", "name"), [
    ("inside?run=0/probed", "Inside"), ("inside?run=0/plain", "Inside"), ("latent?run=0/probed", "Latent"),
    ("sample?run=0/probed&sample=11", "ProbeSample"), ("saliency?run=0/probed&sample=11", "SaliencyOverTime"),
    ("ridges?run=0/probed&key=weight:fc.weight", "Ridges"),
])
def test_an_answer_is_what_its_type_says(client: Client, address: str, name: str) -> None:
    schema = {"$ref": f"#/$defs/{name}", "$defs": schema_of(SHAPES)["$defs"]}

    assert [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(
        client.get(f"/api/{address}").json)] == []
