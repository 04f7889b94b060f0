"""`barograph.attach`: recording with one line in the script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barograph.capture import recording
from barograph.capture.presets import preset_named
from barograph.capture.recording import Recording
from barograph.capture.steps import Steps
from barograph.errors import AlreadyAttached, SessionClosed, SettingsError, UnknownName, nearest
from barograph.model.actions import INTERVENTIONS, actions_from
from barograph.model.clock import SystemClock
from barograph.model.launch import LAUNCH_VARIABLE, Launch
from barograph.model.notify import notify_to_json
from barograph.model.question import question_now
from barograph.model.selection import Selection
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file
from barograph.model.step import Mode
from barograph.provenance.secrets import Secrets
from barograph.rules.registry import codes_of, needs_of, rules_from_settings
from barograph.runs.claim import claim_run
from barograph.runs.gathering import PATIENCE_SECS, start_gathering
from barograph.runs.places import away_from, new_manifest, new_place
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    from barograph.capture.array_tap import ArrayTap


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
    **settings: Any,
) -> AttachedRun:
    """Return a recording of this process's training; use it in a `with` statement.

    Under `barograph run` it joins the run that goes on: models, optimizers and collections are added to what is
    recorded, and where the run is, its price and its rules are as the command said; that is warned of.

    Args:
        model: A module, or a mapping of names to modules (then each path begins with its name). None: every
            model that this process trains, also those that are built later.
        optimizer: An optimizer, or a mapping of names to optimizers. None: every one that steps.
        to: Directory or URL of the run; "" picks a new place below `barograph-runs/`. Several workers must
            be given one.
        config: A `barograph.toml`; what is said here comes before it.
        collections: More to record.
        watch: Start a second process that watches and tells findings on standard error. Not under
            `barograph run`, which watches anyway.
        notify: Who else is told, as URLs or as tables with the entries of `[[notify]]`; secrets as "$NAME" or
            "${file:PATH}". Not under `barograph run`, whose own options hold.
        allow: Actions that may change what the training computes: "lower_lr", "skip_step".
        checkpoint: Called in the thread that trains, between two steps, where a finding asks for a checkpoint before
            it stops the training; may return where it was saved. Of several workers, in each. None: Barograph saves the
            models and optimizers it knows into the run.
        explicit_steps: Steps end where the script calls `run.step()`, not where an optimizer steps.
        first_step: Number of the first step, where the script goes on from a checkpoint whose optimizer keeps no
            count: SGD keeps none, Adam does.
        source: Returns what a sample is called, a file say, by its index in the data set; for the data trace. None: the
            data set's own `source(index)`, or its list of paths.
        settings: Any entry of `Settings`: `preset="exact"`, `budget="2%"`, `budget=None` (no limit),
            `on_finding="stop"`, `strict=True`, …

    Raises:
        SettingsError: A setting has the wrong name, type or value.
        AlreadyAttached: This process is being recorded already, by another `attach`.
        RunInUse: Another process writes the run at `to`.
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
    wanted = _settings({**settings, **({"notify": list(notify)} if notify else {})}, to, config, collections)
    wanted = _with(wanted, allow=tuple(dict.fromkeys((*wanted.allow, *allowed))))
    preset_named(wanted.preset)
    under_run = recording.launched()
    if under_run is not None:
        _hand_over(under_run, model, optimizer)
        under_run.let_script_end_steps(explicit_steps)
        under_run.session.first_step = first_step
        under_run.name_samples(source)
        under_run.ask_for(wanted.collections)
        _lend(under_run, wanted.allow, checkpoint)
        unused = [*settings, *(name for name, given in (("notify", notify), ("to", to), ("config", config is not None))
                               if given)]
        if unused:
            under_run.session.guard.report(
                f"attach was given {', '.join(unused)} under `barograph run`, whose own options hold", outcome=""
            )
        return AttachedRun(under_run, owned=False)
    return begun(wanted, model, optimizer, config=config, watch=watch, checkpoint=checkpoint,
                 explicit_steps=explicit_steps, first_step=first_step, source=source)


