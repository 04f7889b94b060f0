"""smdebug's `Hook` for PyTorch: saves its collections at each forward pass into a run.

It knows no framework by name: modules are asked for their own hooks, and tensors reduce themselves.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec

from barograph.capture.guard import Guard
from barograph.debugger.collection import Collection, CollectionKeys
from barograph.debugger.exceptions import SMDebugError, SMDebugNotImplementedError, SMDebugTypeError, SMDebugValueError
from barograph.debugger.gathering import Array, Choice, Gathered, array_of
from barograph.debugger.listening import Listening
from barograph.debugger.modes import ModeKeys
from barograph.debugger.reduction_config import ReductionConfig
from barograph.debugger.save_config import SaveConfig
from barograph.debugger.saving import Ranks, Saving, ranks_here
from barograph.model.manifest import EndState

_Given = ParamSpec("_Given")
_current: Hook | None = None


def _guarded(method: Callable[Concatenate[Hook, _Given], None]) -> Callable[Concatenate[Hook, _Given], None]:
    """Let an error of ours become one warning: the training goes on."""

    @functools.wraps(method)
    def entered(self: Hook, /, *given: _Given.args, **named: _Given.kwargs) -> None:
        if self.closed:
            return
        try:
            method(self, *given, **named)
        except Exception as error:  # noqa: BLE001 - the guard reports it; it must not end a training
            self.guard.caught(error, f"saving by smdebug's {method.__name__}")

    return entered


class Hook:
    """Saves tensors of a PyTorch training, as smdebug's hook does.

    Args:
        out_dir: Directory or URL of the run; nothing may be there yet.
        save_config: When: a `SaveConfig`, a `SaveConfigMode`, or a mapping of modes to these. None: every 500 steps.
        reduction_config: What; None: tensors as they are.
        include_regex: Patterns of names that are saved too.
        include_collections: Names of the collections that are saved; the losses are always.
        save_all: Everything.
        include_workers: "one": the first process alone saves; "all": each does.
        dry_run: Save nothing.
        export_tensorboard, tensorboard_dir: Not taken: see `SMDebugNotImplementedError`.

    Raises:
        SMDebugValueError: `out_dir` is missing.
        SMDebugNotImplementedError: Files for TensorBoard are asked for.
        RunFinished, RunInUse: A run is there already.
        StoreError: It cannot be written.
    """

    def __init__(
        self,
        out_dir: str | os.PathLike[str] | None = None,
        export_tensorboard: bool = False,
        tensorboard_dir: str | None = None,
        dry_run: bool = False,
        reduction_config: ReductionConfig | None = None,
        save_config: Any = None,
        include_regex: str | Iterable[str] | None = None,
        include_collections: Iterable[str] | None = None,
        save_all: bool = False,
        include_workers: str = "one",
    ) -> None:
        global _current
        if out_dir is None:
            raise SMDebugValueError("Hook needs out_dir: the directory or URL of the run.")
        if export_tensorboard or tensorboard_dir:
            raise SMDebugNotImplementedError("Hook does not write TensorBoard files. Remove export_tensorboard and "
                                             "tensorboard_dir, and view the run with barograph report.")
        self.out_dir = os.fspath(out_dir)
        self.dry_run = dry_run
        self.guard = Guard(strict=False)
        self.closed = False
        self.step = -1
        self.mode = ModeKeys.GLOBAL
        self.mode_steps: dict[ModeKeys, int] = {ModeKeys.GLOBAL: -1}
        self._choice = _choice(save_config, reduction_config, include_regex, include_collections, save_all)
        self._ranks: Ranks = ranks_here()
        self._everyone = include_workers == "all"
        self._names_of_modules: dict[Any, str] = {}
        self._roots: set[Any] = set()
        self._listening: Listening | None = None
        self._known_names: list[str] = []
        self._handles: list[Any] = []
        self._gathered: Gathered | None = None
        self._numbers: dict[str, Array] = {}
        self._custom: dict[str, tuple[Any, str]] = {}
        self._now = (0, ModeKeys.GLOBAL, 0)
        self._saving: Saving | None = None
        if self._saves:
            self._saving = Saving(self.out_dir, self._ranks, everyone=self._everyone, names=self._known_names)
        _current = self
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"<Hook to {self.out_dir}, step {self.step}, mode {self.mode.name}>"

    # What the script says

    def register_module(self, module: Any) -> None:
        """Save tensors of a model and its layers. A step starts with its forward pass.

        Raises:
            SMDebugTypeError: It is no module.
            SMDebugError: It is registered already.
        """
        if not hasattr(module, "register_forward_pre_hook"):
            raise SMDebugTypeError(f"{type(module).__name__} is not a PyTorch module.")
        if module in self._names_of_modules:
            raise SMDebugError("This module is already registered.")
        # A compiled model calls the module that it was made of; names and passes are those of that.
        module = getattr(module, "_orig_mod", module)
        model = type(module).__name__
        for name, part in module.named_modules():
            self._names_of_modules[part] = name or model
        self._know(f"{name}_output_0" for name in self._names_of_modules.values())
        self._know(f"{model}_{name}" for name, _ in module.named_parameters())
        self._know(f"gradient/{model}_{name}" for name, _ in module.named_parameters())
        self._roots.add(module)
        self._listen()
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                take = functools.partial(self._take_gradient, f"gradient/{model}_{name}")
                self._handles.append(parameter.register_hook(take))

    def register_hook(self, module: Any) -> None:
        """Alias of `register_module`."""
        self.register_module(module)

    def register_loss(self, loss_module: Any) -> None:
        """Save the inputs and output of a loss module.

        Raises:
            SMDebugTypeError: It is no module.
        """
        if not hasattr(loss_module, "register_forward_hook"):
            raise SMDebugTypeError(f"{type(loss_module).__name__} is not a PyTorch module.")
        self._names_of_modules[loss_module] = type(loss_module).__name__
        self._know([f"{type(loss_module).__name__}_output_0"])
        self._listen()

    def set_mode(self, mode: ModeKeys) -> None:
        """Set the mode from now on.

        Raises:
            SMDebugValueError: It is no mode.
        """
        if not isinstance(mode, ModeKeys):
            raise SMDebugValueError(f"{mode!r} is not a mode; use one of {', '.join(item.name for item in ModeKeys)}.")
        self.mode = mode
        self.mode_steps.setdefault(mode, -1)

    def save_scalar(self, name: str, value: Any, sm_metric: bool = False, timestamp: float | None = None) -> None:
        """Save a number with the current step, even if the step is not due.

        Args:
            name: Of the number; `scalar/` is put before it.
            value: A number, or a tensor of one element.
            sm_metric, timestamp: Taken and not used.

        Raises:
            SMDebugTypeError: It is no number.
        """
        array = array_of(value)
        if array.size != 1:
            raise SMDebugTypeError(f"scalar/{name} has {array.size} elements; it must have one.")
        self._numbers[f"scalar/{name}"] = array

    def save_tensor(
        self, tensor_name: str, tensor_value: Any, collections_to_write: str | Iterable[str] = CollectionKeys.DEFAULT
    ) -> None:
        """Save a tensor of the script, with the next saved layer.

        Args:
            tensor_name: Its name.
            tensor_value: A tensor, or what becomes an array.
            collections_to_write: The collections it belongs to.
        """
        names = [collections_to_write] if isinstance(collections_to_write, str) else collections_to_write
        for name in names:
            self._custom[tensor_name] = array_of(tensor_value), name

    @_guarded
    def record_tensor_value(self, tensor_name: str, tensor_value: Any) -> None:
        """Save a tensor as if a module of that name had returned it."""
        if self._gathered is not None:
            self._gathered.take_all(tensor_name, "_output_", tensor_value)

    def get_collection(self, name: str, create: bool = True) -> Collection:
        """Return a collection, created if missing."""
        return self._choice.get(name, create)

    def get_collections(self) -> dict[str, Collection]:
        """Return the collections by name."""
        return self._choice.collections

    def add_collection(self, collection: Collection) -> None:
        """Add a collection; it replaces one of the same name.

        Raises:
            SMDebugTypeError: It is none.
        """
        if not isinstance(collection, Collection):
            raise SMDebugTypeError(f"{collection!r} is not a Collection.")
        self._choice.collections[collection.name] = collection

    @classmethod
    def create_from_json_file(cls, json_file_path: str | None = None) -> Hook:
        """Raise: SageMaker's settings file is not supported.

        Raises:
            SMDebugNotImplementedError: Always.
        """
        raise SMDebugNotImplementedError("SageMaker's JSON settings are not read. Pass them to Hook(…) in the script.")

    def close(self) -> None:
        """Save pending data, remove all hooks, and end the run."""
        if self.closed:
            return
        self._end_step()
        self.closed = True
        atexit.unregister(self.close)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._listening is not None:
            self._listening.stop()
        if self._saving is not None:
            self._saving.book.collections = self._choice.to_json()
            for problem in self._saving.close(EndState.FINISHED, "", self.guard.problems):
                self.guard.report(problem, outcome="")

    # What the model does

    @property
    def _saves(self) -> bool:
        return not self.dry_run and (self._everyone or not self._ranks.rank)

    def _know(self, names: Iterable[str]) -> None:
        self._known_names.extend(names)
        if self._saving is not None:
            self._saving.expect(self._known_names)

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = Listening(self._forward_begins, self._forward_ended)

    def _forward_begins(self, module: Any, _: Any) -> None:
        if module in self._roots:
            self._begin_step(module)

    def _forward_ended(self, module: Any, given: Any, made: Any) -> None:
        if module in self._names_of_modules:
            self._take_layer(module, given, made)

    @_guarded
    def _begin_step(self, root: Any) -> None:
        if self.step >= 0:
            self._end_step()  # what is saved before the first step is saved with it
        self._choice.settle(self._names_of_modules)
        self.step += 1
        self.mode_steps[self.mode] += 1
        if self.mode is not ModeKeys.GLOBAL:
            self.mode_steps[ModeKeys.GLOBAL] = self.step
        self._now = self.step, self.mode, self.mode_steps[self.mode]
        due = self._choice.due(self.mode, self.mode_steps[self.mode])
        self._gathered = Gathered(self._choice, due, self.guard.report) if due else None
        if self._gathered is not None:
            for name, parameter in root.named_parameters():
                self._gathered.take(f"{type(root).__name__}_{name}", parameter)

    @_guarded
    def _take_layer(self, module: Any, given: Any, made: Any) -> None:
        if self._gathered is None:
            return
        name = self._names_of_modules[module]
        self._gathered.take_all(name, "_input_", given)
        self._gathered.take_all(name, "_output_", made)
        self._take_custom()

    @_guarded
    def _take_gradient(self, name: str, gradient: Any) -> None:
        if self._gathered is not None and gradient is not None:
            self._gathered.take(name, gradient)
        self._take_custom()

    def _take_custom(self) -> None:
        custom, self._custom = self._custom, {}
        for name, (value, collection) in custom.items():
            self._choice.get(collection).add_tensor_name(name)
            if self._gathered is not None:
                self._gathered.keep(name, value)

    @_guarded
    def _end_step(self) -> None:
        gathered, self._gathered = self._gathered, None
        numbers, self._numbers = self._numbers, {}
        values: Mapping[str, Array] = {**(gathered.values if gathered else {}), **numbers}
        if self._saving is not None and (values or (gathered and gathered.shapes)):
            self._saving.book.collections = self._choice.to_json()
            step, mode, mode_step = self._now
            self._saving.put(step, mode, mode_step, values, gathered.shapes if gathered else {})


def get_hook(json_config_path: str | None = None, create_if_not_exists: bool = False) -> Hook | None:
    """Return the hook that was created last; None if there is none.

    Raises:
        SMDebugNotImplementedError: A hook is to be made of SageMaker's file of settings.
    """
    if _current is None and (json_config_path or create_if_not_exists):
        return Hook.create_from_json_file(json_config_path)
    return _current


def del_hook() -> None:
    """Forget the hook that was created last; it stays active."""
    global _current
    _current = None


def _choice(
    save_config: Any, reduction_config: ReductionConfig | None, include_regex: str | Iterable[str] | None,
    include_collections: Iterable[str] | None, save_all: bool,
) -> Choice:
    included = {*(include_collections or ()), CollectionKeys.LOSSES}
    if include_regex is not None:
        included.add(CollectionKeys.DEFAULT)
    if save_all:
        included.add(CollectionKeys.ALL)
    choice = Choice(SaveConfig.parse(save_config), reduction_config or ReductionConfig(save_raw_tensor=True), included)
    if include_regex is not None:
        choice.get(CollectionKeys.DEFAULT).include(include_regex)
    if save_all:
        choice.get(CollectionKeys.ALL).include(".*")
    return choice
