"""The errors that Barograph raises.

    BarographError
    ├── SettingsError (ValueError)        a setting has the wrong name, type or value
    │   └── UnknownName                   a name does not exist; the message has the nearest one
    ├── StoreError (OSError)              the store of the runs failed
    │   ├── StoreUnavailable              the store is unreachable; retrying may help
    │   ├── StoreFull                     no space left
    │   ├── StoreDenied                   no permission to read or write
    │   ├── ObjectNotFound                no object has that name
    │   └── ObjectExists                  an object has that name already
    ├── RunError                          a run is missing, busy, unreadable or damaged
    │   ├── NotARun                       there is no run at that URL
    │   ├── RunInUse                      another process is writing this run
    │   ├── RunFinished                   the run has ended and cannot be continued
    │   ├── NewerFormat                   a newer Barograph wrote the run
    │   ├── DamagedChunk                  a file differs from what was published
    │   ├── UnknownKey (LookupError)      the run has no such key
    │   ├── UnknownStep (LookupError)     the run has no such step
    │   ├── UnknownWorker (LookupError)   the run has no such worker
    │   └── SplitTensor (LookupError)     each worker saved only a part of the tensor
    ├── JobError                          a training job failed, or cannot be managed
    │   ├── JobRefused (ValueError)       the job has problems and was not started
    │   │   └── ClusterUnavailable        its cluster is unreachable; retrying may help
    │   └── UnknownJob (LookupError)      there is no job of that name
    ├── TuneError                         a study cannot be created, continued or used
    │   ├── BadSpace (ValueError)         the search space of a study is wrong
    │   ├── StudyExists                   a study with that name already exists
    │   ├── UnknownStudy (LookupError)    there is no study at that place
    │   └── StudyChanged                  a study was created with another space or objective
    ├── MeasureError                      a statistic of a tensor cannot be computed
    │   ├── ShapeMismatch (ValueError)    two arrays differ in shape
    │   └── UnsupportedDtype (TypeError)  no statistics are defined for this dtype
    ├── CaptureError                      recording in the training process failed
    │   ├── AlreadyAttached               this process already records a run
    │   ├── SessionClosed                 the session is closed and records nothing more
    │   ├── UnsupportedCapture            this kind of model or tensor cannot be recorded
    │   └── NotPlain (TypeError)          a value cannot be saved or loaded without pickle
    ├── ReplayFailed                      a held step cannot be replayed
    ├── ResumeFailed                      a training cannot resume from a checkpoint
    ├── CheckoutFailed                    the code of a run cannot be restored
    ├── RerunFailed                       a run cannot be rerun
    ├── RuleError                         a rule cannot be used
    │   └── BadRule                       a rule breaks the contract of `rules.base.Rule`
    ├── ClusterUnreachable (ConnectionError)  no Ray cluster can be joined
    ├── WatchError                        watching cannot start or continue
    ├── CatalogError                      the catalog of experiments failed
    │   ├── CatalogUnavailable            the catalog is unreachable or unusable
    │   ├── NewerCatalog                  a newer Barograph created the catalog
    │   ├── NameTaken                     an item of that name exists
    │   ├── UnknownItem (LookupError)     the catalog has no such item
    │   ├── AmbiguousName (LookupError)   several items have that name
    │   ├── StillNeeded                   other items depend on the item to delete
    │   ├── EditConflict                  an item changed between reading it and editing it
    │   └── SearchError (ValueError)      a search is invalid; the message points at the place
    ├── MissingExtra (ImportError)        a library that comes with an extra is not installed
    ├── ExportError                       a run cannot be exported
    │   └── EndpointFailed (OSError)      an endpoint did not accept the data
    ├── ImportFailed                      data of another program cannot be imported
    │   ├── DamagedSource                 a source file is damaged
    │   └── BadArchive                    an archive is damaged or malicious
    └── TrainingStopped                   a finding stopped the training

Each takes one message string, because errors cross processes. The message says what happened, why if known, and what
to do; paths come last. Errors of other libraries are converted where they enter.
"""

from __future__ import annotations

from collections.abc import Iterable


