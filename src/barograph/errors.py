"""Every error Barograph raises, as one tree.

    BarographError
    ├── SettingsError (ValueError)        a setting has the wrong name, type or value
    │   └── UnknownName                   a name is not among those that exist; says the nearest
    ├── StoreError (OSError)              the place where runs are kept
    │   ├── StoreUnavailable              cannot be reached now; trying again may help
    │   ├── StoreFull                     no room is left
    │   ├── StoreDenied                   may not be read or written
    │   ├── ObjectNotFound                no object of that name
    │   └── ObjectExists                  an object of that name is there already
    ├── RunError                          a run on a store
    │   ├── NotARun                       nothing at that URL is a run
    │   ├── RunInUse                      another process is writing this run now
    │   ├── RunFinished                   the run at this URL has ended; it is not written again
    │   ├── NewerFormat                   written by a newer Barograph
    │   ├── DamagedChunk                  a file's bytes are not those that were published
    │   ├── UnknownKey (LookupError)      no such key in this run
    │   ├── UnknownStep (LookupError)     no such step in this run
    │   ├── UnknownWorker (LookupError)   no such worker in this run
    │   └── SplitTensor (LookupError)     the workers saved parts of a tensor, and none saved it whole
    ├── MeasureError                      arithmetic on tensors
    │   ├── ShapeMismatch (ValueError)    two arrays differ in shape
    │   └── UnsupportedDtype (TypeError)  no statistics are defined for this type of element
    ├── CaptureError                      inside the training process
    │   ├── AlreadyAttached               one process holds one session
    │   ├── SessionClosed                 the session has been closed
    │   ├── UnsupportedCapture            this kind of model or tensor cannot be captured
    │   └── NotPlain (TypeError)          a value cannot be written or read without what could run code
    ├── ReplayFailed                      a step that was held cannot be made again
    ├── ResumeFailed                      a training cannot go on from a checkpoint
    ├── CheckoutFailed                    the code of a run cannot be laid out
    ├── RerunFailed                       a run cannot be made again
    ├── RuleError                         a rule
    │   └── BadRule                       a rule breaks the contract of `rules.base.Rule`
    ├── WatchError                        a service that watches cannot go on
    ├── CatalogError                      experiments, trials, components and what is known of them
    │   ├── CatalogUnavailable            the catalog cannot be reached, or cannot be used
    │   ├── NewerCatalog                  a newer Barograph made it
    │   ├── NameTaken                     there is something of that name already
    │   ├── UnknownItem (LookupError)     there is nothing of that name
    │   ├── AmbiguousName (LookupError)   several things have that name
    │   ├── StillNeeded                   others came of what is to be deleted
    │   └── SearchError (ValueError)      a search does not say what is sought; points at the place
    ├── MissingExtra (ImportError)        a library that comes with an extra is not installed
    ├── ExportError                       what a run holds cannot be handed on to another program
    │   └── EndpointFailed (OSError)      an endpoint did not take what was sent to it
    ├── ImportFailed                      what another program has written cannot be made a run
    │   ├── DamagedSource                 a file's bytes cannot be what that program wrote
    │   └── BadArchive                    an archive is damaged, or made to do harm
    └── TrainingStopped                   training was stopped because a finding asked for it

Each takes one message string, because errors cross processes. The message names the thing, what it
was, what it must be and what to do; paths come last. Foreign errors are mapped where they enter.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BarographError(Exception):
    """Any error that Barograph raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __str__(self) -> str:
        # OSError children would print "[Errno …]"; every error of ours prints its one message.
        return str(self.args[0]) if self.args else ""


class SettingsError(BarographError, ValueError):
    """A setting has the wrong name, type or value."""


class UnknownName(SettingsError):
    """A name is not among those that exist."""


class StoreError(BarographError, OSError):
    """The place where runs are kept did not do what was asked."""


class StoreUnavailable(StoreError):
    """The store cannot be reached now; trying again may help."""


class StoreFull(StoreError):
    """No room is left in the store."""


class StoreDenied(StoreError):
    """The store may not be read or written by this user."""


class ObjectNotFound(StoreError):
    """The store holds no object of that name."""


class ObjectExists(StoreError):
    """The store already holds an object of that name."""


class RunError(BarographError):
    """A run on a store is not as it should be."""


