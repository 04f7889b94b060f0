"""Whatever is typed as a search: it finds, or says what is wrong with it, and changes nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from barograph.errors import SearchError
from barograph.experiments.catalog import Catalog
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
