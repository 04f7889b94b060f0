"""What an instance offers is what Amazon's own toolkit expects, and public scripts for SageMaker run unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from job_outputs import outputs
from own_environment import Unavailable
from sagemaker_toolkit import NAMES_RESOLVE, python_with_gluonts, python_with_toolkit, source_of

needs_names = pytest.mark.skipif(not NAMES_RESOLVE, reason="no mount namespace can be entered here")

SIMPLE_SAGEMAKER = "7c5a2bec0d11105f148f70d13b855b36f4574a07b283daa5db25314ecb3bb73d"
PROBE = """
import json, os, sys
with open(os.environ["SM_MODEL_DIR"] + "/" + os.environ.get("WHICH", "ours") + ".json", "w") as file:
    json.dump({"arguments": sys.argv[1:], "variables": dict(os.environ)}, file)
"""
BOTH = """
import os, pathlib, subprocess, sys
subprocess.run([sys.executable, "probe.py", *sys.argv[1:]], check=True)
base = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"])
pathlib.Path(os.environ["SM_OUTPUT_INTERMEDIATE_DIR"], "step.txt").write_text(os.environ["SM_CURRENT_HOST"])
# As Amazon starts it in a container: what is about the job is in the files only.
left = {name: value for name, value in os.environ.items() if not name.startswith("SM_")}
done = subprocess.run([sys.argv[sys.argv.index("--python") + 1], "-m", "sagemaker_training.cli.train"], env={
    **left, "SAGEMAKER_PROGRAM": "probe.py", "AWS_REGION": "us-east-1", "WHICH": "theirs", "SM_MODEL_DIR": ""})
