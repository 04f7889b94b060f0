"""Being out of memory is only said with evidence."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.queries.memory_at_end import out_of_memory

GIB = 2.0**30


@pytest.mark.parametrize(("used", "kills", "said"), [
    ([2.0, 23.4], 0, "possibly out of memory: 23.4 of 24 GiB at the end"),
    ([23.4, 23.4], 1, "possibly out of memory: 23.4 of 24 GiB at the end"),
    ([23.4, 2.0], 0, ""),
    ([2.0, 2.0], 1, "possibly out of memory: the system killed a process of this container for lack of memory"),
])
def test_the_last_sample_and_the_counter_of_the_container_are_evidence(
    diary: Any, used: list[float], kills: int, said: str
) -> None:
    for step, memory in enumerate(used):
        diary.step(step, scalars={"machine:memory": memory * GIB, "machine:memory_total": 24 * GIB})

    assert out_of_memory(diary.ended(), kills=kills) == said


def test_without_samples_there_is_no_evidence(diary: Any) -> None:
    diary.step(0, scalars={"loss:total": 1.0})

    assert out_of_memory(diary.ended()) == ""
