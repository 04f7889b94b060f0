from __future__ import annotations

import json
from pathlib import Path

from barograph.jobs.layout import (
    InstanceLayout,
    Place,
    failure_of,
    filled,
    hyperparameters_of,
    unknown_channels,
    variables,
    write_config,
)
from barograph.jobs.spec import JobSpec

SPEC = JobSpec(("train.py", "--lr", "0.1", "--amp"), hyperparameters={"seed": "3"},
               data={"train": "./digits:sharded", "my-val": "s3://bucket/val:pipe"}, instances=2)
PLACE = Place(1, ("10.0.0.1", "10.0.0.2"), 29500)


def test_the_files_are_those_of_sagemaker(tmp_path: Path) -> None:
    layout = InstanceLayout(tmp_path)
    layout.make()
    write_config(layout, SPEC, PLACE)

    def read(name: str) -> object:
        return json.loads((tmp_path / "input" / "config" / f"{name}.json").read_text())

    assert read("hyperparameters") == {"lr": "0.1", "amp": "true", "seed": "3"}
    assert read("inputdataconfig") == {
        "train": {"TrainingInputMode": "File", "S3DistributionType": "ShardedByS3Key", "RecordWrapperType": "None"},
        "my-val": {"TrainingInputMode": "Pipe", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}}
    resources = read("resourceconfig")
    assert isinstance(resources, dict)
    assert (resources["current_host"], resources["hosts"]) == ("algo-2", ["algo-1", "algo-2"])


def test_the_variables_are_those_of_sagemaker(tmp_path: Path) -> None:
    found = variables(InstanceLayout(tmp_path), SPEC, PLACE, job="digits", gpus=0)
    assert found["SM_CHANNEL_TRAIN"] == f"{tmp_path}/input/data/train"
    assert found["SM_CHANNEL_MY_VAL"] == f"{tmp_path}/input/data/my-val"
    assert json.loads(found["SM_CHANNELS"]) == ["my-val", "train"]
    assert (found["SM_HP_LR"], found["SM_HP_SEED"]) == ("0.1", "3")
    assert (found["SM_CURRENT_HOST"], found["SM_CURRENT_HOST_RANK"], found["SM_HOST_COUNT"]) == ("algo-2", "1", "2")
    assert (found["SM_MASTER_ADDR"], found["SM_MASTER_PORT"]) == ("10.0.0.1", "29500")
    assert found["SM_MODEL_DIR"] == f"{tmp_path}/model"
    assert found["TRAINING_JOB_NAME"] == found["SAGEMAKER_JOB_NAME"] == "digits"
    assert found["SAGEMAKER_BASE_DIR"] == str(tmp_path)


def test_hyperparameters_are_numbers_and_lists_where_their_text_is(tmp_path: Path) -> None:
    spec = JobSpec(("train.py", "--sizes", "8", "16", "--amp"), hyperparameters={"lr": "1e-2", "opt": "adam"})
    found = variables(InstanceLayout(tmp_path), spec, PLACE, job="digits", gpus=0)
    assert json.loads(found["SM_HPS"]) == {"sizes": [8, 16], "amp": True, "lr": 0.01, "opt": "adam"}
    assert (found["SM_HP_SIZES"], found["SM_HP_LR"], found["SM_HP_OPT"]) == ("[8,16]", "0.01", "adam")


def test_names_with_a_dash_are_there_as_they_are_and_as_shells_read_them(tmp_path: Path) -> None:
    spec = JobSpec(("train.py", "--batch-size", "8"), data={"my-val": "./val"})
    found = variables(InstanceLayout(tmp_path), spec, PLACE, job="digits", gpus=0)
    assert found["SM_HP_BATCH-SIZE"] == found["SM_HP_BATCH_SIZE"] == "8"
    assert found["SM_CHANNEL_MY-VAL"] == found["SM_CHANNEL_MY_VAL"] == f"{tmp_path}/input/data/my-val"


def test_channels_in_arguments_become_directories(tmp_path: Path) -> None:
    words = ["--in={data.train}/a", "{data.my-val}", "{data.other}"]
    assert filled(words, InstanceLayout(tmp_path), ["train", "my-val"]) == (
        f"--in={tmp_path}/input/data/train/a", f"{tmp_path}/input/data/my-val", "{data.other}")
    assert unknown_channels(words, ["train", "my-val"]) == ["other"]


def test_the_first_1024_characters_of_the_failure_file_are_the_reason(tmp_path: Path) -> None:
    layout = InstanceLayout(tmp_path)
    assert failure_of(layout) == ""
    layout.make()
    (layout.output / "failure").write_text("x" * 5000)
    assert failure_of(layout) == "x" * 1024


def test_a_job_without_a_command_has_its_hyperparameters() -> None:
    assert hyperparameters_of(JobSpec(algorithm="xgboost", hyperparameters={"eta": "0.3"})) == {"eta": "0.3"}
