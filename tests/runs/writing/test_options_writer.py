"""Options and the last error of a script are written without secrets."""

from __future__ import annotations

from barograph.model.origin import Untrained
from barograph.runs.state.origins import read_untrained
from barograph.runs.writing.options_writer import OptionsWriter
from barograph.store.urls import store_from_url


def test_an_error_that_is_cut_shows_no_part_of_a_secret() -> None:
    store, secret = store_from_url("memory://options"), "hunter2-" + "x" * 40
    writer = OptionsWriter(store, 0, {"API_TOKEN": secret})
    writer.put({})
    writer.write("p0", Untrained((), False, f"ValueError: {'e' * 270} {secret}"))

    untrained = read_untrained(store, 0)
    assert untrained is not None
    assert untrained.error.startswith("ValueError: ee")
    assert len(untrained.error) <= 300
    assert "hunter" not in untrained.error
