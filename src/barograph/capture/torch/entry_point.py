"""Entry points of PyTorch hooks: guarded, timed, and inactive for calls that Barograph itself causes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

import torch
from torch import nn

from barograph.capture.session import Session
from barograph.capture.thread_clock import cpu_secs
from barograph.model.step import Mode

_P = ParamSpec("_P")

HOOKS_WARNING = r"Using `torch\.compile\(module\)` when there are global hooks"
"""Start of torch's warning about compiled models with global hooks; our hooks handle that case."""

GRAPH_REASON = "operations inside a CUDA graph were not recorded: a replay calls no hooks"


class Place(threading.local):
    """The state of one thread.

    Attributes:
        root: The model whose forward pass runs.
        mode: Mode of the pass; None: not recorded.
        mask: Mask of the pass.
        fed_mask: Mask of the model's inputs; 0 after they were recorded.
        busy: Code of ours runs, so its calls are ignored.
    """

    root: nn.Module | None = None
    mode: Mode | None = None
    mask: int = 0
    fed_mask: int = 0
    busy: bool = False

    def enter(self, module: nn.Module) -> None:
        """Note the start of a model's forward pass."""
        self.root, self.mode = module, None

    def record(self, mode: Mode) -> None:
        """Record the pass, in this mode."""
        self.mode = mode

    def take(self, mask: int, fed_mask: int) -> None:
        """Set the masks of the pass and of the model's inputs."""
        self.mask, self.fed_mask = mask, fed_mask

    def take_fed(self) -> int:
        """Return the mask of the model's inputs, once."""
        mask, self.fed_mask = self.fed_mask, 0
        return mask

    def leave(self) -> None:
        """Note that the forward pass has ended."""
        self.root = self.mode = None

    def forget_root(self) -> None:
        """Note that no forward pass runs, however the last one ended."""
        self.root = None

    def begin_own_work(self) -> None:
        """Ignore calls from now on."""
        self.busy = True

    def end_own_work(self) -> None:
        """Record again."""
        self.busy = False


class HookState:
    """State shared by all entry points: the session and a lock.

    Replicas of a data-parallel model run in threads, and all write into one step.
    """

    __slots__ = ("lock", "place", "session")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.place = Place()
        self.lock = threading.RLock()


class _HasEntry(Protocol):
    @property
    def hooks(self) -> HookState: ...


_Self = TypeVar("_Self", bound=_HasEntry)


def entry_point(
    doing: str,
) -> Callable[[Callable[Concatenate[_Self, _P], None]], Callable[Concatenate[_Self, _P], None]]:
    """Make a method an entry point from training, using its object's `hooks`.

    Args:
        doing: Description of the method for the warning.
    """

    def decorate(method: Callable[Concatenate[_Self, _P], None]) -> Callable[Concatenate[_Self, _P], None]:
        @functools.wraps(method)
        def enter(self: _Self, *args: _P.args, **kwargs: _P.kwargs) -> None:
            hooks = self.hooks
            session, place = hooks.session, hooks.place
            if place.busy or session.closed:
                return
            place.busy = True
            begin, started_secs = cpu_secs(), session.startup.cpu_secs
            try:
                if in_graph_capture():
                    session.seen.reasons["graph"] = GRAPH_REASON
                    return
                with hooks.lock:
                    method(self, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the guard handles all our errors
                session.guard.caught(error, doing)
            finally:
                place.busy = False
                # Start-up time is counted separately.
                session.price.charge(cpu_secs() - begin - (session.startup.cpu_secs - started_secs))

        return cast("Callable[Concatenate[_Self, _P], None]", enter)

    return decorate


_graph_task_id = torch._C._current_graph_task_id
_transform = torch._C._functorch.peek_interpreter_stack


def in_backward() -> bool:
    """Return whether the autograd engine runs in this thread: then calls are recomputations."""
    return _graph_task_id() != -1


def in_transform() -> bool:
    """Return whether a transform of torch.func runs, whose tensors have no readable elements."""
    return _transform() is not None


def is_readable_number(loss: torch.Tensor) -> bool:
    """Return whether a tensor is one floating-point number in host memory, outside of a backward pass or transform."""
    return (loss.is_cpu and loss.numel() == 1 and loss.is_floating_point() and _graph_task_id() == -1
            and _transform() is None)


def in_graph_capture() -> bool:
    """Return whether CUDA work is being captured into a graph, which a read would break."""
    return bool(torch.cuda.is_initialized()) and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]
