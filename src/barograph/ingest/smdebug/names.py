"""Maps smdebug's names of tensors to keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from barograph.model.importance import KINDS, importance_key
from barograph.model.key import Key, Kind, canonical_path

REDUCTIONS = "smdebug/reductions/"
SCALAR = "scalar/"

_GRADIENT = re.compile(r"gradients?/(?P<rest>.+)")
_INSIDE = re.compile(r"(?P<module>.+)_(?P<way>input|output)_(?P<number>\d+)")
_LAYER = re.compile(r"(?P<layer>.+?)/(?P<what>weights|inputs|outputs)(?:/(?P<rest>.+))?")
_PARAMETER = re.compile(r"weight|bias|gamma|beta|kernel|running_mean|running_var")
_LOSS = re.compile(r"[Ll]oss(?:\d*_(?!input).*output|$)")
_IMPORTANCE = re.compile(r"feature_importance/(?P<kind>[^/]+)/(?P<feature>.+)")
_SHAP = re.compile(r"average_shap/(?P<feature>.+)")

_WEIGHTS = ("weights", "biases")
_SCALARS = ("metrics", "sm_metrics")
_NUMBERS = frozenset({Kind.LOSS, Kind.SCALAR, Kind.IMPORTANCE})


class Reduction(NamedTuple):
    """A reduction of a tensor to a number.

    Attributes:
        tensor: Name of the tensor.
        name: Statistic, such as "mean" or "l2".
        absolute: Whether it is computed from magnitudes.
    """

    tensor: str
    name: str
    absolute: bool


def reduction_from_name(name: str) -> Reduction | None:
    """Return the reduction of that name; None if it is the name of a tensor.

    Example:
        >>> reduction_from_name("smdebug/reductions/abs_mean/gradient/Net_fc.weight")
        Reduction(tensor='gradient/Net_fc.weight', name='mean', absolute=True)
    """
    _, found, rest = name.partition(REDUCTIONS)
    kind, slash, tensor = rest.partition("/")
    if not (found and slash and tensor):
        return None
    return Reduction(tensor, kind.removeprefix("abs_"), kind.startswith("abs_"))


class Naming:
    """Assigns a unique key to every name; names without a matching kind get a `custom:` key.

    Args:
        names: Names known beforehand; the prefix of the model is inferred from all of them.
        collections: Name to its tensors.
        keys: Earlier assignments, when resuming.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        collections: Mapping[str, Collection[str]] | None = None,
        keys: Mapping[str, Key] | None = None,
    ) -> None:
        self._members = {name: frozenset(members) for name, members in (collections or {}).items()}
        known = {*names, *(member for members in self._members.values() for member in members)}
        self._graded = frozenset(
            match["rest"] for name in known if (match := _GRADIENT.fullmatch(name))
        )
        self._model = _model_prefix(
            [name for name in known if self._is_parameter(name)],
            {match["module"] for name in known if (match := _INSIDE.fullmatch(name))},
        )
        losses = {name for name in known if self._is_loss(name)}
        self._only_loss = min(losses) if len(losses) == 1 else ""
        self.keys: dict[str, Key] = dict(keys or {})
        self._taken = set(self.keys.values())

    def key(self, name: str) -> Key:
        """Return the key of a name; always the same."""
        if name not in self.keys:
            key = self._candidate(name)
            self.keys[name] = key if key not in self._taken else Key(Kind.CUSTOM, name)
            self._taken.add(self.keys[name])
        return self.keys[name]

    def is_number(self, name: str) -> bool:
        """Return whether a one-element tensor of that name is a scalar."""
        return reduction_from_name(name) is not None or self.key(name).kind in _NUMBERS

    def _candidate(self, name: str) -> Key:
        reduction = reduction_from_name(name)
        if reduction is None:
            return self._of_tensor(name)
        whole = self.key(reduction.tensor)
        return Key(whole.kind, f"{whole.path}[{'abs_' if reduction.absolute else ''}{reduction.name}]")

    def _of_tensor(self, name: str) -> Key:
        if name.startswith(SCALAR) and len(name) > len(SCALAR):
            return Key(Kind.SCALAR, name.removeprefix(SCALAR))
        if match := _GRADIENT.fullmatch(name):
            return Key(Kind.GRADIENT, self._parameter(match["rest"]))
        if self._is_loss(name):
            return Key(Kind.LOSS, self._loss(name))
        if any(self._is_in(collection, name) for collection in _SCALARS):
            return Key(Kind.SCALAR, name)
        if match := _IMPORTANCE.fullmatch(name):
            return importance_key(match["feature"], match["kind"] if match["kind"] in KINDS else "")
        if match := _SHAP.fullmatch(name):
            return importance_key(match["feature"], "shap")
        if match := _LAYER.fullmatch(name):
            return self._of_layer(match["layer"], match["what"], match["rest"])
        if self._is_in("optimizer_variables", name):
            return Key(Kind.OPTIMIZER_STATE, _dotted(name))
        if self._is_parameter(name):
            return Key(Kind.WEIGHT, self._parameter(name))
        if match := _INSIDE.fullmatch(name):
            kind = Kind.INPUT if match["way"] == "input" else Kind.OUTPUT
            # Nearly every module has only output 0; tuples and further calls have more.
            return Key(kind, canonical_path(match["module"]) + (f"[{match['number']}]" if int(match["number"]) else ""))
        return Key(Kind.CUSTOM, name)

    def _of_layer(self, layer: str, what: str, rest: str | None) -> Key:
        kind = {"weights": Kind.WEIGHT, "inputs": Kind.INPUT, "outputs": Kind.OUTPUT}[what]
        if kind is Kind.WEIGHT:
            return Key(kind, _dotted(rest or layer))
        return Key(kind, layer if not rest else f"{layer}[{rest}]")

    def _parameter(self, name: str) -> str:
        """Return the path of a parameter without the model's class."""
        if "/" in name:
            return _dotted(name.removesuffix("Grad"))
        return canonical_path(name.removeprefix(self._model)) or name

    def _loss(self, name: str) -> str:
        match = _INSIDE.fullmatch(name)
        if name in ("loss", self._only_loss):
            return "total"
        if match is None:
            return name
        return match["module"] + (f"[{match['number']}]" if int(match["number"]) else "")

    def _is_loss(self, name: str) -> bool:
        return self._is_in("losses", name) or bool(_LOSS.search(name) and not name.startswith(SCALAR))

    def _is_parameter(self, name: str) -> bool:
        if _GRADIENT.match(name) or reduction_from_name(name) or name.startswith(SCALAR):
            return False
        if name in self._graded or any(self._is_in(collection, name) for collection in _WEIGHTS):
            return True
        return bool(_PARAMETER.search(name)) and not _INSIDE.fullmatch(name) and "/" not in name

    def _is_in(self, collection: str, name: str) -> bool:
        return name in self._members.get(collection, ())


