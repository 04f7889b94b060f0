"""Channels as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barograph.errors import JobError, SettingsError, UnknownName
from barograph.jobs.channel_of_script import channel
from barograph.jobs.data.channel import Channel, Mode, channel_from_json, channel_from_text


@pytest.mark.parametrize(("text", "expected"), [
    ("train=s3://bucket/digits", Channel("train", "s3://bucket/digits")),
    ("train=s3://bucket/digits:sharded", Channel("train", "s3://bucket/digits", sharded=True)),
    ("train=gs://bucket:lazy", Channel("train", "gs://bucket", Mode.LAZY)),
    ("train=s3://bucket/a:b", Channel("train", "s3://bucket/a:b")),
    ("train=s3://bucket/time=12:00:pipe", Channel("train", "s3://bucket/time=12:00", Mode.PIPE)),
    ("train=s3://b/d:pipe:shuffle", Channel("train", "s3://b/d", Mode.PIPE, shuffle_seed=0)),
    ("train=s3://b/d:shuffle=7:sharded:pipe", Channel("train", "s3://b/d", Mode.PIPE, sharded=True, shuffle_seed=7)),
    ("a_b-1=data", Channel("a_b-1", "/desk/data")),
    ("train=../data:copy", Channel("train", "/data")),
    ("train=/abs/data", Channel("train", "/abs/data")),
    ("train=file:///abs/a%20b", Channel("train", "/abs/a b")),
    ("train=a=b", Channel("train", "/desk/a=b")),
])
def test_a_channel_is_parsed(text: str, expected: Channel) -> None:
    assert channel_from_text(text, directory=Path("/desk")) == expected


def test_the_colon_of_a_drive_is_no_suffix() -> None:
    assert channel_from_text("train=C:\\data:sharded", directory=Path("/")).source.endswith("C:\\data")
    assert channel_from_text("train=C:/data:sharded", directory=Path("/")).source == "/C:/data"


def test_a_local_name_may_contain_a_colon_if_it_exists(tmp_path: Path) -> None:
    (tmp_path / "data:v2").mkdir()
    found = channel_from_text("train=data:v2:sharded", directory=tmp_path)
    assert (found.source, found.sharded) == (str(tmp_path / "data:v2"), True)


@pytest.mark.parametrize(("text", "message"), [
    ("train", "Write NAME=SOURCE"),
    ("=data", "not a name of a channel"),
    ("-train=data", "not a name of a channel"),
    ("tr.ain=data", "not a name of a channel"),
    ("../x=data", "not a name of a channel"),
    ("train=", "has no source"),
    ("train=:sharded", "has no source"),
    ("train=data:shraded", '":shraded" is not a suffix of channel train. Did you mean "sharded"?'),
    ("train=s3://b/data:shraded", 'Did you mean "sharded"?'),
    ("train=data:whole", "There are: copy, lazy, pipe, sharded, shuffle."),
    ("train=data:copy:lazy", "two modes: copy and lazy"),
    ("train=data:pipe:shuffle=1:shuffle=2", "two seeds"),
    ("train=data:pipe:shuffle=x", 'The seed of channel train is "x"'),
    ("train=data:shuffle", "it has no order"),
    ("train=https://host/data", '"https://", which is not supported'),
    ("train=s3://", "has no bucket"),
])
def test_a_wrong_channel_is_explained(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        channel_from_text(text, directory=Path("/desk"))
    assert message in str(caught.value)


@pytest.mark.parametrize(("value", "expected"), [
    ("data:sharded", Channel("train", "/desk/data", sharded=True)),
    ({"source": "data", "mode": "pipe", "shuffle": True}, Channel("train", "/desk/data", Mode.PIPE, shuffle_seed=0)),
    ({"source": "data:sharded"}, Channel("train", "/desk/data:sharded")),
    ({"source": "s3://b/d", "shuffle": False, "sharded": True}, Channel("train", "s3://b/d", sharded=True)),
])
def test_a_channel_of_a_job_file_is_parsed(value: Any, expected: Channel) -> None:
    assert channel_from_json("train", value, directory=Path("/desk")) == expected


@pytest.mark.parametrize(("value", "message"), [
    (7, "must be a string or a table"),
    ({}, "has no source"),
    ({"source": "d", "mood": "lazy"}, 'Did you mean "mode"?'),
    ({"source": "d", "mode": "lasy"}, 'Did you mean "lazy"?'),
    ({"source": "d", "sharded": "yes"}, "must be true or false"),
    ({"source": "d", "shuffle": "7"}, "must be true, false or an integer"),
    ({"source": "d", "name": "val"}, "another name"),
])
def test_a_wrong_channel_of_a_job_file_is_explained(value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        channel_from_json("train", value, directory=Path("/desk"))


@pytest.mark.parametrize("channel", [
    Channel("train", "/data"), Channel("train", "s3://b/d", Mode.PIPE, sharded=True, shuffle_seed=0),
])
def test_a_channel_comes_back_from_json(channel: Channel) -> None:
    assert channel_from_json(channel.name, channel.to_json()) == channel


def test_a_script_finds_its_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_JOB_NAME", "job")
    monkeypatch.setenv("SM_CHANNEL_TRAIN", "/job/input/data/train")
    monkeypatch.setenv("SM_CHANNEL_MY_DATA", "/job/input/data/my-data")
    assert channel("train") == Path("/job/input/data/train")
    assert channel("my-data") == Path("/job/input/data/my-data")
    with pytest.raises(UnknownName, match=r'no channel "tain"\. Did you mean "train"'):
        channel("tain")


def test_outside_a_job_the_error_says_how_to_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINING_JOB_NAME", raising=False)
    with pytest.raises(JobError, match="barograph submit --data train=PATH SCRIPT"):
        channel("train")
