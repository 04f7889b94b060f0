"""Separates the passes over data in one evaluation, such as training data and validation data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from barograph.capture.buffer import StepBuffer
from barograph.capture.torch.splits import TRAIN, VALIDATION, Sight, Variable

_SAMPLES = "samples"
MIXED = "mixed"
"""Label of a pass that may be several over different data."""


@dataclass(slots=True)
class Pass:
    """One pass over data.

    Attributes:
        buffer: Its records.
        sites: Call site of each model, by identity.
        loader: Loader of its batches; None: unknown.
        named, bound: As in `Sight`, over all calls.
        source: Name of its loader.
        has_loss: A loss was recorded since the last call of a model.
        is_mixed: It may be several passes.
        rows: Number of samples of the first batch, and whether a smaller one has followed.
    """

    buffer: StepBuffer = field(default_factory=StepBuffer)
    sites: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    loader: Any = None
    named: dict[Variable, str] = field(default_factory=dict)
    bound: dict[Variable, str] = field(default_factory=dict)
    source: str = ""
    has_loss: bool = False
    is_mixed: bool = False
    rows: tuple[int, bool] = (0, False)

    def takes(self, root: int, sight: Sight, loader: Any, *, by_site: bool) -> bool:
        """Return whether a call of a model belongs to this pass."""
        return (
            (loader is self.loader or None in (loader, self.loader))
            and _agree(self.named, sight.named) and _agree(self.bound, sight.bound)
            # A variable that held the data of a set holds others now.
            and all(variable in sight.bound for variable in self.bound
                    if any(variable[0] is code for code, _ in sight.site))
            and not (by_site and self.sites.get(root, sight.site) != sight.site))

    def note(self, root: int, sight: Sight, loader: Any) -> None:
        """Note a call of a model."""
        self.sites.setdefault(root, sight.site)
        self.loader = loader if self.loader is None else self.loader
        self.named.update(sight.named)
        self.bound.update(sight.bound)
        self.source = self.source or sight.source
        self.has_loss = False

    def note_rows(self, rows: int) -> None:
        """Note the number of samples in a batch: a full one after a smaller one starts another pass."""
        first, smaller = self.rows
        if not first:
            self.rows = rows, False
        elif rows < first:
            self.rows = first, True
        elif rows == first and smaller and self.loader is None:
            self.is_mixed = True


class EvaluationPasses:
    """The passes of the current evaluation."""

    def __init__(self) -> None:
        self.current = Pass()
        self._passes = [self.current]

    @property
    def have_losses(self) -> bool:
        """Whether any pass has a loss."""
        return any(item.buffer.losses for item in self._passes)

    def calls(self, root: int, sight: Sight, loader: Any, rows: int, *, may_split: bool) -> None:
        """Note a call of a model, and determine its pass.

        Args:
            root: Identity of the model; 0: unknown.
            sight: Observed state of the script.
            loader: Loader of the last batch; None: unknown.
            rows: Number of samples of the call; 0: unknown.
            may_split: Records may be assigned to several passes; otherwise the pass becomes mixed.
        """
        now = self.current
        # Another call site without a loss in between: the model is called twice for one loss.
        if not now.takes(root, sight, loader, by_site=now.has_loss and bool(root)):
            if may_split:
                known = next((item for item in self._passes if item.sites
                              and item.takes(root, sight, loader, by_site=bool(root))), None)
                if known is None:
                    known = Pass()
                    self._passes.append(known)
                    if _SAMPLES in now.buffer.gathered:
                        # Each pass records the share of its samples that are training samples.
                        known.buffer.gathered[_SAMPLES] = now.buffer.gathered[_SAMPLES]
                self.current = now = known
            else:
                now.is_mixed = True
        now.note(root, sight, loader)
        if rows:
            now.note_rows(rows)

    def note_loss(self) -> None:
        """Note that a loss function has returned."""
        self.current.has_loss = True

    def named(self) -> Iterator[tuple[str, StepBuffer]]:
        """Yield the records of each pass, with the prefix for its losses; "": none.

        At most one pass has no prefix, so that rules compare it with training: the one over validation data. If that is
        unknown, none has.
        """
        used = [item for item in self._passes if not item.buffer.empty or item.buffer.losses]
        words = [self._word(item) for item in used]
        plain = _plain_of(used, words)
        if len(used) > 1:
            _leave_samples_to(used[plain or 0].buffer, used)
        taken: Counter[str] = Counter()
        for number, (item, word) in enumerate(zip(used, words, strict=True)):
            if number == plain:
                yield "", item.buffer
                continue
            name = MIXED if item.is_mixed else word or "part"
            taken[name] += 1
            again = "" if taken[name] == 1 and name != "part" and (name != words[plain or 0] or plain is None) else (
                str(taken[name] + (plain is not None and name == words[plain])))
            yield f"{name}{again}.", item.buffer

    def _word(self, item: Pass) -> str:
        """Return the set of a pass from the names of its data; "" if unknown."""
        found = {item.source} if item.source else set(item.bound.values())
        if not found:
            # A name that always says "train" need not refer to the data.
            found = {word for variable, word in item.named.items()
                     if any(other.named.get(variable, word) != word for other in self._passes)}
        return found.pop() if len(found) == 1 else ""


def _plain_of(passes: list[Pass], words: list[str]) -> int | None:
    """Return the index of the pass to compare with training; None if unknown."""
    fit = [number for number, word in enumerate(words) if word != TRAIN and not passes[number].is_mixed]
    if VALIDATION in words:
        fit = [number for number in fit if words[number] == VALIDATION]
    loaders = [passes[number].loader for number in fit]
    # Several over one loader are over the same data.
    are_one = bool(loaders) and loaders[0] is not None and all(item is loaders[0] for item in loaders)
    if len(fit) == 1 or (fit and (are_one or all(words[number] for number in fit))):
        return fit[0]
    return None


def _leave_samples_to(buffer: StepBuffer, passes: list[Pass]) -> None:
    """Let only one pass record the share of known training samples, because they collect it together."""
    found = [item.buffer.gathered.pop(_SAMPLES) for item in passes if _SAMPLES in item.buffer.gathered]
    if found:
        buffer.gathered[_SAMPLES] = found[0]


def _agree(before: dict[Variable, str], now: Any) -> bool:
    return all(before.get(variable, word) == word for variable, word in now.items())
