"""Splitting a channel among instances."""

from __future__ import annotations

import pytest

from barograph.jobs.data.channel import Channel, Mode
from barograph.jobs.data.listing import DataListing, DataObject
from barograph.jobs.data.sharding import objects_for, problems_of, share_of


def listing(count: int, size_bytes: int = 1) -> DataListing:
    return DataListing("/data", tuple(DataObject(f"{at:03}", size_bytes, 0.0) for at in range(count)))


@pytest.mark.parametrize("seed", [None, 0, 7])
@pytest.mark.parametrize(("objects", "count"), [(0, 1), (1, 1), (10, 3), (2, 4), (100, 7)])
def test_every_object_is_in_exactly_one_share(objects: int, count: int, seed: int | None) -> None:
    for epoch in range(count + 1):
        shares = [share_of(listing(objects), index=index, count=count, epoch=epoch, shuffle_seed=seed)
                  for index in range(count)]
        assert sorted(item for share in shares for item in share) == list(listing(objects).objects)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_shares_move_between_instances() -> None:
    shares = [set(share_of(listing(9), index=0, count=3, epoch=epoch)) for epoch in range(3)]
    assert set().union(*shares) == set(listing(9).objects)
    assert shares[0].isdisjoint(shares[1])


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    def order(seed: int | None, epoch: int = 0) -> tuple[str, ...]:
        return tuple(item.name for item in share_of(listing(20), index=0, count=1, epoch=epoch, shuffle_seed=seed))

    assert order(None) == order(None, epoch=1) == tuple(sorted(order(None)))
    assert order(1) == order(1)
    assert len({order(None), order(1), order(1, epoch=1), order(2)}) == 4
    # A change would resume jobs with other data.
    assert order(1)[:4] == FIRST_WITH_SEED_1


FIRST_WITH_SEED_1 = ("018", "019", "001", "013")


def test_without_sharding_every_instance_gets_everything() -> None:
    channel = Channel("train", "/data", Mode.PIPE, shuffle_seed=3)
    first, second = (objects_for(channel, listing(5), index=index, count=2, epoch=1) for index in (0, 1))
    assert first == second
    assert len(first) == 5


@pytest.mark.parametrize(("channel", "objects", "size_bytes", "expected"), [
    (Channel("train", "/data"), 1, 1, []),
    (Channel("train", "/data", sharded=True), 4, 1, []),
    (Channel("train", "/data"), 0, 1, ["Channel train has no files (/data)."]),
    (Channel("train", "/data", sharded=True), 3, 1, [
        "Channel train has 3 objects for 4 instances, so 1 would get no data. Use 3 instances, or remove :sharded "
        "(/data)."]),
    (Channel("train", "/data"), 2, 0, []),
    (Channel("train", "/data", Mode.PIPE), 2, 0, [
        "Every object of channel train is empty, so its pipes have no data (/data)."]),
])
def test_problems_are_named(channel: Channel, objects: int, size_bytes: int, expected: list[str]) -> None:
    assert problems_of(channel, listing(objects, size_bytes), 4) == expected
