"""Routes for latent space, saliency maps, distributions and learning curves."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barograph.errors import SettingsError
from barograph.model.key import key_from_text
from barograph.queries.latent import MOST_FRAMES, MOST_SAMPLES, latent, probe_frames, probe_sample, probe_steps
from barograph.queries.learning_curves import learning_curves
from barograph.queries.ridges import ridge_keys, ridges_of
from barograph.queries.saliency import saliency_methods, saliency_of, saliency_samples
from barograph.runs.reading.reader import RunReader
from barograph.web.answers import json_answer
from barograph.web.opened import OpenRuns

_MOST_KEPT = 16


def overview(reader: RunReader, request: Request) -> Any:
    """Contents of a run: evaluations with a probe, saliency maps, tensors with distributions, learning curves."""
    return {
        "evaluations": len(probe_steps(reader)), "saliency_methods": list(saliency_methods(reader)),
        "saliency_samples": list(saliency_samples(reader)), "tensors": list(map(str, ridge_keys(reader))),
        "curves": learning_curves(reader).to_json(),
    }


def sample(reader: RunReader, request: Request) -> Any:
    """One sample of the probe."""
    return probe_sample(reader, _text(request, "sample")).to_json()


def saliency(reader: RunReader, request: Request) -> Any:
    """Saliency maps of one sample."""
    return saliency_of(reader, _text(request, "sample"), method=request.query_params.get("method", "")).to_json()


def ridges(reader: RunReader, request: Request) -> Any:
    """Distribution of one tensor over the steps."""
    return ridges_of(reader, key_from_text(_text(request, "key"))).to_json()


QUESTIONS = {"inside": overview, "sample": sample, "saliency": saliency, "ridges": ridges}


def latent_route(opened: OpenRuns) -> Route:
    """Return the route of the latent space. Its projection does not block other requests for the run."""
    kept: dict[tuple[Any, ...], Any] = {}

    def answer(request: Request) -> Response:
        method = request.query_params.get("method", "pca")
        fit = request.query_params.get("fit", "all")
        key = _text(request, "run")
        with opened.run(key) as reader:
            asked = key, method, fit, reader.manifest.run_id, tuple(probe_steps(reader))
            if asked in kept:
                return json_answer(request, kept[asked])
            evaluations = len(asked[-1])
            frames = probe_frames(reader, most=MOST_FRAMES)
        found = latent(frames, method=method, fit=fit, evaluations=evaluations, most_samples=MOST_SAMPLES)
        while len(kept) >= _MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[asked] = None if found is None else found.to_json()
        return json_answer(request, kept[asked])

    return Route("/api/latent", answer)


def _text(request: Request, name: str) -> str:
    text = request.query_params.get(name, "")
    if not text:
        raise SettingsError(f"{name} is missing.")
    return text
