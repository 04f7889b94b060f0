"""The automatic probe of JAX: takes its samples from the evaluation functions that the script observes.

A second program of the evaluation function returns the scores, the targets and the outputs of a layer. It runs only for
batches with samples of the probe.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from barograph.capture.attribution import attribution
from barograph.capture.jax.harvest import Found
from barograph.capture.jax.marks import SCORES, TARGETS, Mark
from barograph.capture.jax.probe import results_of
from barograph.capture.plan import Taking
from barograph.capture.probe import Probe, ProbePass, ProbeRows
from barograph.capture.probe_pass import classes_of, digests_of
from barograph.model.key import Kind
from barograph.model.probe import MODEL_OUTPUT, ProbeSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.buffer import StepBuffer
    from barograph.capture.jax.program import Program, Version
    from barograph.capture.session import Session

_NAME = "probe"
_HELP = "; call barograph.jax.probe at each evaluation"


@dataclass(frozen=True, slots=True)
class _Form:
    """An evaluation function for arguments of certain shapes.

    Attributes:
        version: Returns the wanted values.
        inputs: Position of the samples among the arguments.
        scores, targets, outputs: Positions among the values; targets and outputs are None if unknown.
        layer: Name of the layer of the outputs.
    """

    version: Version
    inputs: int
    scores: int
    targets: int | None
    outputs: int | None
    layer: str


class EvaluationProbe:
    """The automatic probe of one recording.

    Args:
        session: Stores the records.
        settings: What is stored.
    """

    def __init__(self, session: Session, settings: ProbeSettings) -> None:
        self._session = session
        self._settings = settings
        self._probe = Probe(settings)
        self._forms: weakref.WeakKeyDictionary[Program, _Form | None] = weakref.WeakKeyDictionary()
        self._frame: _Frame | None = None
        self._is_on = True

    def stop(self, buffer: StepBuffer) -> None:
        """Store nothing from now on, also not in this evaluation, because the script calls `barograph.jax.probe`."""
        buffer.gathered.pop(_NAME, None)
        self._is_on, self._frame = False, None

    def take(
        self, program: Program, args: tuple[Any, ...], kwargs: Mapping[str, Any], series: ArrayIntegration
    ) -> None:
        """Collect the samples of the probe from one call, before it is made."""
        if not self._is_on:
            return
        if program not in self._forms:
            self._forms[program] = None
            self._forms[program] = self._form_of(program)
        form, buffer = self._forms[program], series.evaluation_buffer
        if form is None:
            return
        if self._frame is None or self._frame.is_over:
            self._frame = _Frame(self._probe)
        buffer.gathered.setdefault(_NAME, self._frame)
        if not self._frame.full:
            leaves = program.leaves(args, kwargs)
            inputs = _on_host(leaves[form.inputs])
            rows = self._frame.wanted(digests_of(inputs))
            if len(rows):
                self._frame.add(self._rows(form, leaves, inputs, rows))
                self._session.seen.reasons.pop("the probe", None)

    def _rows(self, form: _Form, leaves: list[Any], inputs: NDArray[Any], rows: NDArray[np.intp]) -> ProbeRows:
        values = form.version.values_of(leaves)
        scores = _on_host(values[form.scores])
        results = results_of(scores[rows], None if form.targets is None else _on_host(values[form.targets])[rows])
        outputs = scores if form.outputs is None else _on_host(values[form.outputs])
        outputs = outputs[rows].mean(axis=tuple(range(1, outputs.ndim - 1))).reshape(len(rows), -1)
        digests = digests_of(inputs[rows])
        assert self._frame is not None
        places = np.array([self._frame.place_of(sample) for sample in digests.tolist()])
        explained = np.flatnonzero(places < self._settings.saliency)
        maps: dict[str, NDArray[Any]] = {}
        if len(explained) and inputs.dtype.kind == "f":
            gradient = _gradient_of(form, leaves)
            classes = classes_of(results.predictions, explained)
            maps = {method: attribution(gradient, inputs[rows[explained]], classes, method)
                    for method in self._settings.saliency_methods}
        elif len(explained):
            self._say("saliency", "saliency maps: the inputs are integers, which have no gradient")
        return ProbeRows(digests, form.layer, outputs, inputs=inputs[rows], targets=results.targets,
                         predictions=results.predictions, losses=results.losses, saliency=maps,
                         saliency_rows=explained if maps else None)

    def _form_of(self, program: Program) -> _Form | None:
        marks = [mark for mark in program.marks if mark.role == SCORES]
        if not marks:
            self._say("scores", "the probe: the evaluation function calls no Optax loss and no "
                      f"barograph.jax.predictions{_HELP}")
            return None
        if program.is_mapped or jax.process_count() > 1:
            self._say("scores", f"the probe: the evaluation runs under pmap or in several processes{_HELP}")
            return None
        name = marks[-1].path
        everything = _compiled(program, lambda mark: mark.kind is Kind.OUTPUT or _belongs(mark, name))
        known = {item.mark.role: item for item in everything.found if _belongs(item.mark, name) and not item.axes}
        if SCORES not in known:
            self._say("scores", f"the probe: the loss of the evaluation function is in a loop{_HELP}")
            return None
        scores = known[SCORES]
        layer = self._layer_of(everything.found, scores)
        inputs = _inputs_of(program, scores.shape, known.get(TARGETS))
        if inputs is None:
            self._say("inputs", f"the probe: it is unclear which argument has the inputs of an evaluation{_HELP}")
            return None
        version = _compiled(program, lambda mark: _belongs(mark, name) or (mark.kind is Kind.OUTPUT and mark == layer))
        places = {item.mark.role or "layer": place for place, item in enumerate(version.found)}
        return _Form(version, inputs, places[SCORES], places.get(TARGETS), places.get("layer"),
                     MODEL_OUTPUT if layer is None else f"output of {layer.path}")

    def _layer_of(self, found: Sequence[Found], scores: Found) -> Mark | None:
        """Return the layer whose outputs are stored; None: the scores."""
        outputs = [item for item in found if item.mark.kind is Kind.OUTPUT and not item.mark.role and not item.axes
                   and item.shape[:1] == scores.shape[:1]]
        if self._settings.layer:
            chosen = next((item.mark for item in outputs if item.mark.path == self._settings.layer), None)
            if chosen is None:
                self._say("layer", f'the probe: layer "{self._settings.layer}" was not called in an evaluation; the '
                          "output of the model is stored")
            return chosen
        before = [item.mark for item in outputs if item.shape != scores.shape]
        return before[-1] if before else None

    def _say(self, cause: str, reason: str) -> None:
        self._session.seen.reasons.pop("the probe", None)
        self._session.seen.reasons[f"probe {cause}"] = reason


class _Frame(ProbePass):
    """The samples of one evaluation, written when it ends."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe)
        self.is_over = False

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        self.is_over = True
        self.write(buffer)


