"""Times and sizes with units."""

from __future__ import annotations

import pytest

from barograph.errors import SettingsError, UnknownName
from barograph.model.settings import settings_from_mapping
from barograph.model.units import bytes_from, seconds_from


@pytest.mark.parametrize(("written", "secs"), [
    ("30s", 30.0), ("10m", 600.0), ("1.5 h", 5400.0), ("2 days", 172800.0), ("500ms", 0.5), (3, 3.0), (0.25, 0.25),
    ("1e2s", 100.0),
])
def test_times_are_read_in_seconds(written: object, secs: float) -> None:
    assert seconds_from("pause", written) == pytest.approx(secs)


@pytest.mark.parametrize(("written", "size"), [
    ("2GB", 2 * 10**9), ("512MiB", 512 * 2**20), ("1.5 KiB", 1536), (7, 7), ("10 B", 10), (2**60 + 1, 2**60 + 1),
])
def test_sizes_are_read_in_bytes(written: object, size: int) -> None:
    assert bytes_from("max_bytes", written) == size


@pytest.mark.parametrize(("written", "message"), [
    ("5 minuts", 'pause is "5 minuts": "minuts" is not a unit for it. Did you mean "minutes"'),
    ("5 w", "There are: ms, s, m, h, d."),
    ("5", "without a unit"), ("soon", "must be a time"), (True, "must be a time"), ("-3s", "at least 0"),
    (float("inf"), "finite"), (float("nan"), "finite"), (None, "must be a time"),
])
def test_what_is_no_time_is_refused(written: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        seconds_from("pause", written)


@pytest.mark.parametrize(("written", "message"), [
    ("2GX", "There are: B, KB"), ("2Gib", 'Did you mean "GiB"'), ("0.3 B", "an integer number"),
    (1.5, "must be a size"),
])
def test_what_is_no_size_is_refused(written: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        bytes_from("max_bytes", written)


def test_settings_take_units() -> None:
    settings = settings_from_mapping({"flush_secs": "250ms", "max_bytes": "2GB", "notify_timeout_secs": "1m"})

    assert (settings.flush_secs, settings.max_bytes, settings.notify_timeout_secs) == (0.25, 2 * 10**9, 60.0)


def test_a_setting_with_an_unknown_unit_names_itself() -> None:
    with pytest.raises(UnknownName, match='queue_bytes is "1 gigabyte"'):
        settings_from_mapping({"queue_bytes": "1 gigabyte"})