def begun(
    settings: Settings, model: Any = None, optimizer: Any = None, *, config: str | os.PathLike[str] | None = None,
    command: Sequence[str] = (), watch: bool = True, words_to: int | None = None,
    checkpoint: Callable[[], object] | None = None, explicit_steps: bool = False, first_step: int = 0,
    source: Callable[[int], object] | None = None,
) -> AttachedRun:
    """Return a recording of this process's training, as settings say that are complete; else as of `attach`.

    Args:
        settings: All of them.
        command: What the run was made by, for people; none: what this process was started by.
        words_to: File descriptor that the watcher writes to; None: standard error.
    """
    if (other := recording.current()) is not None:
        # Before a place is claimed for it.
        raise AlreadyAttached(f"This process is being recorded already, to {other.url}. Close that run first.")
    _check_watching(settings)
    words = command or sys.orig_argv
    started = recording.start(_launch(settings, words), only=model is not None, explicit_steps=explicit_steps)
    started.session.first_step = first_step
    started.name_samples(source)
    _hand_over(started, model, optimizer)
    _lend(started, settings.allow, checkpoint)
    # A run in memory can be watched in this process alone; of several workers, one starts the watcher.
    leads = _rank() in (None, 0) and not started.url.startswith("memory:")
    told = _standard_error() if words_to is None else words_to
    return AttachedRun(started, owned=True, watcher=_start_watcher(started, told) if watch and leads else None,
                       gatherer=_start_gathering(started, config, words) if settings.origin and leads else None)