def _dotted(name: str) -> str:
    """Return a TensorFlow name as a path.

    Example:
        >>> _dotted("dense/kernel:0")
        'dense.kernel'
    """
    return re.sub(r":\d+$", "", name).replace("/", ".")


def _model_prefix(parameters: list[str], modules: set[str]) -> str:
    """Return the prefix of all parameter paths: the class of the model and an underscore, or "".

    Class names and paths may have underscores, so known modules decide: first one of that name, then those with the
    parameters; then the shortest prefix.

    Example:
        >>> _model_prefix(["My_Net_fc.weight", "My_Net_out.weight"], {"fc", "out"})
        'My_Net_'
        >>> _model_prefix(["dense0_weight", "dense0_bias"], set())
        ''
    """
    plain = [name for name in parameters if "/" not in name]
    if not plain:
        return ""
    first = plain[0]
    prefixes = [first[: at + 1] for at, letter in enumerate(first) if letter == "_" and at]
    shared = [
        prefix for prefix in prefixes
        if all(name.startswith(prefix) and len(name) > len(prefix) for name in plain)
        and (prefix[0].isupper() or any("." in name[len(prefix) :] for name in plain))
    ]

    def evidence(prefix: str) -> tuple[bool, int, int]:
        held = sum(name[len(prefix) :].rpartition(".")[0] in modules for name in plain)
        return prefix[:-1] in modules, held, -len(prefix)

    return max(shared, key=evidence, default="")
