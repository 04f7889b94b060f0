"""Directories and variables that a script finds on an instance, as in SageMaker Training.

    BASE/input/config/{hyperparameters,inputdataconfig,resourceconfig}.json
    BASE/input/data/CHANNEL/
    BASE/code/  BASE/model/  BASE/checkpoints/  BASE/output/{data/,failure,success}

Source: AWS, "How Amazon SageMaker AI Provides Training Information"; sagemaker-training 5.1.4, whose own program
`train` accepts the layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.jobs.data.channel import Mode, channel_from_text
from barograph.jobs.given_environment import with_values
from barograph.jobs.spec import JobSpec
from barograph.provenance.parameters import parameters_of


@dataclass(frozen=True, slots=True)
class InstanceLayout:
    """Directories of one instance.

    Attributes:
        base: Directory that contains them.
    """

    base: Path

    @property
    def config(self) -> Path:
        """JSON files that describe the job."""
        return self.base / "input" / "config"

    @property
    def data(self) -> Path:
        """A directory for each channel."""
        return self.base / "input" / "data"

    @property
    def code(self) -> Path:
        """The source folder."""
        return self.base / "code"

    @property
    def model(self) -> Path:
        """What the script writes here is stored as the model."""
        return self.base / "model"

    @property
    def checkpoints(self) -> Path:
        """What the script writes here is there again after an interruption."""
        return self.base / "checkpoints"

    @property
    def output(self) -> Path:
        """Further output: `data/` is stored, `failure` has the reason of a failure."""
        return self.base / "output"

    @property
    def output_data(self) -> Path:
        """What the script writes here is stored beside the model."""
        return self.output / "data"

    def make(self) -> None:
        """Create the directories."""
        for folder in (self.config, self.data, self.code, self.model, self.checkpoints, self.output_data):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class Place:
    """One instance among those of its job.

    Attributes:
        index: From 0.
        addresses: Addresses of all instances, in order.
        port: Port for the rendezvous on the first one.
    """

    index: int
    addresses: tuple[str, ...]
    port: int

    @property
    def hosts(self) -> list[str]:
        """Names of all instances: algo-1, algo-2, …"""
        return [host_name(index) for index in range(len(self.addresses))]


def host_name(index: int) -> str:
    """Return the name of an instance.

    Example:
        >>> host_name(0)
        'algo-1'
    """
    return f"algo-{index + 1}"


def write_config(layout: InstanceLayout, spec: JobSpec, place: Place) -> None:
    """Write the JSON files that describe the job."""
    for name, data in (
        ("hyperparameters", hyperparameters_of(spec)), ("inputdataconfig", _channels(spec)),
        ("resourceconfig", _resources(place)),
    ):
        (layout.config / f"{name}.json").write_text(json.dumps(data, indent=1), encoding="utf-8")


def variables(layout: InstanceLayout, spec: JobSpec, place: Place, *, job: str, gpus: int) -> dict[str, str]:
    """Return the environment variables for the script."""
    given = hyperparameters_of(spec)
    script = next((word for word in spec.command if word.endswith((".py", ".sh"))), "")
    found = {
        "SM_MODEL_DIR": str(layout.model), "SM_INPUT_DIR": str(layout.base / "input"),
        "SM_INPUT_DATA_DIR": str(layout.data), "SM_INPUT_CONFIG_DIR": str(layout.config),
        "SM_OUTPUT_DIR": str(layout.output), "SM_OUTPUT_FAILURE": str(layout.output / "failure"),
        "SM_OUTPUT_DATA_DIR": str(layout.output_data), "SM_CHECKPOINT_DIR": str(layout.checkpoints),
        "SM_LOG_LEVEL": "20", "SM_MASTER_ADDR": place.addresses[0], "SM_MASTER_PORT": str(place.port),
        "SM_SOURCE_DIR": str(layout.code), "SM_MODULE_DIR": str(layout.code),
        "SM_ENTRY_SCRIPT": script, "SM_USER_ENTRY_POINT": script, "SM_MODULE_NAME": Path(script).stem,
        "SM_CHANNELS": json.dumps(sorted(spec.data)), "SM_HPS": json.dumps(given),
        "SM_USER_ARGS": json.dumps(list(spec.words[1:])), "SM_CURRENT_HOST": host_name(place.index),
        "SM_CURRENT_INSTANCE_TYPE": spec.engine, "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster",
        "SM_HOSTS": json.dumps(place.hosts), "SM_HOST_COUNT": str(len(place.hosts)),
        "SM_CURRENT_HOST_RANK": str(place.index), "SM_NETWORK_INTERFACE_NAME": "lo",
        "SM_NUM_CPUS": str(max(1, int(spec.cpus))), "SM_NUM_GPUS": str(gpus),
        "SM_RESOURCE_CONFIG": json.dumps(_resources(place)), "SM_INPUT_DATA_CONFIG": json.dumps(_channels(spec)),
        "SM_FRAMEWORK_MODULE": "", "TRAINING_JOB_NAME": job,
    }
    found |= {f"SM_CHANNEL_{_upper(name)}": str(layout.data / name) for name in spec.data}
    found |= {f"SM_HP_{_upper(name)}": value for name, value in given.items()}
    found["SM_TRAINING_ENV"] = json.dumps({
        "job_name": job, "model_dir": found["SM_MODEL_DIR"], "output_data_dir": found["SM_OUTPUT_DATA_DIR"],
        "channel_input_dirs": {name: str(layout.data / name) for name in spec.data}, "hyperparameters": given,
        "current_host": found["SM_CURRENT_HOST"], "hosts": place.hosts, "num_cpus": int(spec.cpus), "num_gpus": gpus,
    })
    return found


def filled(
    words: Sequence[str], layout: InstanceLayout, channels: Sequence[str], environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return words with `{data.NAME}` replaced by directories of channels, and `{env.NAME}` by values of variables.

    Example:
        >>> filled(["--in", "{data.train}/a.csv"], InstanceLayout(Path("/job")), ["train"])
        ('--in', '/job/input/data/train/a.csv')
    """
    places = {f"{{data.{name}}}": str(layout.data / name) for name in channels}
    done = list(words)
    for name, place in places.items():
        done = [word.replace(name, place) for word in done]
    return with_values(done, environment or {})


