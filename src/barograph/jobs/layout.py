"""Directories and variables that a script finds on an instance, as in SageMaker Training.

    BASE/input/config/{hyperparameters,inputdataconfig,resourceconfig}.json
    BASE/input/data/CHANNEL/
    BASE/code/  BASE/model/  BASE/checkpoints/  BASE/output/{data/,intermediate/,failure,success}

Source: AWS, "How Amazon SageMaker AI Provides Training Information"; sagemaker-training 5.1.4, whose own program
`train` accepts the layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barograph.jobs.data.channel import Mode, channel_from_text
from barograph.jobs.given_environment import with_values
from barograph.jobs.spec import JobSpec
from barograph.provenance.parameters import parameters_of

_GROUP = "homogeneousCluster"
_LOG_LEVEL = 20
_NO_VARIABLES = ("additional_framework_parameters", "channel_input_dirs", "distribution_hosts", "hyperparameters",
                 "is_master", "job_name", "master_hostname", "topology")
"""Parts of the training environment without a variable of their own."""


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
        """Files here are stored as the model."""
        return self.base / "model"

    @property
    def checkpoints(self) -> Path:
        """Files here are restored after an interruption."""
        return self.base / "checkpoints"

    @property
    def output(self) -> Path:
        """Further output: `data/` is stored, `failure` has the reason of a failure."""
        return self.base / "output"

    @property
    def output_data(self) -> Path:
        """Files here are stored beside the model."""
        return self.output / "data"

    @property
    def intermediate(self) -> Path:
        """Files here are stored, too."""
        return self.output / "intermediate"

    def make(self) -> None:
        """Create the directories."""
        for folder in (self.config, self.data, self.code, self.model, self.checkpoints, self.output_data,
                       self.intermediate):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class Place:
    """One instance among those of its job.

    Attributes:
        index: From 0.
        addresses: Addresses of all instances, in order.
        port: Port for the rendezvous on the first one.
        interface: Network interface through which the others reach this one.
    """

    index: int
    addresses: tuple[str, ...]
    port: int
    interface: str = "lo"

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
        ("resourceconfig", _resources(spec, place)),
    ):
        (layout.config / f"{name}.json").write_text(json.dumps(data, indent=1), encoding="utf-8")


def variables(layout: InstanceLayout, spec: JobSpec, place: Place, *, job: str, gpus: int) -> dict[str, str]:
    """Return the environment variables for the script: those of sagemaker-training, and of its successor."""
    environment = _training_environment(layout, spec, place, job, gpus)
    given, channels = environment["hyperparameters"], environment["channel_input_dirs"]
    found = {name: value for name, value in environment.items() if name not in _NO_VARIABLES}
    found |= {
        "input_data_dir": str(layout.data), "output_failure": str(layout.output / "failure"),
        "checkpoint_dir": str(layout.checkpoints), "source_dir": str(layout.code),
        "entry_script": environment["user_entry_point"], "master_addr": place.addresses[0], "master_port": place.port,
        "host_count": len(place.hosts), "current_host_rank": place.index, "channels": list(channels), "hps": given,
        "framework_params": {}, "user_args": list(spec.words[1:]), "training_env": environment,
        **{f"channel_{name}": path for name, path in channels.items()},
        **{f"hp_{name}": value for name, value in given.items()},
    }
    texts = {f"SM_{name}".upper(): _text(value) for name, value in found.items()}
    # sagemaker-training keeps a "-" of a name, which no shell can read; its successor does not.
    texts |= {re.sub(r"\W", "_", name): value for name, value in texts.items()}
    return {**texts, "SAGEMAKER_BASE_DIR": str(layout.base), "SAGEMAKER_JOB_NAME": job, "TRAINING_JOB_NAME": job,
            "CURRENT_HOST": place.hosts[place.index]}


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
    """Return the hyperparameters of a job by name, as strings: those in the arguments of its script too.

    Values that are no strings are written as JSON, as SageMaker writes them.
    """
    words = tuple(spec.command)
    found = {name: value if isinstance(value, str) else json.dumps(value)
             for name, value in parameters_of(words).items()} if words else {}
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


def _training_environment(
    layout: InstanceLayout, spec: JobSpec, place: Place, job: str, gpus: int
) -> dict[str, Any]:
    """Return what sagemaker-training calls the training environment."""
    script = next((word for word in spec.command if word.endswith((".py", ".sh"))), "")
    resources = _resources(spec, place)
    return {
        "additional_framework_parameters": {},
        "channel_input_dirs": {name: str(layout.data / name) for name in sorted(spec.data)},
        "current_host": place.hosts[place.index], "current_instance_group": _GROUP,
        "current_instance_group_hosts": place.hosts, "current_instance_type": spec.engine,
        "distribution_hosts": [], "distribution_instance_groups": [], "framework_module": None, "hosts": place.hosts,
        "hyperparameters": _typed_hyperparameters(spec), "input_config_dir": str(layout.config),
        "input_data_config": _channels(spec), "input_dir": str(layout.base / "input"), "instance_groups": [_GROUP],
        "instance_groups_dict": {_GROUP: resources["instance_groups"][0]}, "is_hetero": False,
        "is_master": place.index == 0, "job_name": job, "log_level": _LOG_LEVEL, "master_hostname": place.hosts[0],
        "model_dir": str(layout.model), "module_dir": str(layout.code), "module_name": Path(script).stem,
        "network_interface_name": place.interface, "num_cpus": max(1, int(spec.cpus)), "num_gpus": gpus,
        "num_neurons": 0, "output_data_dir": str(layout.output_data), "output_dir": str(layout.output),
        "output_intermediate_dir": str(layout.intermediate), "resource_config": resources, "topology": [],
        "user_entry_point": script,
    }


def _resources(spec: JobSpec, place: Place) -> dict[str, Any]:
    group = {"instance_group_name": _GROUP, "instance_type": spec.engine, "hosts": place.hosts}
    return {
        "current_host": host_name(place.index), "hosts": place.hosts, "network_interface_name": place.interface,
        "current_instance_type": spec.engine, "current_group_name": _GROUP, "instance_groups": [group],
    }


def _typed_hyperparameters(spec: JobSpec) -> dict[str, Any]:
    """Return the hyperparameters as scripts find them in `SM_HPS`: numbers, lists and the like are no strings."""
    found: dict[str, Any] = {}
    for name, text in hyperparameters_of(spec).items():
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _text(value: object) -> str:
    """Return the value of a variable as sagemaker-training writes it."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
