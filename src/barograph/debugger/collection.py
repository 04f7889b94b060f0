"""smdebug's `Collection`: tensors that are saved together; and its default collections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from barograph.debugger.exceptions import SMDebugTypeError
from barograph.debugger.reduction_config import ReductionConfig
from barograph.debugger.save_config import SaveConfig


class CollectionKeys:
    """Names of smdebug's default collections."""

    DEFAULT = "default"
    ALL = "all"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    BIASES = "biases"
    LAYERS = "layers"
    SM_METRICS = "sm_metrics"
    OPTIMIZER_VARIABLES = "optimizer_variables"
    TENSORFLOW_SUMMARIES = "tensorflow_summaries"
    METRICS = "metrics"
    HYPERPARAMETERS = "hyperparameters"
    PREDICTIONS = "predictions"
    LABELS = "labels"
    FEATURE_IMPORTANCE = "feature_importance"
    AVERAGE_SHAP = "average_shap"
    FULL_SHAP = "full_shap"
    TREES = "trees"


PYTORCH: Mapping[str, tuple[str, ...]] = {
    CollectionKeys.ALL: (),
    CollectionKeys.DEFAULT: (),
    CollectionKeys.WEIGHTS: ("^(?!gradient).*weight",),
    CollectionKeys.BIASES: ("^(?!gradient).*bias",),
    CollectionKeys.GRADIENTS: ("^gradient",),
    CollectionKeys.LOSSES: ("[Ll]oss_(?!input).*output",),
}
"""The collections that every hook of PyTorch has, and their patterns."""

NUMBERS = frozenset({
    CollectionKeys.LOSSES, CollectionKeys.METRICS, CollectionKeys.FEATURE_IMPORTANCE, CollectionKeys.AVERAGE_SHAP,
    CollectionKeys.SM_METRICS,
})
"""Collections that are saved as they are, whatever the hook says of reductions."""


class Collection:
    """Tensors, by name or pattern, with what is saved of them and when.

    Args:
        name: Of the collection.
        include_regex: Patterns that are searched for in names.
        tensor_names: Names.
        reduction_config: What is saved; None: as the hook says.
        save_config: When; None: as the hook says.
        save_histogram: Taken and not used: every tensor has its histogram.
    """

    def __init__(
        self, name: str, include_regex: Iterable[str] | None = None, tensor_names: Iterable[str] | None = None,
        reduction_config: ReductionConfig | None = None, save_config: Any = None, save_histogram: bool = True,
    ) -> None:
        self.name = name
        self.include_regex = list(include_regex or ())
        self.tensor_names = set(tensor_names or ())
        self.reduction_config = reduction_config
        self.save_config: SaveConfig | None = None if save_config is None else SaveConfig.parse(save_config)
        self.save_histogram = save_histogram
        self.modules: dict[Any, tuple[bool, bool]] = {}

    def __repr__(self) -> str:
        return f"<Collection {self.name}>"

    def include(self, patterns: str | Iterable[str]) -> None:
        """Add patterns.

        Raises:
            SMDebugTypeError: It is neither a text nor a list of texts.
        """
        given = [patterns] if isinstance(patterns, str) else list(patterns)
        if not all(isinstance(item, str) for item in given):
            raise SMDebugTypeError(f"{patterns!r} is not a pattern or a list of patterns.")
        self.include_regex += given

    def add_tensor_name(self, tname: str) -> None:
        """Add a name."""
        self.tensor_names.add(tname)

    def add_module_tensors(self, module: Any, inputs: bool = False, outputs: bool = True) -> None:
        """Add the inputs and outputs of a module that is, or will be, registered."""
        self.modules[module] = inputs, outputs

    def has(self, tname: str) -> bool:
        """Return whether a tensor belongs to the collection."""
        return tname in self.tensor_names or any(re.search(pattern, tname) for pattern in self.include_regex)

    def to_json_dict(self) -> dict[str, Any]:
        """Return it as plain data, as smdebug writes it."""
        return {
            "name": self.name, "include_regex": self.include_regex, "tensor_names": sorted(self.tensor_names),
            "reduction_config": self.reduction_config.to_json_dict() if self.reduction_config else None,
            "save_config": self.save_config.to_json_dict() if self.save_config else None,
            "save_histogram": self.save_histogram,
        }

    @classmethod
    def from_dict(cls, params: Mapping[str, Any]) -> Collection:
        """Return the names and patterns of what `to_json_dict`, or smdebug, wrote."""
        return cls(str(params.get("name", "")), params.get("include_regex") or (), params.get("tensor_names") or ())