class AttachedRun:
    """The run that `attach` records; ends with the `with` block, `close`, or the process."""

    def __init__(
        self, recorded: Recording, *, owned: bool, watcher: subprocess.Popen[bytes] | None = None,
        gatherer: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._recording = recorded
        self._owned = owned
        self._watcher = watcher
        self._gatherer = gatherer
        if owned:
            recorded.after_close(self._end_watching)

    def __repr__(self) -> str:
        return f"AttachedRun({self.url!r})"

    @property
    def url(self) -> str:
        """Where the run is; what `barograph show` and `barograph.open` take."""
        return self._recording.url

    def log(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Record numbers.

        Args:
            values: Name to number; a tensor of one element is read, which waits for its device.
            step: Step they belong to; None: the number of steps made so far.

        Raises:
            SessionClosed: The run has been closed.
        """
        recorded = self._recording
        try:
            recorded.session.log(values, step)
        except SessionClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the guard decides; a number that is none must not end a training
            recorded.session.guard.caught(error, "logging numbers")

    def save(self, name: str, tensor: Any) -> None:
        """Record a whole tensor under a name, with the step that is under way.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.tap.save(name, tensor)

    def save_predictions(self, targets: Any, predictions: Any, name: str = "predictions") -> None:
        """Count labels and answers, for scripts whose loss is no loss function of torch.

        They are added up over the step, or the evaluation, that is under way. What is kept is how often each class
        was the truth and each pair of truth and answer occurred, never what was handed over. Tensors on a device
        are waited for. What does not fit together is warned of once, and training goes on.

        Args:
            targets: The true class of each sample, whole numbers from 0: a tensor, an array or a list.
            predictions: The answered class of each, likewise, or one row of scores each, whose greatest counts.
            name: Under which they are recorded, as in `label:NAME[3]` and `confusion:NAME[3,5]`.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.tap.save_predictions(targets, predictions, name)

    def mode(self, mode: str | Mode | None) -> _ModeSet:
        """Say what the script does from now on: "train", "eval", "predict"; None: let Barograph see.

        As a context manager it holds for the block: `with run.mode("eval"): …`.

        Raises:
            UnknownName: There is no such mode.
            SessionClosed: The run has been closed.
        """
        self._check_open()
        wanted, before = _mode(mode), self._recording.session.mode
        self._recording.set_mode(wanted)
        return _ModeSet(self, before)

    def step(self, loss: Any = None) -> None:
        """End a step here; for scripts that move weights without an optimizer that Barograph knows.

        Args:
            loss: The step's loss, where no `backward` shows it.

        Raises:
            SettingsError: The process has imported torch, and `attach` was not told `explicit_steps=True`.
            SessionClosed: The run has been closed.
            TrainingStopped: A finding asked for it.
        """
        tap = self._recording.tap
        if not tap.explicit_steps:
            raise SettingsError("run.step() needs attach(…, explicit_steps=True); without, optimizer steps are steps.")
        self._check_open()
        tap.end_explicit_step(loss)
        self._recording.session.steering.raise_if_stopped()

    def tap(self, name: str = "") -> ArrayTap:
        """Return what takes arrays and numbers of a training whose framework Barograph does not know.

        Args:
            name: Of the series of steps, where a training has several; the same name gives the same tap.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        return self._recording.array_tap(name)

    def checkpoint(self) -> None:
        """Have a checkpoint saved where the script asks for its next batch, or `steps` for its next step.

        That is where a training can go on from (`barograph resume`): all that belongs to the step is done. Of a loader
        it must be known how its pass began: where `attach` was not told of `checkpoints`, that is so from the next on.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        self._recording.ask_for_checkpoint()

    def steps(self, count: int) -> Steps:
        """Return the numbers 0 to `count` - 1, for a loop that counts its own steps: `for step in run.steps(1000):`.

        Of a PyTorch training, checkpoints are saved between two of them, and a resumed one goes on with the next.

        Args:
            count: Of the steps, in all.

        Raises:
            SessionClosed: The run has been closed.
        """
        self._check_open()
        return Steps(count, self._recording.tap)

    def close(self) -> None:
        """End the recording: every hook is taken out, everything is published. Later calls do nothing."""
        if self._owned:
            self._recording.close()

    def _end_watching(self) -> None:
        gatherer, self._gatherer = self._gatherer, None
        if gatherer is not None:
            _await_gatherer(gatherer)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            # Where nothing was recorded there is nothing to tell.
            settings = self._recording.session.settings
            last_words = _LAST_WORDS_SECS + (settings.notify_timeout_secs if settings.notify else 0.0)
            _await_watcher(watcher, last_words if self._recording.session.declared else 0.0)

    @property
    def closed(self) -> bool:
        """Whether the run records nothing more."""
        return self._recording.session.closed

    def _check_open(self) -> None:
        if self.closed:
            raise SessionClosed(f"This run is closed; it records nothing more ({self.url}).")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._owned:
            self._recording.failed(kind, error)
        self.close()


class _ModeSet:
    """Puts the mode back that held before, where `run.mode` is used in a `with` statement."""

    def __init__(self, run: AttachedRun, before: Mode | None) -> None:
        self._run = run
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        if not self._run.closed:
            self._run.mode(self._before)


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
        settings = _with(settings, collections=(*settings.collections, *collections))
    return settings


def _with(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{**{name: getattr(settings, name) for name in Settings.__slots__}, **changes})


def _launch(settings: Settings, command: Sequence[str]) -> Launch:
    """Claim the run, or join the one that the first worker claims."""
    if not settings.to:
        if not _is_alone():
            raise SettingsError(
                'Several workers train together, so attach needs one place for all: attach(…, to="runs/mine").'
            )
        settings = _with(settings, to=new_place(sys.argv[0] or "interactive"))
    rules = rules_from_settings(settings)
    codes_of(settings.recorder.capsule_on if settings.recorder else (), settings)
    store = store_from_url(settings.to)
    # The whole place, since the script may change its directory before its first step.
    settings = _with(settings, to=store.url)
    manifest = new_manifest(settings, command=Secrets(os.environ).hide_words(command), clock=SystemClock())
    claim = claim_run(store, manifest, clock=SystemClock(), rank=_rank())
    return Launch(settings, claim.attempt, needs_of(rules))


def _hand_over(recorded: Recording, model: Any, optimizer: Any) -> None:
    tap = recorded.torch
    if tap is not None:
        for label, item in _labelled(model):
            tap.watch_model(item, label)
        for label, item in _labelled(optimizer):
            tap.watch_optimizer(item, label)


def _lend(recorded: Recording, allowed: Iterable[str], checkpoint: Callable[[], object] | None) -> None:
    recorded.session.steering.allowed |= {str(name) for name in allowed}
    if checkpoint is not None:
        def save() -> str:
            place = checkpoint()
            return str(place) if isinstance(place, str | os.PathLike) else ""

        recorded.session.steering.save_checkpoint = save


def _check_watching(settings: Settings) -> None:
    """Check what the watcher will use, in the script, before anything is claimed.

    Raises:
        SettingsError: Something of it is wrong.
    """
    from barograph.watch.actions import asked_and_not_allowed

    for action in asked_and_not_allowed(settings):
        raise SettingsError(f"A finding is to {action}, which changes the training and which it does not allow; "
                            f'write attach(…, allow={{"{action.replace("-", "_")}"}}).')
    if settings.notify:
        from barograph.watch.addressing import recipients_of

        recipients_of(settings)


def _check_types(model: Any, optimizer: Any) -> None:
    """Refuse what is no module and no optimizer, before anything is claimed or hooked.

    By what they have, not by class: this file knows no framework.

    Raises:
        SettingsError: Something was handed over in the wrong place.
    """
    for _, item in _labelled(model):
        if not hasattr(item, "named_parameters"):
            raise SettingsError(f"attach was given {type(item).__name__} as a model; it must be a module, a list of "
                                "modules, or a mapping of names to modules.")
    for _, item in _labelled(optimizer):
        if not hasattr(item, "param_groups"):
            raise SettingsError(f"attach was given {type(item).__name__} as an optimizer; it must be an optimizer, a "
                                "list of optimizers, or a mapping of names to optimizers.")


def _labelled(value: Any) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [(str(label), item) for label, item in value.items()]
    if isinstance(value, list | tuple):
        return [("", item) for item in value]
    return [("", value)]


def _mode(mode: str | Mode | None) -> Mode | None:
    if mode is None:
        return None
    if mode not in tuple(Mode):
        raise UnknownName(f'"{mode}" is no mode. {nearest(str(mode), list(Mode))}')
    return Mode(mode)


_LAST_WORDS_SECS = 15.0
_FAREWELL_SECS = 2.0


def _rank() -> int | None:
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdigit() else None


def _is_alone() -> bool:
    return os.environ.get("WORLD_SIZE", "1") in ("", "1")


def _start_watcher(recorded: Recording, words_to: int) -> subprocess.Popen[bytes] | None:
    """Start to watch from another process; None where none can be started: then the training goes on unwatched."""
    environment = {name: value for name, value in os.environ.items() if name != LAUNCH_VARIABLE}
    # -P: what lies in the script's folder must not be imported in place of a library.
    command = [sys.executable, "-P", "-m", "barograph", "watch", recorded.url, "--brief"]
    settings = recorded.session.settings
    # By name: a watcher loads rules that are not installed, and writes files, only where it is told to.
    command += ["--rules", ",".join(settings.rules) or "none"]
    if settings.notify:
        # Not among its words, which everybody on this machine can read.
        environment["BAROGRAPH_NOTIFY"] = json.dumps([notify_to_json(item) for item in settings.notify])
    if settings.findings_to:
        command += ["--findings-to", settings.findings_to]
    try:
        # Of its own session: a Ctrl-C at the terminal is for the training, whose end it still has to tell.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words_to, stderr=words_to,
                                env=environment, start_new_session=True)
    except OSError as error:
        recorded.session.guard.caught(error, "starting to watch")
        return None


def _start_gathering(
    recorded: Recording, config: str | os.PathLike[str] | None, command: Sequence[str]
) -> subprocess.Popen[bytes] | None:
    """Start to find out what made this run, in another process; None where none can be started."""
    # The script may be in its folder no more when it is asked; its files are read as they are now.
    question = question_now(command, away=away_from(recorded.url), by_this_python=True,
                            settings_file=os.path.abspath(config) if config is not None else "")
    try:
        return start_gathering(recorded.url, recorded.launch.attempt, question)
    except OSError as error:
        recorded.session.guard.caught(error, "keeping what made this run")
        return None


def _await_gatherer(gatherer: subprocess.Popen[bytes]) -> None:
    """Let it write what made the run; a training that ends at once is waited with for a moment."""
    try:
        gatherer.wait(PATIENCE_SECS)
    except subprocess.TimeoutExpired:
        gatherer.kill()
        gatherer.wait()


def _standard_error() -> int:
    """Return where the script's standard error goes, as another process can write to it."""
    if hasattr(sys.stderr, "watch_fd_thread"):
        return 2  # a notebook shows what comes there, while its stream names the terminal of its server
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return 2  # a stream of Python alone, as notebooks and test runners have


def _await_watcher(watcher: subprocess.Popen[bytes], patience_secs: float) -> None:
    """Let the watcher tell its last findings; it ends by itself when the run has."""
    try:
        watcher.wait(patience_secs)
    except subprocess.TimeoutExpired:
        watcher.terminate()
        try:
            watcher.wait(_FAREWELL_SECS)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()
        try:
            watcher.wait(_LAST_WORDS_SECS)
        except subprocess.TimeoutExpired:
            watcher.kill()
