"""Labels, confusion and accuracy."""

from __future__ import annotations

from typing import Any

from barograph.model.step import Mode
from barograph.queries.classes import MOST_CLASSES, MOST_FRAMES, classes_in


def test_an_evaluation_is_told_as_matrix_labels_and_accuracy(diary: Any) -> None:
    diary.step(10, {"confusion:ce[0,0]": 3, "confusion:ce[0,1]": 1, "confusion:ce[1,1]": 4, "label:ce[0]": 4,
                    "label:ce[1]": 4}, mode=Mode.EVAL)
    diary.step(20, {"confusion:ce[0,0]": 4, "confusion:ce[1,1]": 4, "label:ce[0]": 4, "label:ce[1]": 4}, mode=Mode.EVAL)

    (found,) = classes_in(diary.ended())

    assert (found.name, found.mode, found.classes, found.labels) == ("ce", "eval", (0, 1), (8.0, 8.0))
    assert [(frame.first_step, frame.last_step, frame.counts) for frame in found.frames] == [
        (10, 10, ((3.0, 1.0), (0.0, 4.0))), (20, 20, ((4.0, 0.0), (0.0, 4.0))),
    ]
    assert found.confused == ((0, 1, 1.0, 0.125),)
    assert found.accuracy is not None
    assert found.accuracy.values == (0.875, 1.0)
    assert found.accuracy_by_class[0].values == (0.75, 1.0)
    assert found.accuracy_by_class[1].values == (1.0, 1.0)


def test_a_later_evaluation_without_predictions_is_known(diary: Any) -> None:
    diary.step(10, {"loss:total": 2.0, "confusion:ce[0,0]": 3}, mode=Mode.EVAL)
    diary.step(20, {"loss:total": 1.0}, mode=Mode.EVAL)
    diary.step(30, {"loss:total": 1.0, "confusion:ce[0,0]": 3})

    found = classes_in(diary.ended())

    assert [(item.mode, item.last_evaluation) for item in found] == [("eval", 20), ("train", -1)]


def test_batches_of_training_are_taken_together(diary: Any) -> None:
    for number in range(600):
        diary.step(number, {"confusion:ce[0,0]": 1 if number >= 300 else 0, "confusion:ce[0,1]": number < 300})

    (found,) = classes_in(diary.ended())

    assert len(found.frames) == MOST_FRAMES
    assert found.classes == (0, 1), "1 is only predicted"
    assert found.frames[0].counts == ((0.0, 100.0), (0.0, 0.0))
    assert found.accuracy is not None
    assert len(found.accuracy.values) == 30
    assert (found.accuracy.first, found.accuracy.last) == (0.0, 1.0)


def test_what_ranks_counted_is_added_up(new_diary: Any) -> None:
    diary = new_diary()
    ranks = [diary.begin(rank=rank, world_size=2) for rank in range(2)]
    for rank, right in zip(ranks, (5, 7), strict=True):
        diary.step(0, {"confusion:ce[2,2]": right, "label:ce[2]": right}, worker=rank, mode=Mode.EVAL)

    (found,) = classes_in(diary.ended())

    assert found.labels == (12.0,)
    assert found.frames[0].counts == ((12.0,),)


def test_of_many_classes_the_most_frequent_are_told_apart(diary: Any) -> None:
    diary.step(0, {f"label:ce[{number}]": 100 + number for number in range(60)})

    (found,) = classes_in(diary.ended())

    assert found.classes == tuple(range(60 - MOST_CLASSES, 60))
    assert found.left_out == 60 - MOST_CLASSES
    assert found.accuracy is None


def test_names_may_hold_brackets_and_commas(diary: Any) -> None:
    diary.step(0, {"label:a[1],b[3]": 2})

    (found,) = classes_in(diary.ended())

    assert (found.name, found.classes) == ("a[1],b", (3,))
