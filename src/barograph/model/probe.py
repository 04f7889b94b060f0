"""Settings of the probe: a fixed set of samples whose layer outputs are stored at each evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from barograph.errors import SettingsError, UnknownName, nearest
from barograph.model.key import Key, Kind
from barograph.model.units import bytes_from

SALIENCY_METHODS = ("gradient-input", "smoothgrad", "integrated-gradients")
"""Methods of saliency maps."""

MOST_SAMPLES = 10_000
MOST_SALIENCY = 64

LAST_INPUT = "input of"
"""Start of the name of the recorded layer if it is the input of the last linear layer: "input of fc2"."""

MODEL_OUTPUT = "output of the model"

PREFIX = "probe/"
SAMPLES = Key(Kind.CUSTOM, f"{PREFIX}samples")
"""Identities of the samples of a frame, int64: digests of their content."""
TARGET = Key(Kind.CUSTOM, f"{PREFIX}target")
"""Targets: int64 if they are class numbers (-1: unknown), else float32."""
PREDICTION = Key(Kind.CUSTOM, f"{PREFIX}prediction")
"""Predictions, of the same type as the targets."""
LOSS = Key(Kind.CUSTOM, f"{PREFIX}loss")
"""Loss of each sample, float32; NaN: unknown."""
INPUT = Key(Kind.CUSTOM, f"{PREFIX}input")
"""Inputs of samples that no earlier frame has; images are reduced."""
INPUT_SAMPLES = Key(Kind.CUSTOM, f"{PREFIX}input_samples")
SALIENCY_SAMPLES = Key(Kind.CUSTOM, f"{PREFIX}saliency_samples")


def output_key(layer: str) -> Key:
    """Return the key of the outputs of a layer, one row per sample."""
    return Key(Kind.CUSTOM, f"{PREFIX}output[{layer}]")


def saliency_key(method: str) -> Key:
    """Return the key of the saliency maps of one method, one per sample."""
    return Key(Kind.CUSTOM, f"{PREFIX}saliency[{method}]")


def subject_in(key: Key, what: str) -> str | None:
    """Return the text in brackets of a key of the probe; None if the key is another.

    Example:
        >>> subject_in(output_key("input of fc2"), "output")
        'input of fc2'
    """
    start = f"{PREFIX}{what}["
    return key.path[len(start):-1] if key.kind is Kind.CUSTOM and key.path.startswith(start) else None


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Samples that are observed at each evaluation, and what is stored of them.

    Attributes:
        samples: Number of samples: the first different ones of the first evaluation.
        layer: Path of the module whose outputs are stored; "": the input of the last linear layer.
        saliency: Number of samples with saliency maps, the first of the probe; 0: none.
        saliency_methods: Methods of the maps, of `SALIENCY_METHODS`.
        input_bytes: Largest size of the stored inputs.
    """

    samples: int = 500
    layer: str = ""
    saliency: int = 0
    saliency_methods: tuple[str, ...] = SALIENCY_METHODS
    input_bytes: int = 16 * 2**20

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data that `probe_from` reads back."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**found, "saliency_methods": list(self.saliency_methods)}


def probe_from(name: str, value: object) -> ProbeSettings | None:
    """Return probe settings from true, false, a number of samples, or a table as in `[probe]`.

    Args:
        name: Name of the setting, for messages.
        value: Value from the user.

    Raises:
        UnknownName: An entry or a method does not exist.
        SettingsError: A value has the wrong type or is out of range.

    Example:
        >>> probe_from("probe", 100).samples, probe_from("probe", {"saliency": 8}).saliency
        (100, 8)
    """
    if value is None or value is False or value == 0:
        return None
    if isinstance(value, ProbeSettings):
        return value
    if value is True:
        return ProbeSettings()
    if isinstance(value, int):
        return ProbeSettings(samples=_whole(f"{name}.samples", value, 1, MOST_SAMPLES))
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name} is {value!r}; it must be a number of samples or a table, as in [probe].")
    known = [item.name for item in fields(ProbeSettings)]
    for entry in value:
        if entry not in known:
            raise UnknownName(f'"{entry}" is not a setting of {name}. {nearest(str(entry), known)}')
    found = dict(value)
    if "samples" in found:
        _whole(f"{name}.samples", found["samples"], 1, MOST_SAMPLES)
    if "saliency" in found:
        _whole(f"{name}.saliency", found["saliency"], 0, MOST_SALIENCY)
    if "layer" in found and not isinstance(found["layer"], str):
        raise SettingsError(f"{name}.layer is {found['layer']!r}; it must be the path of a module.")
    if "input_bytes" in found:
        found["input_bytes"] = bytes_from(f"{name}.input_bytes", found["input_bytes"])
    if "saliency_methods" in found:
        found["saliency_methods"] = _methods(f"{name}.saliency_methods", found["saliency_methods"])
    return ProbeSettings(**found)


def _methods(where: str, value: object) -> tuple[str, ...]:
    methods = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not methods:
        raise SettingsError(f"{where} is {value!r}; it must be a list of methods: {', '.join(SALIENCY_METHODS)}.")
    for method in methods:
        if method not in SALIENCY_METHODS:
            raise UnknownName(f'{where} has "{method}". {nearest(str(method), SALIENCY_METHODS)}')
    return methods


def _whole(where: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SettingsError(f"{where} is {value!r}; it must be an integer from {least} to {most}.")
    return value
