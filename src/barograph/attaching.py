"""`barograph.attach`: recording with one line in the script."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barograph.attached import AttachedRun
from barograph.capture import recording, replaying
from barograph.capture.presets import preset_named
from barograph.capture.recording import Recording
from barograph.companions import standard_error, start_gatherer, start_studio, start_watcher
from barograph.errors import AlreadyAttached, SettingsError
from barograph.model.actions import INTERVENTIONS, actions_from
from barograph.model.clock import SystemClock
from barograph.model.launch import Launch
from barograph.model.manifest import EndState
from barograph.model.probe import ProbeSettings
from barograph.model.selection import Selection
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file
from barograph.provenance.secrets import Secrets
from barograph.rules.registry import check_capsule_on, needs_of, rules_from_settings
from barograph.runs.state.claim import claim_run
from barograph.runs.state.places import new_manifest, new_place
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    pass


def attach(
    model: Any = None,
    optimizer: Any = None,
    *,
    to: str | os.PathLike[str] = "",
    config: str | os.PathLike[str] | None = None,
    collections: Sequence[Selection] = (),
    watch: bool = True,
    notify: Sequence[str | Mapping[str, Any]] = (),
    allow: Iterable[str] = (),
    checkpoint: Callable[[], object] | None = None,
    explicit_steps: bool = False,
    first_step: int = 0,
    source: Callable[[int], object] | None = None,
    studio: bool = False,
    probe: Any = None,
    **settings: Any,
) -> AttachedRun:
    """Record this process's training; use the returned run in a `with` statement.

    Under `barograph run`, the script joins that run: its models, optimizers and collections are added. The command's
    options set the run directory, budget and rules; arguments that would change these are ignored with a warning.

    Args:
        model: A module, a list of modules, or a mapping of names to modules, which prefix the paths. None: every model
            that this process trains, also models created later.
        optimizer: An optimizer, a list, or a mapping of names to optimizers. None: every optimizer that steps.
        to: Directory or URL of the run. "": a new directory below `barograph-runs/`. Required for distributed training.
        config: Path of a `barograph.toml`. Arguments override it.
        collections: Additional tensors to record.
        watch: Start a process that runs the rules and prints findings to standard error. Ignored under `barograph run`.
        notify: Notification targets, as URLs or as tables with the entries of `[[notify]]`. Write secrets as "$NAME" or
            "${file:PATH}". Ignored under `barograph run`.
        allow: Actions that may change the training: "lower_lr", "skip_step".
        checkpoint: Saves a checkpoint. Called in the training thread of every worker, between two steps, if a finding
            requests one before it stops the training. May return the checkpoint's path. None: Barograph saves the
            models and optimizers it knows into the run.
        explicit_steps: A step ends when the script calls `run.step()`, not when an optimizer steps.
        first_step: Number of the first step. Set it when you resume with an optimizer that keeps no step count, such as
            SGD. Adam keeps one.
        source: Returns the name of a sample, such as its file, given its index in the data set; used by the data trace.
            None: the data set's own `source(index)`, or its list of paths.
        studio: Print a link to the run in the web UI, which starts if none serves the place of the run.
        probe: Samples whose layer outputs are stored at each evaluation (PyTorch, Keras): a number, which takes the
            first ones of the evaluation data, or a table with the entries of `[probe]`. Or the samples: a tensor or
            array, a pair of inputs and targets, or in PyTorch a loader; they take a forward pass of their own at each
            evaluation. None: off.
        settings: Any field of `Settings`: `preset="exact"`, `budget="2%"`, `budget=None` (no limit),
            `on_finding="stop"`, `strict=True`, …

    Raises:
        SettingsError: A setting has the wrong name, type or value.
        AlreadyAttached: Another `attach` is already recording this process.
        RunInUse: Another process is writing the run at `to`.
        RunFinished: The run at `to` has ended.
        StoreError: `to` cannot be written.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with attach(model, optimizer, to="memory://attach", watch=False) as run:
        ...     for batch in torch.ones(3, 8, 4):
        ...         optimizer.zero_grad()
        ...         model(batch).square().mean().backward()
        ...         optimizer.step()
        ...     run.log({"accuracy": 0.5})
        >>> import barograph
        >>> barograph.open("memory://attach").series("loss:total").steps
        array([0, 1, 2])
    """
    _check_types(model, optimizer)
    allowed = actions_from("allow", allow if isinstance(allow, str) else list(allow), INTERVENTIONS)
    given = None if probe is None or isinstance(probe, int | Mapping | ProbeSettings) else probe
    if probe is not None:
        settings["probe"] = settings.get("probe", True) if given is not None else probe
    wanted = _settings({**settings, **({"notify": list(notify)} if notify else {})}, to, config, collections)
    wanted = _with(wanted, allow=tuple(dict.fromkeys((*wanted.allow, *allowed))))
    preset_named(wanted.preset)
    under_run = recording.launched()
    if under_run is not None:
        _hand_over(under_run, model, optimizer)
        under_run.let_script_end_steps(explicit_steps)
        under_run.session.counts.begin_at(first_step)
        under_run.name_samples(source)
        under_run.ask_for(wanted.collections)
        _set_handlers(under_run, wanted.allow, checkpoint)
        under_run.observe(wanted.probe, given)
        settings.pop("probe", None)
        ignored = (("notify", notify), ("to", to), ("config", config is not None), ("studio", studio))
        unused = [*settings, *(name for name, is_given in ignored if is_given)]
        if unused:
            under_run.session.guard.report(
                f"attach ignores {', '.join(unused)} under `barograph run`; use the options of the command", outcome=""
            )
        return AttachedRun(under_run, owned=False)
    return begun(wanted, model, optimizer, config=config, watch=watch, checkpoint=checkpoint,
                 explicit_steps=explicit_steps, first_step=first_step, source=source, studio=studio, probe=given)


def begun(
    settings: Settings, model: Any = None, optimizer: Any = None, *, config: str | os.PathLike[str] | None = None,
    command: Sequence[str] = (), watch: bool = True, words_to: int | None = None,
    checkpoint: Callable[[], object] | None = None, explicit_steps: bool = False, first_step: int = 0,
    source: Callable[[int], object] | None = None, studio: bool = False, probe: Any = None,
) -> AttachedRun:
    """Start recording this process with complete settings; see `attach` for the other arguments.

    Args:
        settings: Complete settings of the run.
        command: Command line stored in the run. Empty: the one of this process.
        words_to: File descriptor that the watcher writes to. None: standard error.
        probe: Samples of the probe. None: those of the evaluation data.
    """
    if (other := recording.current()) is not None:
        # Before a place is claimed for it.
        raise AlreadyAttached(f"This process is already being recorded to {other.url}. Close that run first.")
    _check_watching(settings)
    if replaying.is_replaying():
        # A replayed step is not a training: its run stays as it is, and nothing is printed or sent.
        settings = _with(settings, to=replaying.PLACE, origin=False, strict=False, notify=())
        watch = studio = False
    words = command or sys.orig_argv
    started = recording.start(_launch(settings, words), only=model is not None, explicit_steps=explicit_steps)
    try:
        started.session.counts.begin_at(first_step)
        started.name_samples(source)
        started.observe(settings.probe, probe)
        _hand_over(started, model, optimizer)
        _set_handlers(started, settings.allow, checkpoint)
    except BaseException as error:
        started.ended(EndState.FAILED, f"{type(error).__name__}: {error}")
        started.close()
        raise
    # A run in memory can be watched in this process alone; of several workers, one starts the watcher.
    leads = _rank() in (None, 0) and not started.url.startswith("memory:")
    output = standard_error() if words_to is None else words_to
    if studio and leads:
        start_studio(started, output)
    return AttachedRun(started, owned=True, watcher=start_watcher(started, output) if watch and leads else None,
                       gatherer=start_gatherer(started, config, words) if settings.origin and leads else None)


def _settings(
    given: Mapping[str, Any],
    to: str | os.PathLike[str],
    config: str | os.PathLike[str] | None,
    collections: Sequence[Selection],
) -> Settings:
    base = settings_from_file(config) if config is not None else Settings()
    data = dict(given)
    if to:
        data["to"] = os.fspath(to)
    if "budget" in data and data["budget"] is None:
        data["budget"] = "off"
    settings = settings_from_mapping(data, base=base)
    if collections:
        wrong = next((item for item in collections if not isinstance(item, Selection)), None)
        if wrong is not None:
            raise SettingsError(f"collections holds {wrong!r}; each must be a barograph.Selection, as in "
                                'Selection(name="biases", kinds=frozenset({Kind.WEIGHT}), include=("*.bias",)).')
        settings = _with(settings, collections=(*settings.collections, *collections))
    return settings


def _with(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{**{name: getattr(settings, name) for name in Settings.__slots__}, **changes})


def _launch(settings: Settings, command: Sequence[str]) -> Launch:
    """Claim the run, or join the one that the first worker claimed."""
    if not settings.to:
        if not _is_alone():
            raise SettingsError(
                'Distributed training needs one run directory for all workers: attach(…, to="runs/mine").'
            )
        settings = _with(settings, to=new_place(sys.argv[0] or "interactive"))
    rules = rules_from_settings(settings)
    check_capsule_on(settings, rules)
    store = store_from_url(settings.to)
    # The whole place, since the script may change its directory before its first step.
    settings = _with(settings, to=store.url)
    manifest = new_manifest(settings, command=Secrets(os.environ).hide_words(command), clock=SystemClock())
    # Each worker of a replay has a place of its own, and waits for no other to claim it.
    rank = None if replaying.is_replaying() else _rank()
    claim = claim_run(store, manifest, clock=SystemClock(), rank=rank)
    return Launch(settings, claim.attempt, needs_of(rules))


def _hand_over(recorded: Recording, model: Any, optimizer: Any) -> None:
    integration = recorded.torch
    if integration is not None:
        for label, item in _labelled(model):
            integration.watch_model(item, label)
        for label, item in _labelled(optimizer):
            integration.watch_optimizer(item, label)


def _set_handlers(recorded: Recording, allowed: Iterable[str], checkpoint: Callable[[], object] | None) -> None:
    recorded.session.steering.allow(allowed)
    if checkpoint is not None:
        def save() -> str:
            place = checkpoint()
            return str(place) if isinstance(place, str | os.PathLike) else ""

        recorded.session.steering.save_checkpoint_with(save)


def _check_watching(settings: Settings) -> None:
    """Check the watcher's settings in the script, before the run is claimed.

    Raises:
        SettingsError: A setting of the watcher is invalid.
    """
    from barograph.watch.actions import asked_and_not_allowed

    for action in asked_and_not_allowed(settings):
        raise SettingsError(f"The action {action} changes the training and is not allowed. "
                            f'Allow it: attach(…, allow={{"{action.replace("-", "_")}"}}).')
    if settings.notify:
        from barograph.watch.addressing import recipients_of

        recipients_of(settings)


def _check_types(model: Any, optimizer: Any) -> None:
    """Refuse objects that are not modules or optimizers, before anything is claimed or hooked.

    Checks attributes, not classes: this file imports no framework.

    Raises:
        SettingsError: An argument has the wrong type.
    """
    for _, item in _labelled(model):
        if not hasattr(item, "named_parameters"):
            raise SettingsError(f"attach got {type(item).__name__} as a model; it must be a module, a list of "
                                "modules, or a mapping of names to modules.")
    for _, item in _labelled(optimizer):
        if not hasattr(item, "param_groups"):
            raise SettingsError(f"attach got {type(item).__name__} as an optimizer; it must be an optimizer, a "
                                "list of optimizers, or a mapping of names to optimizers.")


def _labelled(value: Any) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [(str(label), item) for label, item in value.items()]
    if isinstance(value, list | tuple):
        return [("", item) for item in value]
    return [("", value)]


def _rank() -> int | None:
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else None


def _is_alone() -> bool:
    return os.environ.get("WORLD_SIZE", "1") in ("", "1")
