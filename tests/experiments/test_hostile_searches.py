"""Whatever is typed as a search: it finds, or says what is wrong with it, and changes nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from barograph.errors import SearchError
from barograph.experiments.catalog import Catalog
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.search.patterns import why_slow
from experiments_entries import component

_INJECTED = ("'; DROP TABLE items; --", "\" OR 1=1 --", "') OR ('1'='1", "a%' ESCAPE '", "\\'", "%%", "_", ":x",
             "%(x)s", "\0", "\ud800", "x" * 3000, "1e999", "9" * 400, "²", "٣")
_PIECES = ("params.lr", "params.\"o'pt\"", "metrics.loss.min", "tags.t", "name", "steps", "created", "inputs.a.size",
           "starred", "notes", "trial", "experiment", "and", "or", "not", "(", ")", "in", "=", "!=", "<", ">=", "~",
           "like", "contains", "exists", "is null", ",", "order by", "desc", "limit", "offset", "finding(", "null",
           "derived_from(", "true", "-1", "0.5", "'text'", "'3 days ago'", "nan", "[", "]", ".")
_TYPED = some.lists(some.sampled_from(_PIECES) | some.sampled_from(_INJECTED) | some.text(max_size=6)
                    | some.sampled_from(_INJECTED).map(lambda text: f"'{text}'"), max_size=9).map(" ".join)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(typed=_TYPED)
def test_any_text_finds_or_is_refused_as_a_search(file_catalog: Catalog, typed: str) -> None:
    _ask(file_catalog, typed)


def _ask(catalog: Catalog, typed: str) -> None:
    try:
        catalog.find(typed)
    except SearchError:
        return


@pytest.mark.parametrize("search", [
    "params.opt = '{}'", "params.\"{}\" = 1", "name contains '{}'", "name like '{}'", "finding('{}')",
    "derived_from('{}')", "notes = '{}'", "steps > {}", "limit {}", "name in ('{}')", "created > '{}'"])
def test_a_text_that_looks_like_sql_is_a_text(catalog: Catalog, search: str) -> None:
    catalog.tell(component("a"))
    for text in _INJECTED:
        _ask(catalog, search.format(text.replace("'", "''")))
    assert catalog.item("a").name == "a"


def test_a_parameter_is_found_by_any_text_that_it_holds(catalog: Catalog) -> None:
    texts = [*_INJECTED[:8], "\0", "\ud800", "x" * 10_000]
    for number, text in enumerate(texts):
        catalog.tell(component(f"it is {number}", parameters={"opt": text}))
        catalog.tell(component(f"other {number}", parameters={"opt": f"{text}."}))
    found = [[item.name for item in catalog.find("params.opt = '" + text.replace("'", "''") + "'")] for text in texts]
    # The null character and half a character are kept as others that every database takes.
    assert found == [[f"it is {number}"] for number in range(len(texts))]


@pytest.mark.parametrize("pattern", [
    "^(a+)+$", "(a*)*b", "((ab|a)*)c", "(a|aa)*b", "(.+)+x", "([a-z]+[0-9]*)+$", r"(a+)\1", "(?:a{1,9}){2,}b",
    "(x?a+){9}", ".*a.*b.*c.*d", "(?i:(a+)*)", "(?=(a+)+b)c",
])
def test_a_regular_expression_that_could_take_very_long_is_refused(pattern: str) -> None:
    assert why_slow(pattern) != ""


@pytest.mark.parametrize("pattern", [
    "run-[0-9]+$", "^(lr|rate)_.*", "a.*b.*c", "(v[0-9])?x", "([a-z]{3})+", "(?i)resnet(18|50)", "", "[aeiou]{2,}",
])
def test_usual_ones_are_not(pattern: str) -> None:
    assert why_slow(pattern) == ""


def test_a_search_says_why_it_does_not_try_one(catalog: Catalog) -> None:
    with pytest.raises(SearchError, match="could be very slow: it has nested repetitions"):
        catalog.find("name ~ '^(a+)+$'")


def test_the_longest_search_that_is_taken_reaches_the_database(catalog: Catalog) -> None:
    catalog.tell(component("a"))
    assert catalog.find(" and ".join(["name = 'b'"] * 450)) == []
    assert catalog.find(f"params.x in ({', '.join(['1'] * 890)})") == []


@pytest.mark.parametrize("text", [
    " and ".join(["starred"] * 5000), " or ".join(["name = 'x'"] * 5000), f"name in ({', '.join(['1'] * 5000)})",
])
def test_a_search_of_thousands_of_comparisons_says_so(text: str) -> None:
    with pytest.raises(SearchError, match="more than 900 comparisons and values"):
        search_from_text(text)
