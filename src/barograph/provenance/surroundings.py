"""Environment variables, seeds, hardware, host and user of a training."""

from __future__ import annotations

import getpass
import platform
import socket
from collections.abc import Mapping
from pathlib import Path

from barograph.machine.host import cores_to_use, memory_bytes
from barograph.model.origin import Hardware, Parameter
from barograph.provenance.secrets import Secrets, names_secret

_PREFIXES = (
    "ACCELERATE_", "CUBLAS_", "CUDA_", "CUDNN_", "FLASH_", "GOMP_", "HIP_", "JAX_", "KERAS_", "KMP_", "MKL_", "NCCL_",
    "NUMBA_", "NUMEXPR_", "NVIDIA_TF32", "OMP_", "OPENBLAS_", "PL_", "PYTHON", "PYTORCH_", "ROCM_", "SLURM_", "TF_",
    "TOKENIZERS_", "TORCH", "TRITON_", "VECLIB_", "XLA_",
)
_NAMES = frozenset((
    "CONDA_DEFAULT_ENV", "CONDA_PREFIX", "HF_DATASETS_OFFLINE", "HF_HOME", "HF_HUB_OFFLINE", "LANG", "LC_ALL",
    "LC_NUMERIC", "LD_LIBRARY_PATH", "LD_PRELOAD", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    "RANK", "SEED", "TZ", "VIRTUAL_ENV", "WORLD_SIZE",
))
_DETERMINISM = (
    "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "NVIDIA_TF32_OVERRIDE", "XLA_FLAGS", "SEED", "PL_GLOBAL_SEED",
)
_LONGEST_VALUE = 4096


def allowed_environment(environment: Mapping[str, str], secrets: Secrets) -> dict[str, str]:
    """Return the environment variables relevant for training; no others are ever stored.

    Example:
        >>> allowed_environment({"OMP_NUM_THREADS": "1", "TORCH_TOKEN": "x", "EDITOR": "vi"}, Secrets())
        {'OMP_NUM_THREADS': '1'}
    """
    return {name: secrets.hide(value[:_LONGEST_VALUE]) for name, value in sorted(environment.items())
            if (name in _NAMES or name.startswith(_PREFIXES)) and not names_secret(name)}


def seeds_of(environment: Mapping[str, str], parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the seeds in the environment and in the script's options.

    Example:
        >>> seeds_of({"PYTHONHASHSEED": "0"}, {"random-seed": 3, "lr": 0.1})
        {'PYTHONHASHSEED': '0', 'random-seed': 3}
    """
    found: dict[str, Parameter] = {name: environment[name] for name in _DETERMINISM if name in environment}
    return {**found, **{name: value for name, value in parameters.items()
                        if "seed" in name.lower() or "determinis" in name.lower()}}


def hardware_now(gpus: tuple[str, ...]) -> Hardware:
    """Return the hardware of this machine.

    Args:
        gpus: Names of its GPUs.
    """
    return Hardware(_processor(), cores_to_use(), memory_bytes(), gpus, platform.platform())


def host_now() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def user_now() -> str:
    """Return the user name; "" if unknown, as in a container without accounts."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _processor(folder: Path = Path("/proc")) -> str:
    try:
        lines = (folder / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == "model name")
    return next(named, "") or platform.processor() or platform.machine()