print("success", (base / "output" / "success").exists(), done.returncode)
sys.exit(done.returncode)
"""
_DIFFERENT = {
    "SM_NUM_CPUS",  # they count those of the machine, we those of the instance
    "SM_USER_ENTRY_POINT", "SM_MODULE_NAME",  # the toolkit was given another script
    "SM_TRAINING_ENV", "SM_USER_ARGS",  # compared apart
}


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    return desk


def available(get: Any) -> Any:
    try:
        return get()
    except Unavailable as error:
        pytest.skip(str(error))


@needs_names
def test_amazons_toolkit_accepts_an_instance_and_sets_the_same_variables(jobs: Any) -> None:
    python = available(python_with_toolkit)
    jobs.write("probe.py", PROBE)
    jobs.write("both.py", BOTH)
    jobs.write("digits/a.csv", "1,2\n")
    jobs.write("digits/b.csv", "3,4\n")
    done = jobs.end(jobs.start(
        "barograph", "submit", "--name", "j1", "--instances", "2", "--data", "train=./digits:sharded", "--data",
        "my-val=./digits", "--wait", "both.py", "--lr", "0.10", "--batch-size", "32", "--layers", "[8, 16]", "--opt",
        "adam", "--python", python))
    assert done.code == 0, done.err
    assert "success True 0" in done.text
    found = outputs(jobs, "j1")
    for place in ("", "algo-2/"):
        ours, theirs = (json.loads(found[f"{place}model/{which}.json"]) for which in ("ours", "theirs"))
        variables = {name: value for name, value in theirs["variables"].items() if name.startswith("SM_")}
        assert {name: ours["variables"].get(name) for name in variables.keys() - _DIFFERENT} == {
            name: value for name, value in variables.items() if name not in _DIFFERENT}
        host = place.strip("/") or "algo-1"
        assert (variables["SM_CURRENT_HOST"], found[f"{place}output/intermediate/step.txt"].decode()) == (host, host)
        assert json.loads(variables["SM_HPS"])["lr"] == 0.1
        about = [json.loads(item["variables"]["SM_TRAINING_ENV"]) for item in (ours, theirs)]
        different = {"num_cpus", "user_entry_point", "module_name", "is_smddprun_installed", "is_smddpmprun_installed"}
        assert {name: about[0].get(name) for name in about[1].keys() - different} == {
            name: value for name, value in about[1].items() if name not in different}
        pairs = [sorted(zip(words[::2], words[1::2], strict=True)) for words in (
            ours["arguments"], json.loads(ours["variables"]["SM_USER_ARGS"]))]
        assert pairs[0] == pairs[1]
        assert [name for name, _ in pairs[0]] == theirs["arguments"][::2]


def simple_sagemaker(desk: Any, script: str) -> str:
    """Put a script of Simple SageMaker into the folder, with the module that it brings to each instance."""
    source = available(lambda: source_of("simple-sagemaker", "0.9.24", SIMPLE_SAGEMAKER))
    shutil.copy(source / "examples" / script, desk.folder)
    shutil.copytree(source / "src/simple_sagemaker/worker_toolkit", desk.folder / "worker_toolkit")
    desk.environment["SSM_STATE"] = "state"  # within the directory of each instance
    return Path(script).name


def test_a_public_script_that_handles_its_shard_runs_unchanged_on_two_instances(jobs: Any) -> None:
    script = simple_sagemaker(jobs, "cli_multi/worker.py")
    for name in ("a", "b"):
        jobs.write(f"data/{name}.txt", name)
    done = jobs.end(jobs.start("barograph", "submit", "--name", "shards", "--instances", "2", "--data",
                               "data=./data:sharded", "--env", "SSM_STATE", "--wait", script, "--task_type", "1"))
    assert done.code == 0, done.err
    assert outputs(jobs, "shards") == {
        "model/a.txt_proc_by_algo-1": b"a processed by algo-1", "model/output_algo-1": b"output",
        "algo-2/model/b.txt_proc_by_algo-2": b"b processed by algo-2", "algo-2/model/output_algo-2": b"output"}


def test_a_public_script_that_reads_its_hyperparameters_as_json_runs_unchanged(jobs: Any) -> None:
    script = simple_sagemaker(jobs, "multiple_tasks/code/algo_multi.py")
    jobs.write("train/a.csv", "1,2\n")
    jobs.write("val/b.csv", "3,4\n")
    done = jobs.end(jobs.start("barograph", "submit", "--name", "stages", "--data", "train=./train", "--data",
                               "val=./val", "--env", "SSM_STATE", "--wait", script, "--stage", "1"))
    assert done.code == 0, done.err
    found = outputs(jobs, "stages")
    # It compares its hyperparameter with the number 1.
    assert found["model/algo-1/model_dir"] == b"model_dir"
    assert {name: data for name, data in found.items() if name.endswith(".csv")} == {
        "output/algo-1/train_copy/a.csv": b"1,2\n", "output/algo-1/val_copy/b.csv": b"3,4\n"}
    assert len([name for name in found if name.startswith("output/algo-1/state_copy/algo-1/state_algo-1_")]) == 10


def test_a_public_script_of_gluonts_trains_and_evaluates_unchanged(jobs: Any) -> None:
    python = available(python_with_gluonts)
    (script,) = python.parent.parent.rglob("sagemaker_sdk/entry_point_scripts/train_entry_point.py")
    shutil.copy(script, jobs.folder)
    jobs.write("estimator/estimator.json", json.dumps({
        "__kind__": "instance", "class": "gluonts.model.trivial.mean.MeanEstimator", "args": [],
        "kwargs": {"prediction_length": 5, "num_samples": 10}}))
    jobs.write("series/metadata.json", json.dumps({"freq": "D", "prediction_length": 5}))
    for part, values in (("train", [7.0] * 30), ("test", [9.0] * 35)):
        jobs.write(f"series/{part}/data.json", json.dumps({"start": "2026-01-01", "target": values}) + "\n")
    done = jobs.end(jobs.start(
        "barograph", "submit", "--name", "series", "--data", "estimator=./estimator", "--data", "s3_dataset=./series",
        "--wait", python, script.name, "--dataset", "own", "--num_samples", "10", "--quantiles", "[0.5]"))
    assert done.code == 0, done.text + done.err
    found = outputs(jobs, "series")
    # It predicts 7, the mean of its training data, for a series of nines.
    assert json.loads(found["output/agg_metrics.json"])["MSE"] == pytest.approx(4.0)
    assert json.loads(found["model/predictor.json"])["class"] == "gluonts.model.trivial.constant.ConstantPredictor"
