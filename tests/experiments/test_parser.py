"""A search says what is sought; where it does not, the message points at the place."""

import pytest

from barograph.errors import SearchError
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.syntax import And, Call, Comparison, Field, Not, Operator, Or


def test_and_binds_more_than_or_and_not_more_than_and() -> None:
    condition = search_from_text("a = 1 or not b = 2 and c = 3").condition
    assert isinstance(condition, Or)
    assert isinstance(condition.conditions[1], And)
    assert isinstance(condition.conditions[1].conditions[0], Not)


def test_parentheses_bind_most() -> None:
    condition = search_from_text("(a = 1 or b = 2) and c = 3").condition
    assert isinstance(condition, And)
    assert isinstance(condition.conditions[0], Or)


def test_an_order_a_limit_and_an_offset_follow() -> None:
    found = search_from_text("a = 1 order by metrics.acc.last desc, name limit 5 offset 2")
    assert [(order.field.path, order.descending) for order in found.orders] == [
        (("metrics", "acc", "last"), True), (("name",), False)]
    assert (found.limit, found.offset) == (5, 2)


def test_an_empty_search_is_everything() -> None:
    assert search_from_text("  ").condition is None
    assert search_from_text("limit 3").limit == 3


@pytest.mark.parametrize(("text", "operator", "values"), [
    ("x == 1", Operator.EQUAL, (1,)),
    ("x <> 1.5e-3", Operator.UNEQUAL, (1.5e-3,)),
    ("x >= -inf", Operator.GREATER_EQUAL, (float("-inf"),)),
    ("x in (1, 'two', true, null)", Operator.IN, (1, "two", True, None)),
    ("x contains 'it''s'", Operator.CONTAINS, ("it's",)),
    (r'x like "a\"b"', Operator.LIKE, ('a"b',)),
    ("x ~ '^a.*b$'", Operator.MATCHES, ("^a.*b$",)),
    ("x exists", Operator.EXISTS, ()),
    ("x is not null", Operator.EXISTS, ()),
    ("x", Operator.EQUAL, (True,)),
])
def test_each_operator_is_read(text: str, operator: Operator, values: tuple[object, ...]) -> None:
    found = search_from_text(text).condition
    assert isinstance(found, Comparison)
    assert (found.operator, found.values) == (operator, values)


def test_names_that_are_no_words_stand_in_quotation_marks() -> None:
    found = search_from_text("metrics.\"val/acc\".max > 0 and tags['a b'] = ''").condition
    assert isinstance(found, And)
    assert [item.field for item in found.conditions if isinstance(item, Comparison)] == [
        Field(("metrics", "val/acc", "max"), 0), Field(("tags", "a b"), 30)]


def test_a_rule_is_asked_for_as_a_function() -> None:
    assert search_from_text("finding('G101', 'overfit')").condition == Call("finding", ("G101", "overfit"), 0)


@pytest.mark.parametrize(("text", "place", "said"), [
    ("params.lr < < 1", 12, "a value"),
    ("name = foo", 7, "write a string as 'foo'"),
    ("(a = 1", 6, '")"'),
    ("a in 1", 5, '"("'),
    ("a = 'x", 4, "unterminated string"),
    ("a = 1 limit -1", 12, "an integer"),
    ("a not 3", 6, '"in"'),
    ("a = 1 b = 2", 6, '"and"'),
    ("x = 1; drop table items", 5, "unexpected ';'"),
    ("order name", 6, '"by"'),
    ("and = 3", 0, "a field"),
    ("a.", 2, "the rest of the name"),
    ("a\n  = = 1", 6, "a value"),
])
def test_an_error_points_at_the_place(text: str, place: int, said: str) -> None:
    with pytest.raises(SearchError) as raised:
        search_from_text(text)
    message, *_, pointer = str(raised.value).split("\n")
    assert said in message
    assert len(pointer) - 3 == place - (text.rfind("\n", 0, place) + 1)


def test_a_search_that_is_too_long_or_too_deep_is_refused() -> None:
    with pytest.raises(SearchError, match="characters"):
        search_from_text("a" * 200_000)
    with pytest.raises(SearchError, match="deep"):
        search_from_text("(" * 5_000 + "a = 1" + ")" * 5_000)
