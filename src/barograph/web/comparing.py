"""Differences between runs, and the first step at which they diverge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.errors import SettingsError
from barograph.experiments.comparing import compared
from barograph.model.plain import plain
from barograph.queries.run import origin_of
from barograph.queries.trace import parting_to_json
from barograph.rerun.code_difference import code_difference
from barograph.rerun.repetition import in_words, repetition_of
from barograph.runs.reading.reader import RunReader
from barograph.web.answers import cell, json_answer
from barograph.web.catalogs import Catalogs
from barograph.web.opened import OpenRuns

_MOST_RUNS = 20


def comparing_routes(opened: OpenRuns, catalogs: Catalogs) -> list[BaseRoute]:
    """Return the routes that compare runs, named by `run`, given more than once."""

    def differences(request: Request) -> Response:
        keys = _keys(request, _MOST_RUNS)
        items = [catalogs.run(key)[1] for key in keys]
        with _readers(opened, keys) as readers:
            known = [(reader.store, origin_of(reader)[0]) for reader in readers]
            code = [code_difference(known[0], other).to_json() for other in known[1:]]
        found = compared(items)
        parts = {part: [{"name": row.name, "values": [cell(value) for value in row.values]} for row in rows]
                 for part, rows in found.parts.items()}
        return json_answer(request, {**found.to_json(), "parts": parts, "code_files": code})

    def parting(request: Request) -> Response:
        with _readers(opened, _keys(request, 2)) as readers:
            return json_answer(request, _parting(*readers))

    return [Route("/api/differences", differences), Route("/api/parting", parting)]


def _keys(request: Request, most: int) -> list[str]:
    keys = list(dict.fromkeys(request.query_params.getlist("run")))
    if not 2 <= len(keys) <= most:
        raise SettingsError(f"A comparison needs 2 to {most} different runs, not {len(keys)}."
                            if most > 2 else f"This needs two different runs, not {len(keys)}.")
    return keys


@contextmanager
def _readers(opened: OpenRuns, keys: Sequence[str]) -> Iterator[list[RunReader]]:
    """Lend several runs. In one order, so that two requests do not wait for each other."""
    with ExitStack() as stack:
        found = {key: stack.enter_context(opened.run(key)) for key in sorted(keys)}
        yield [found[key] for key in keys]


def _parting(first: RunReader, second: RunReader) -> dict[str, Any]:
    found = repetition_of(first, second)
    numbers = found.numbers
    one, other = first.trace(), second.trace()
    data = one.parting(other)
    return {
        "sameness": str(found.sameness), "why": found.why, "causes": [cause.in_words() for cause in found.causes],
        "first": None if numbers.parts is None else {**plain(numbers.parts), "words": in_words(numbers.parts)},
        "first_loss": None if numbers.loss_parts is None else {**plain(numbers.loss_parts),
                                                               "words": in_words(numbers.loss_parts)},
        "compared": numbers.compared, "differing": numbers.differing,
        "data": plain(parting_to_json(data)) if data.same_steps or data.step is not None else None,
    }
