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
"""How torch begins to warn whoever compiles a model that global hooks fire once more for it: ours mind that."""

GRAPH_REASON = "operations inside a CUDA graph were not recorded: a replay calls no hooks"


class Place(threading.local):
    """The state of one thread.

    Attributes:
        root: The model whose forward pass runs.
        mode: What that is for; None: it is not recorded.
        mask: What is taken of it.
        fed_mask: What is taken of what the model is called with; 0 once it was.
        busy: Code of ours runs, so what is called now is our own doing.
    """

    root: nn.Module | None = None
    mode: Mode | None = None
    mask: int = 0
    fed_mask: int = 0
    busy: bool = False

    def enter(self, module: nn.Module) -> None:
        """Note that the forward pass of a model begins."""
        self.root, self.mode = module, None

    def record(self, mode: Mode) -> None:
        """Record the pass, in this mode."""
        self.mode = mode

    def take(self, mask: int, fed_mask: int) -> None:
        """Note what is taken of the pass, and of what the model is called with."""
        self.mask, self.fed_mask = mask, fed_mask

    def take_fed(self) -> int:
        """Return what is taken of what the model is called with; once."""
        mask, self.fed_mask = self.fed_mask, 0
        return mask

    def leave(self) -> None:
        """Note that the forward pass has ended."""
        self.root = self.mode = None

    def forget_root(self) -> None:
        """Note that no forward pass runs, however the last one ended."""
        self.root = None

    def begin_own_work(self) -> None:
        """Record nothing of what is called from now on."""
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
    """Make a method one of the ways into training, by its object's `hooks`.

    Args:
        doing: What it does, for people, should it fail.
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
            except Exception as error:  # noqa: BLE001 - the guard is where all errors of ours end
                session.guard.caught(error, doing)
            finally:
                place.busy = False
                # What belongs to starting up has its own account.
                session.price.charge(cpu_secs() - begin - (session.startup.cpu_secs - started_secs))

        return cast("Callable[Concatenate[_Self, _P], None]", enter)

    return decorate


def in_backward() -> bool:
    """Return whether the autograd engine runs in this thread: what is called now is recomputation."""
    return torch._C._current_graph_task_id() != -1


def in_transform() -> bool:
    """Return whether a transform of torch.func runs: its tensors have no elements that could be read."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def in_graph_capture() -> bool:
    """Return whether CUDA work is being written down instead of done: reading it then would break the graph."""
    return bool(torch.cuda.is_initialized()) and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]
