"""Canonical paths of modules and parameters, for the models that a script uses."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from barograph.capture.live_objects import free_label, instances_of
from barograph.capture.torch.flat import FlatPiece, flat_pieces
from barograph.capture.torch.shards import meshes_of
from barograph.model.key import canonical_path

_MOST_SEARCHES = 8

_WRAPPER_FIELDS = ("module", "_orig_mod")
_NEVER_CALLED = nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict
_WRAPPER_CLASSES = frozenset({"DistributedDataParallel", "DataParallel", "OptimizedModule", "FullyShardedDataParallel"})

COMPILED_REASON = (
    "layer outputs inside a compiled model exist only in the compiled graph and were not recorded; weights, "
    "gradients and the loss were"
)
"""Reason in the coverage of a model that runs as a compiled graph."""


@dataclass(slots=True)
class Root:
    """A model: a module that the script calls directly, not from within another.

    Attributes:
        module: Weak reference, so that Barograph keeps no model alive.
        label: The user's label; "" until one has to be found.
        trains_in_eval: `backward` was observed while it was in evaluation mode.
        trained: An optimizer had parameters of it; remains true if the script drops the optimizer.
    """

    module: weakref.ref[nn.Module]
    label: str = ""
    trains_in_eval: bool = False
    trained: bool = False

    def name(self, label: str) -> None:
        """Set its label."""
        self.label = label

    def note_trained(self) -> None:
        """Note that an optimizer has parameters of it."""
        self.trained = True

    def note_trains_in_eval(self) -> None:
        """Note a `backward` while it is in evaluation mode."""
        self.trains_in_eval = True

    @property
    def seems_evaluated(self) -> bool:
        """Whether it is in evaluation mode now, and has not been observed training in it."""
        module = self.module()
        return module is not None and not module.training and not self.trains_in_eval


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The position of a module.

    Attributes:
        module: Weak reference; detects that an address was reused.
        root: The model that contains it.
        path: Canonical path inside the root; "" for the root itself.
        layer: Its class.
        leaf: It contains no other modules, and is no list or dictionary.
    """

    module: weakref.ref[nn.Module]
    root: Root
    path: str
    layer: str
    leaf: bool


@dataclass(frozen=True, slots=True)
class ParameterName:
    """The position of a parameter.

    Attributes:
        root: The model that contains it; None if no module does.
        path: Canonical path inside the root.
        layer: Class of the module that contains it.
        piece: Describes its part of a larger parameter (FSDP1); None: it is complete, or a DTensor.
    """

    root: Root | None
    path: str
    layer: str
    piece: FlatPiece | None = None