class NotARun(RunError):
    """Nothing at that URL is a run."""


class RunInUse(RunError):
    """Another process is writing this run now."""


class RunFinished(RunError):
    """The run at this URL has ended; it is not written again."""


class NewerFormat(RunError):
    """The run was written by a newer Barograph than this one."""


class DamagedChunk(RunError):
    """A file's bytes are not those that were published."""


class UnknownKey(RunError, LookupError):
    """The run holds no such key."""


class UnknownStep(RunError, LookupError):
    """The run holds no such step."""


class UnknownWorker(RunError, LookupError):
    """The run holds no such worker."""


class SplitTensor(RunError, LookupError):
    """The workers saved parts of a tensor, and none saved it whole."""


class MeasureError(BarographError):
    """Arithmetic on tensors cannot be done."""


class ShapeMismatch(MeasureError, ValueError):
    """Two arrays that must have one shape differ."""


class UnsupportedDtype(MeasureError, TypeError):
    """No statistics are defined for this type of element."""


class CaptureError(BarographError):
    """Capture inside the training process cannot go on."""


class AlreadyAttached(CaptureError):
    """One process holds one session at a time."""


class SessionClosed(CaptureError):
    """The session has been closed and records nothing more."""


class UnsupportedCapture(CaptureError):
    """This kind of model or tensor cannot be captured."""


class NotPlain(CaptureError, TypeError):
    """A value cannot be written down, or read back, without what could run code."""


class ReplayFailed(BarographError):
    """A step that was held cannot be made again."""


class ResumeFailed(BarographError):
    """A training cannot go on from a checkpoint as if nothing had been."""


class CheckoutFailed(BarographError):
    """The code of a run cannot be laid out as it was."""


class RerunFailed(BarographError):
    """A run cannot be made again."""


class RuleError(BarographError):
    """A rule cannot be used."""


class BadRule(RuleError):
    """A rule breaks the contract of `rules.base.Rule`."""


class WatchError(BarographError):
    """A service that watches cannot go on."""


class ExportError(BarographError):
    """What a run holds cannot be handed on to another program."""


class CatalogError(BarographError):
    """What is known of experiments cannot be told, or kept."""


class CatalogUnavailable(CatalogError):
    """The catalog cannot be reached, or cannot be used."""


class NewerCatalog(CatalogError):
    """A newer Barograph made the catalog."""


class NameTaken(CatalogError):
    """There is something of that name already."""


class UnknownItem(CatalogError, LookupError):
    """There is nothing of that name in the catalog."""


class AmbiguousName(CatalogError, LookupError):
    """Several things in the catalog have that name."""


class StillNeeded(CatalogError):
    """Others came of what is to be deleted."""


class SearchError(CatalogError, ValueError):
    """A search does not say what is sought."""


class MissingExtra(BarographError, ImportError):
    """A library that comes with an extra is not installed."""


class EndpointFailed(ExportError, OSError):
    """An endpoint did not take what was sent to it."""


class ImportFailed(BarographError):
    """What another program has written cannot be made a run."""


class DamagedSource(ImportFailed):
    """A file's bytes cannot be what that program wrote."""


class BadArchive(ImportFailed):
    """An archive is damaged, or made to do harm."""


class TrainingStopped(BarographError):
    """Training was stopped because a finding asked for it.

    Raised between two steps, in the thread that trains. It is an ordinary exception: a script may
    catch it, and its `finally` blocks run. Uncaught under `barograph run`, the exit code is
    `EXIT_STOPPED`.
    """


EXIT_STOPPED = 79
"""Exit code of a script that a finding stopped (just above the range of BSD's sysexits)."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the sentence that helps after a wrong name: the nearest right one, or all of them, if they are not many.

    Example:
        >>> nearest("weigth", ["weight", "gradient"])
        'Did you mean "weight"?'
        >>> nearest("x", ["weight", "gradient"])
        'There are: gradient, weight.'
        >>> nearest("x", [])
        'There are none.'
    """
    names = sorted(known)
    matches = difflib.get_close_matches(name, names, n=1)
    if matches:
        return f'Did you mean "{matches[0]}"?'
    shown = ", ".join(name or '""' for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"There are: {shown}{more}." if names else "There are none."


_MOST_NAMES = 40
