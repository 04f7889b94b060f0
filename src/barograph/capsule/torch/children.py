"""Replays a step in child processes of a script, as with `torch.multiprocessing.spawn`.

A process shows which worker it is only when it joins the process group; there it gets its capsule.
"""

from __future__ import annotations

import functools
import inspect
import os

from torch import distributed

from barograph.capsule.ending import FAILURES, ReplayEnded, end, failed
from barograph.capsule.order import ReplayOrder
from barograph.capsule.torch.replay import Replayer
from barograph.capture.torch.joining import before_joining
from barograph.errors import ReplayFailed


class Children:
    """Waits in each process of the script until it trains.

    Args:
        order: The step to replay, with the paths of the workers' capsules.
    """

    def __init__(self, order: ReplayOrder) -> None:
        self._order = order

    def install(self) -> None:
        """Take over the script when it joins the process group; at once for a single process."""
        if self._order.workers:
            before_joining(self._alone if self._order.alone else self._together)
        else:
            Replayer(self._order).install()

    def _together(self, joins: functools.partial[None]) -> None:
        joins()
        _take_over(order_of(self._order, distributed.get_rank(), distributed.get_world_size()))

    def _alone(self, joins: functools.partial[None]) -> None:
        if _rank_of(joins) != self._order.workers[0][0]:
            raise ReplayEnded(0)
        _take_over(self._order)
        # The replacement makes a group of only this process.
        distributed.init_process_group(*joins.args, **joins.keywords)


def _take_over(order: ReplayOrder) -> None:
    try:
        Replayer(order).install()
    except FAILURES as error:
        end(order, failed(error))


def order_of(order: ReplayOrder, rank: int, size: int) -> ReplayOrder:
    """Return the order for one of the workers: the given one, or one for the same step next to it.

    Args:
        order: The order, with the paths of all capsules.
        rank: Rank of the worker.
        size: Number of workers.

    Raises:
        ReplayEnded: The number of workers differs from the original.
    """
    if size != len(order.workers):
        end(order, failed(ReplayFailed(f"The step ran on {len(order.workers)} workers, but the script starts "
                                       f"{size}.")))
    if rank == order.workers[0][0]:
        return order
    return ReplayOrder(dict(order.workers)[rank], "", f"{order.result}.{rank}", order.opens_pickle)


def _rank_of(joins: functools.partial[None]) -> int:
    rank = inspect.signature(joins.func).bind(*joins.args, **joins.keywords).arguments.get("rank", -1)
    return int(os.environ.get("RANK", "-1")) if rank == -1 else int(rank)