def _belongs(mark: Mark, name: str) -> bool:
    return mark.role in (SCORES, TARGETS) and mark.path == name


def _compiled(program: Program, wants: Callable[[Mark], bool]) -> Version:
    return program.compile(lambda mark: Taking(raw=True) if wants(mark) else None, on_host=False, apart=True)


def _inputs_of(program: Program, scores: tuple[int, ...], targets: Found | None) -> int | None:
    """Return the position of the argument with a sample per row of the scores; None: unclear.

    A dimension of a parameter may be as long as the batch by chance; then not all of a model's parameters have it.
    """
    positions: dict[str, list[int]] = {}
    for place, name in enumerate(program.names):
        positions.setdefault(name.partition(".")[0], []).append(place)
    shapes = [tuple(aval.shape) for aval in program.avals]
    fitting = {place for place, shape in enumerate(shapes) if shape[:1] == scores[:1]}
    batches = [place for places in positions.values() if fitting.issuperset(places) for place in places]
    others = {scores, None if targets is None else targets.shape, scores[:1]}
    found = [place for place in batches or sorted(fitting) if shapes[place] not in others] or batches
    if not found or (len(found) > 1 and not batches):
        return None
    return max(found, key=lambda place: math.prod(shapes[place]))


def _gradient_of(form: _Form, leaves: list[Any]) -> Callable[..., NDArray[Any]]:
    """Return a function to the gradients of the scores of any samples, which take places of the batch."""

    def score(batch: Any, classes: Any) -> Any:
        given = [batch if place == form.inputs else leaf for place, leaf in enumerate(leaves)]
        scores = form.version.values_of(given)[form.scores]
        scores = scores.reshape(len(scores), -1)[:len(classes)]
        chosen = classes if scores.shape[1] > 1 else jnp.zeros(len(classes), int)
        return jnp.take_along_axis(scores, chosen[:, None], 1).sum()

    batch = jnp.asarray(leaves[form.inputs])

    def gradient(inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
        found = []
        for start in range(0, len(inputs), len(batch)):
            some = slice(start, start + len(batch))
            count = len(inputs[some])
            given = batch.at[:count].set(jnp.asarray(inputs[some], batch.dtype))
            made = jax.grad(score)(given, jnp.asarray(classes[some]))
            found.append(_on_host(made)[:count])
        return np.concatenate(found)

    return gradient


def _on_host(array: Any) -> NDArray[Any]:
    """Return an array of NumPy, which has no bfloat16."""
    found = jnp.asarray(array)
    narrow = jnp.issubdtype(found.dtype, jnp.floating) and found.dtype.itemsize < 4
    return np.asarray(found.astype(jnp.float32) if narrow else found)
