from __future__ import annotations

import math
from pathlib import Path

import pytest

from barograph.errors import SettingsError, UnknownName
from barograph.jobs.job import Job
from barograph.jobs.spec import JobSpec, spec_from_file, spec_from_json, spec_from_options


def test_a_job_comes_back_from_its_json() -> None:
    spec = spec_from_options({"command": ["train.py", "--lr", "0.1"], "data": {"train": "./data:sharded"}, "cpus": 2,
                              "instances": 3, "memory": "4GiB", "spot": True, "max_wait": "6h", "price": 2.5})
    back = spec_from_json(spec.to_json())
    assert back.to_json() == spec.to_json()
    assert (back.max_wait_secs, back.max_runtime_secs, back.memory_bytes) == (21600.0, math.inf, 4 * 2**30)
    assert math.isnan(back.spot_price)


def test_a_command_in_python_is_a_list_too() -> None:
    with pytest.raises(SettingsError, match=r"command is 'train\.py'; it must be a list of strings"):
        Job("train.py")


@pytest.mark.parametrize(("options", "message"), [
    ({}, "A job needs something to run: a script, or --algorithm NAME."),
    ({"command": ["a.py"], "algorithm": "xgboost"},
     "A job has two things to run: a command and an algorithm. Remove one."),
    ({"command": "train.py 3"}, "command is 'train.py 3'; it must be a list of strings, such as ['train.py', '3']."),
    ({"command": ["a"], "instances": 0}, "instances is 0; it must be an integer, at least 1."),
    ({"command": ["a"], "cpus": -1}, "cpus is -1; it must be a number above 0."),
    ({"command": ["a"], "spot": "yes"}, "spot is 'yes'; it must be true or false."),
    ({"command": ["a"], "name": "../up"},
     '"../up" cannot be the name of a job. Use at most 63 letters, digits, ".", "_" and "-".'),
])
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        spec_from_options(options)
    assert str(caught.value) == message


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r'"instance" is not an option of a job. Did you mean "instances"\?'):
        spec_from_options({"command": ["a"], "instance": 2})


@pytest.mark.parametrize(("options", "message"), [
    ({"max_wait": "6"}, 'max-wait is "6", without a unit'),
    ({"no_network": "yes"}, "no-network is 'yes'; it must be true or false."),
    ({"max_restarts": -1}, "max-restarts is -1; it must be an integer, at least 0."),
    ({"spot_price": 0}, "spot-price is 0; it must be a number above 0."),
    ({"budget": "5%"}, '"budget" is a setting of the recording. Write it below [settings].'),
    ({"checkpoint_evry": "auto"}, '"checkpoint-evry" is not an option of a job. Did you mean "checkpoint-every"?'),
])
def test_options_are_named_as_they_are_typed(options: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        spec_from_options({"command": ["a"], **options})
    assert str(caught.value).startswith(message)


def test_a_job_file_has_the_options_by_their_names_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('command = ["train.py"]\ncheckpoint-every = "10min"\nenv = ["TOKEN"]\nno-network = true\n'
                    '[data]\ntrain = {source = "s3://bucket/digits", mode = "pipe", sharded = true, shuffle = 7}\n')
    spec = spec_from_file(file)
    assert (spec.checkpoint, spec.environment, spec.no_network) == ("10min", ("TOKEN",), True)
    assert spec.data == {"train": "s3://bucket/digits:pipe:sharded:shuffle=7"}


def test_a_job_file_has_the_options(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('command = ["train.py"]\ninstances = 2\nmax-wait = "1h"\n[hyperparameters]\nlr = 0.1\n'
                    '[data]\ntrain = "s3://bucket/digits"\n')
    spec = spec_from_file(file)
    assert spec.words == ("train.py", "--lr", "0.1")
    assert (spec.instances, spec.max_wait_secs, spec.data) == (2, 3600.0, {"train": "s3://bucket/digits"})
    assert Job.from_file(file).spec == spec


def test_a_channel_may_be_a_table(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text('command = ["train.py"]\ndata.val = "./val"\n'
                    '[data.train]\nsource = "s3://bucket/digits"\nmode = "pipe"\nsharded = true\nshuffle = 7\n')
    data = {"val": "./val", "train": "s3://bucket/digits:pipe:sharded:shuffle=7"}
    assert spec_from_file(file).data == data
    table = {"source": "s3://bucket/digits", "mode": "pipe", "sharded": True, "shuffle": 7}
    assert spec_from_options({"command": ["train.py"], "data": {"val": "./val", "train": table}}).data == data


@pytest.mark.parametrize(("channel", "message"), [
    (7, "Channel train is 7; it must be a string or a table with a source."),
    ({"source": "x", "mod": "pipe"}, '"mod" is not a setting of channel train. Did you mean "mode"?'),
    ({"mode": "pipe"}, 'Channel train has no source. Add source = "PATH or URL".'),
    ({"source": "s3://bucket/digits:lazy"},
     "The source of channel train ends like a suffix. Rename it (s3://bucket/digits:lazy)."),
])
def test_a_wrong_channel_is_named(channel: object, message: str) -> None:
    with pytest.raises((SettingsError, UnknownName)) as caught:
        spec_from_options({"command": ["a"], "data": {"train": channel}})
    assert str(caught.value) == message


def test_a_job_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not valid TOML"):
        spec_from_file(file)
    with pytest.raises(SettingsError, match=r"Cannot read the job file .*: No such file or directory"):
        spec_from_file(tmp_path / "none.toml")


def test_other_hyperparameters_replace_those_of_the_command() -> None:
    spec = JobSpec(("train.py", "--lr=0.1", "--epochs", "3"), hyperparameters={"seed": "1"})
    changed = spec.changed({"lr": "0.2", "epochs": "5", "seed": "2", "width": "64"})
    assert changed.words == ("train.py", "--lr=0.2", "--epochs", "5", "--width", "64", "--seed", "2")


def test_the_title_is_the_script() -> None:
    assert JobSpec(("torchrun", "src/train.py")).title == "train"
    assert JobSpec(algorithm="xgboost").title == "xgboost"
    assert JobSpec(("bash", "fit.sh")).title == "fit"


def test_the_algorithm_is_shown_before_its_hyperparameters() -> None:
    assert JobSpec(algorithm="xgboost", hyperparameters={"eta": "0.2"}).shown == ("xgboost", "--eta", "0.2")
    assert JobSpec(("train.py",), hyperparameters={"lr": "1"}).shown == ("train.py", "--lr", "1")


def test_a_target_needs_an_algorithm() -> None:
    with pytest.raises(SettingsError, match="A target is for built-in algorithms only"):
        spec_from_options({"command": ["train.py"], "target": "price"})