class BarographError(Exception):
    """Base class of every error that Barograph raises deliberately."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    def __str__(self) -> str:
        # Subclasses of OSError would print "[Errno …]".
        return str(self.args[0]) if self.args else ""


class SettingsError(BarographError, ValueError):
    """A setting has the wrong name, type or value."""


class UnknownName(SettingsError):
    """A name does not exist."""


class StoreError(BarographError, OSError):
    """The store of the runs failed."""


class StoreUnavailable(StoreError):
    """The store is unreachable; retrying may help."""


class StoreFull(StoreError):
    """The store has no space left."""


class StoreDenied(StoreError):
    """No permission to read from or write to the store."""


class ObjectNotFound(StoreError):
    """The store has no object of that name."""


class ObjectExists(StoreError):
    """The store already has an object of that name."""


class RunError(BarographError):
    """A run is missing, busy, unreadable or damaged."""


class NotARun(RunError):
    """There is no run at that URL."""


class RunInUse(RunError):
    """Another process is writing this run."""


class RunFinished(RunError):
    """The run has ended and cannot be continued."""


class NewerFormat(RunError):
    """A newer Barograph wrote the run."""


class DamagedChunk(RunError):
    """A file differs from what was published."""


class UnknownKey(RunError, LookupError):
    """The run has no such key."""


class UnknownStep(RunError, LookupError):
    """The run has no such step."""


class UnknownWorker(RunError, LookupError):
    """The run has no such worker."""


class SplitTensor(RunError, LookupError):
    """Each worker saved only a part of the tensor."""


class MeasureError(BarographError):
    """A statistic of a tensor cannot be computed."""


class ShapeMismatch(MeasureError, ValueError):
    """Two arrays differ in shape."""


class UnsupportedDtype(MeasureError, TypeError):
    """No statistics are defined for this dtype."""


class CaptureError(BarographError):
    """Recording in the training process failed."""


class AlreadyAttached(CaptureError):
    """This process already records a run."""


class SessionClosed(CaptureError):
    """The session is closed and records nothing more."""


class UnsupportedCapture(CaptureError):
    """This kind of model or tensor cannot be recorded."""


class NotPlain(CaptureError, TypeError):
    """A value cannot be saved or loaded without pickle."""


class ReplayFailed(BarographError):
    """A held step cannot be replayed."""


class ResumeFailed(BarographError):
    """A training cannot resume from a checkpoint."""


class CheckoutFailed(BarographError):
    """The code of a run cannot be restored."""


class RerunFailed(BarographError):
    """A run cannot be rerun."""


class RuleError(BarographError):
    """A rule cannot be used."""


class BadRule(RuleError):
    """A rule breaks the contract of `rules.base.Rule`."""


class ClusterUnreachable(BarographError, ConnectionError):
    """No Ray cluster can be joined."""


class WatchError(BarographError):
    """Watching cannot start or continue."""


class ExportError(BarographError):
    """A run cannot be exported."""


class CatalogError(BarographError):
    """The catalog of experiments failed."""


class CatalogUnavailable(CatalogError):
    """The catalog is unreachable or unusable."""


class NewerCatalog(CatalogError):
    """A newer Barograph created the catalog."""


class NameTaken(CatalogError):
    """An item of that name exists."""


class UnknownItem(CatalogError, LookupError):
    """The catalog has no such item."""


class AmbiguousName(CatalogError, LookupError):
    """Several items of the catalog have that name."""


class StillNeeded(CatalogError):
    """Other items depend on the item to delete."""


class EditConflict(CatalogError):
    """An item changed between reading it and editing it."""


class SearchError(CatalogError, ValueError):
    """A search is invalid.

    Attributes:
        position: Position of the problem in the search, from 0; None if the search as a whole is invalid.
    """

    position: int | None = None


class JobError(BarographError):
    """A training job failed, or cannot be managed."""


class JobRefused(JobError, ValueError):
    """A job has problems and was not started; the message lists them."""


class ClusterUnavailable(JobRefused):
    """The cluster of a job is unreachable, and the job was not started. Retrying may help."""


class UnknownJob(JobError, LookupError):
    """There is no job of that name."""


class TuneError(BarographError):
    """A study cannot be created, continued or used."""


class BadSpace(TuneError, ValueError):
    """The search space of a study is wrong."""


class StudyExists(TuneError):
    """A study with that name already exists."""


class UnknownStudy(TuneError, LookupError):
    """There is no study at that place."""


class StudyChanged(TuneError):
    """A study was created with another space or objective."""


class MissingExtra(BarographError, ImportError):
    """A library that comes with an extra is not installed."""


class EndpointFailed(ExportError, OSError):
    """An endpoint did not accept the data."""


class ImportFailed(BarographError):
    """Data of another program cannot be imported."""


class DamagedSource(ImportFailed):
    """A source file is damaged."""


class BadArchive(ImportFailed):
    """An archive is damaged or malicious."""


class TrainingStopped(BarographError):
    """A finding stopped the training.

    Raised between two steps, in the training thread. A script may catch it, and its `finally` blocks run. If it is not
    caught under `barograph run`, the exit code is `EXIT_STOPPED`.
    """


EXIT_STOPPED = 79
"""Exit code of a script that a finding stopped; just above the range of BSD's sysexits."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the name closest to a wrong one, or else with all names, up to 40.

    Example:
        >>> nearest("weigth", ["weight", "gradient"])
        'Did you mean "weight"?'
        >>> nearest("x", ["weight", "gradient"])
        'There are: gradient, weight.'
        >>> nearest("x", [])
        'There are none.'
    """
    names = sorted(known)
    if match := closest(name, names):
        return f'Did you mean "{match}"?'
    shown = ", ".join(name or '""' for name in names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"There are: {shown}{more}." if names else "There are none."


def closest(name: str, known: Iterable[str], *, least: float = 0.6) -> str:
    """Return the name closest to a wrong one; "" if none is close.

    Args:
        name: The wrong name.
        known: The names that exist.
        least: Smallest similarity that counts, between 0 and 1.

    Example:
        >>> closest("weigth", ["weight", "gradient"]), closest("x", ["weight", "gradient"])
        ('weight', '')
    """
    import difflib  # loaded here: most processes meet no such error

    return next(iter(difflib.get_close_matches(name, list(known), 1, least)), "")


_MOST_NAMES = 40