def unknown_channels(words: Sequence[str], channels: Sequence[str]) -> list[str]:
    """Return the channels that words name as `{data.NAME}` and the job does not have."""
    named = (name for word in words for name in re.findall(r"\{data\.([\w-]+)\}", word))
    return sorted({name for name in named if name not in channels})


def hyperparameters_of(spec: JobSpec) -> dict[str, str]:
    """Return the hyperparameters of a job by name, as strings: those in the arguments of its script too."""
    words = tuple(spec.command)
    found = {name: str(value) for name, value in parameters_of(words).items()} if words else {}
    return {**found, **spec.hyperparameters}


def failure_of(layout: InstanceLayout) -> str:
    """Return the reason that the script wrote to `output/failure`: its first 1,024 characters; "" if none."""
    try:
        with (layout.output / "failure").open(encoding="utf-8", errors="replace") as file:
            return file.read(1024).strip()
    except OSError:
        return ""


def _channels(spec: JobSpec) -> Mapping[str, Mapping[str, str]]:
    return {name: {
        "TrainingInputMode": "Pipe" if channel.mode is Mode.PIPE else "File",
        "S3DistributionType": "ShardedByS3Key" if channel.sharded else "FullyReplicated",
        "RecordWrapperType": "None",
    } for name, source in sorted(spec.data.items()) for channel in [channel_from_text(f"{name}={source}")]}


def _resources(place: Place) -> dict[str, object]:
    group = {"instance_group_name": "homogeneousCluster", "instance_type": "local", "hosts": place.hosts}
    return {
        "current_host": host_name(place.index), "hosts": place.hosts, "network_interface_name": "lo",
        "current_instance_type": "local", "current_group_name": "homogeneousCluster", "instance_groups": [group],
    }


def _upper(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()