class ModelNames:
    """Finds models when they are used, and names their parts.

    With one trained model, paths are those of `named_parameters()`. With several, each path starts with the model's
    label: the one passed to `attach`, else its class name. Whether there are several is decided when names are first
        needed
    (`freeze`); models found later get their label as a prefix.
    """

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self._modules: dict[int, ModuleName] = {}
        self._parameters: dict[int, tuple[weakref.ref[torch.Tensor], ParameterName]] = {}
        self._unlabelled: Root | None = None
        self._plain = ""
        self._frozen = False
        self._taken: set[str] = set()
        self._dropped = 0
        self._searches = 0

    def add_root(self, module: nn.Module, label: str = "") -> Root:
        """Make `module` a separate model and name everything in it."""
        self._forget_dead()
        root = Root(weakref.ref(module), label)
        if not self._frozen:
            # A part that was called before the model that contains it belongs to that model.
            inside = {id(part) for part in module.modules()}
            self.roots = [known for known in self.roots if id(known.module()) not in inside]
        self.roots.append(root)
        self.rescan(root)
        return root

    def _forget_dead(self) -> None:
        """Forget models that the script has dropped; their labels stay reserved."""
        dead = [root for root in self.roots if root.module() is None]
        if not dead:
            return
        self._dropped += len(dead)
        self._taken.update(root.label for root in dead)
        self.roots = [root for root in self.roots if root.module() is not None]
        self._modules = {key: name for key, name in self._modules.items() if name.module() is not None}
        self._parameters = {key: known for key, known in self._parameters.items() if known[0]() is not None}

    @property
    def has_several(self) -> bool:
        """Whether more than one model was found, including those that the script has dropped."""
        return len(self.roots) + self._dropped > 1

    def rescan(self, root: Root) -> None:
        """Name the current contents of a model; modules and parameters may have been added."""
        module = root.module()
        if module is None:
            return
        pieces = {id(parameter): piece for parameter, piece in flat_pieces(module)}
        for path, part in module.named_modules():
            self._modules[id(part)] = ModuleName(
                weakref.ref(part), root, canonical_path(path), type(part).__name__, _is_leaf(part)
            )
            for name, parameter in part.named_parameters(recurse=False):
                full = canonical_path(f"{path}.{name}" if path else name)
                self._name_parameter(parameter, ParameterName(root, full, type(part).__name__,
                                                              pieces.get(id(parameter))))

    def _name_parameter(self, parameter: torch.Tensor, name: ParameterName) -> None:
        known = self._parameters.get(id(parameter))
        if known is not None and known[0]() is parameter and known[1].root is name.root:
            return  # if it is shared, the first name remains
        self._parameters[id(parameter)] = (weakref.ref(parameter), name)

    def module(self, module: nn.Module) -> ModuleName | None:
        """Return the position of `module`; None if it is in no known model."""
        name = self._modules.get(id(module))
        return name if name is not None and name.module() is module else None

    def parameter(self, parameter: torch.Tensor) -> ParameterName | None:
        """Return the position of `parameter`; None if it is in no known model."""
        known = self._parameters.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else None

    def adopt_replica(self, replica: nn.Module, original: ModuleName) -> None:
        """Give a data-parallel replica the names of its original."""
        for path, part in replica.named_modules():
            inner = canonical_path(path)
            whole = ".".join(piece for piece in (original.path, inner) if piece)
            self._modules[id(part)] = ModuleName(weakref.ref(part), original.root, whole, type(part).__name__,
                                                 _is_leaf(part))

    def search(self, parameters: Iterable[torch.Tensor]) -> None:
        """Find the models that contain `parameters` among all live objects.

        For scripts that never call the model itself (a compiled `forward`, `functional_call`, `generate`). Slow (visits
        every object), so it is done once per set of unknown parameters, and only a few times per process.
        """
        if self._searches >= _MOST_SEARCHES:
            return
        self._searches += 1
        wanted = {id(parameter) for parameter in parameters}
        holders = [
            module
            for module in instances_of(nn.Module)
            if any(id(item) in wanted for item in _parameters_safely(module))
        ]
        parts = {id(part) for module in holders for part in module.modules() if part is not module}
        for module in holders:
            if id(module) not in parts and self.module(module) is None:
                self.add_root(module)

    @property
    def frozen(self) -> bool:
        """Whether the labels are final."""
        return self._frozen

    def freeze(self, trained: Iterable[torch.Tensor] = ()) -> None:
        """Make the labels final: paths no longer change.

        Args:
            trained: The parameters of all optimizers. If only one of several models is trained, it keeps its plain
                paths; a teacher or an average does not change them.
        """
        if self._frozen:
            return
        self._frozen = True
        names = (self.parameter(parameter) for parameter in trained)
        roots = list({id(name.root): name.root for name in names if name is not None}.values()) or self.roots
        if len(roots) == 1 and roots[0] is not None and not roots[0].label:
            self._unlabelled, self._plain = roots[0], _class_of(roots[0])

    def label_all(self) -> None:
        """Give each model its label now, in the order of discovery, not at first use."""
        for root in self.roots:
            self.path(root, "")

    def path(self, root: Root | None, inner: str) -> str:
        """Return the path of a part of a model, for a Key."""
        self.freeze()
        if root is None or root is self._unlabelled:
            return inner
        if not root.label:
            root.name(self._free_label(root))
        return f"{root.label}.{inner}" if inner else root.label

    def _free_label(self, root: Root) -> str:
        base = _class_of(root)
        # The second model of a class is "#2", even if the first has plain paths.
        taken = {self._plain, *self._taken, *(other.label for other in self.roots)}
        return free_label(base, taken)

    def leaves(self) -> Iterator[ModuleName]:
        """Yield the leaf modules of every model that still exists."""
        for name in self._modules.values():
            if name.leaf and name.module() is not None:
                yield name

    def parameters(self) -> Iterator[tuple[torch.Tensor, ParameterName]]:
        """Yield every parameter of every model."""
        for reference, name in self._parameters.values():
            parameter = reference()
            if parameter is not None:
                yield parameter, name

    def meshes(self) -> list[Any]:
        """Return the device meshes of the models."""
        return meshes_of(parameter for parameter, _ in self.parameters())

    def with_gradients(self) -> list[torch.Tensor]:
        """Return every parameter of every model that has a gradient now."""
        parameters = [reference() for reference, _ in self._parameters.values()]
        return [item for item in parameters if item is not None and item.requires_grad and item.grad is not None]

    def trainable(self) -> Iterator[tuple[torch.Tensor, ParameterName]]:
        """Yield every parameter of every model that requires a gradient."""
        return (item for item in self.parameters() if item[0].requires_grad)


def _class_of(root: Root) -> str:
    module = root.module()
    return type(unwrapped(module)).__name__ if module is not None else "model"


def _is_leaf(module: nn.Module) -> bool:
    return next(module.children(), None) is None and not isinstance(module, _NEVER_CALLED)


def is_compiled(module: nn.Module) -> bool:
    """Return whether a module runs as a compiled graph, through `torch.compile` or its own `compile`."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the model inside wrappers for data parallelism, sharding and compilation."""
    while type(module).__name__ in _WRAPPER_CLASSES:
        fields: Mapping[str, nn.Module] = dict(module.named_children())
        inner = next((fields[name] for name in _WRAPPER_FIELDS if name in fields), None)
        if inner is None:
            break
        module = inner
    return module


def _parameters_safely(module: nn.Module) -> list[nn.Parameter]:
    # Live objects include modules whose __init__ has not run or failed: they have no parameters yet.
    return list(module.parameters()) if "_parameters" in module.__dict__ else []
