"""What a step fails by, and which samples alone make it fail where it can be made again in the same process."""

from __future__ import annotations

import math

from barograph.capsule.failing import Failing, failing_by, guilty_here
from barograph.capsule.order import Grade, GradientSeen, OwnResult, ReplayResult
from barograph.model.capsule import CapsuleHead, Held

OWN = Failing(Held.OWN)


def held(why: Held, bound: float) -> CapsuleHead:
    return CapsuleHead(0, "p0", 3, 3, "", why, "", 1.5e9, numbers={"bound": bound})


def made(norm: float, *losses: float) -> ReplayResult:
    return ReplayResult(Grade.BITWISE, "", losses=tuple((loss, loss) for loss in losses),
                        gradients=(GradientSeen("w", True, norm, norm),), batches=(8,) * len(losses))


def test_a_step_beyond_a_bound_fails_by_that_bound() -> None:
    by_norm = failing_by(held(Held.NORM, 5.0), made(9.0, 1.0))
    assert [by_norm(made(norm, 1.0)) for norm in (5.0, 5.1, math.nan)] == [False, True, True]
    by_loss = failing_by(held(Held.LOSS, 5.0), made(1.0, 3.0, 4.0))
    assert [by_loss(made(1.0, loss, 2.0)) for loss in (3.0, 3.1)] == [False, True]


def test_of_clipped_gradients_a_norm_shows_nothing() -> None:
    assert failing_by(held(Held.NORM, 5.0), made(0.5, 1.0)) == Failing(Held.NOT_FINITE)


def asked(rows: tuple[int, ...]) -> ReplayResult:
    return ReplayResult(Grade.BITWISE, "", own=OwnResult(holds=5 in rows))


def test_the_sample_that_a_function_holds_alone_is_found_in_batches_as_large_as_the_whole() -> None:
    sizes = set()

    def make(rows: tuple[int, ...]) -> ReplayResult:
        sizes.add(len(rows))
        return asked(rows)

    found = guilty_here(8, make, OWN, ())
    assert (found.rows, found.without_them, sizes) == ((5,), True, {8})


def test_a_function_that_fails_on_every_part_of_a_batch_names_nobody_and_says_why() -> None:
    found = guilty_here(8, lambda rows: ReplayResult(Grade.BITWISE, "", own=OwnResult(failure="It fails.")), OWN, ())
    assert (found.rows, found.failure) == ((), "It fails.")


def test_one_that_fails_on_some_parts_is_asked_about_the_others() -> None:
    def make(rows: tuple[int, ...]) -> ReplayResult:
        return asked(rows) if 5 in rows else ReplayResult(Grade.BITWISE, "", own=OwnResult(failure="It fails."))

    assert guilty_here(8, make, OWN, ()).rows == (5,)
