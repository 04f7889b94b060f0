"""The state of a watcher is data of a run: whatever it says, readers raise our own errors."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from barograph.errors import BarographError
from barograph.judging.state import read_state, write_state
from barograph.queries.recall import judged_and_jumps, recalled
from barograph.rules.base import Rule
from barograph.watch.loop import Watcher

Training = Any  # of conftest.py

HOSTILE = (None, -1, "nan", [], [[]], {"a": []})


def places(body: Any) -> list[tuple[Any, ...]]:
    inner = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    return [place for key, value in inner for place in ((key,), *((key, *rest) for rest in places(value)))]


def with_value(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = inner = copy.deepcopy(body)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def test_a_state_that_says_anything_raises_no_foreign_error(training: Training, high: type[Rule]) -> None:
    store, clock = training.store, training.clock
    training.steps(0.5, 2.0)
    training.end()
    watcher = Watcher(store, [high()], clock=clock)
    watcher.poll()
    watcher.close()
    sound, foreign = read_state(store), []
    for place, value in itertools.product(places(sound), HOSTILE):
        write_state(store, with_value(sound, place, value))
        for read in (judged_and_jumps, recalled, lambda store: Watcher(store, [high()], clock=clock)):
            try:
                read(store)
            except BarographError:
                pass
            except Exception as error:  # noqa: BLE001 - any is a failure of this test
                foreign.append(f"{place} {value!r}: {error!r}")
    assert foreign == []
