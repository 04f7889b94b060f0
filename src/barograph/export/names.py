"""Names of metrics in OpenTelemetry: those of its semantic conventions, else `barograph.…`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barograph.export.readings import Reading
from barograph.model.key import Kind

Attributes = Mapping[str, str | int]


class MetricName(NamedTuple):
    """A metric.

    Attributes:
        name: Its name.
        unit: UCUM unit: "s", "By", "1" for a share.
        description: One sentence.
    """

    name: str
    unit: str
    description: str


class Datum(NamedTuple):
    """A value of a metric.

    Attributes:
        metric: The metric.
        attributes: Attributes that identify the series.
        value: Value in the metric's unit.
    """

    metric: MetricName
    attributes: Attributes
    value: float


class _Machine(NamedTuple):
    metric: MetricName
    factor: float = 1.0
    attributes: Callable[[str], Attributes] = lambda _: {}


_LOSS = MetricName("barograph.loss", "1", "Loss of a step.")
_RATE = MetricName("barograph.learning_rate", "1", "Learning rate of a parameter group.")
_SCALAR = MetricName("barograph.scalar", "1", "Scalar logged by the script.")
_STEP = MetricName("barograph.step.duration", "s", "Mean time of a step.")
_PART = MetricName("barograph.step.part.duration", "s", "Mean time of a part of a step.")
_LONGEST = MetricName("barograph.step.longest", "s", "Longest step since the previous value.")
_PROGRESS = MetricName("barograph.step.number", "{step}", "Last recorded step.")

_CPU = MetricName("system.cpu.utilization", "1", "Utilization of a core, or of all cores if none is given.")
_DISK = MetricName("barograph.disk.throughput", "By/s", "Bytes read or written per second.")
_NETWORK = MetricName("barograph.network.throughput", "By/s", "Bytes received or sent per second.")

_MACHINE: Mapping[str, _Machine] = {
    "cpu": _Machine(_CPU, 0.01),
    "cpu[]": _Machine(_CPU, 0.01, lambda core: {"cpu.logical_number": int(core)}),
    "cpu_iowait": _Machine(_CPU, 0.01, lambda _: {"cpu.mode": "iowait"}),
    "cpu_busiest": _Machine(MetricName("barograph.cpu.busiest", "1", "Utilization of the busiest core."), 0.01),
    "memory": _Machine(MetricName("system.memory.usage", "By", "Memory in use."), 1.0,
                       lambda _: {"system.memory.state": "used"}),
    "memory_total": _Machine(MetricName("system.memory.limit", "By", "Total memory.")),
    "process_memory": _Machine(MetricName("process.memory.usage", "By", "Memory of the training's processes.")),
    "process_cpu": _Machine(MetricName("barograph.process.cpu.cores", "{cpu}",
                                       "Cores used by the training and its child processes."), 0.01),
    "cores": _Machine(MetricName("barograph.process.cpu.limit", "{cpu}", "Cores available to the training.")),
    "loader_processes": _Machine(MetricName("barograph.loader.processes", "{process}", "Data loader workers.")),
    "disk_read": _Machine(_DISK, 1.0, lambda _: {"disk.io.direction": "read"}),
    "disk_write": _Machine(_DISK, 1.0, lambda _: {"disk.io.direction": "write"}),
    "net_sent": _Machine(_NETWORK, 1.0, lambda _: {"network.io.direction": "transmit"}),
    "net_received": _Machine(_NETWORK, 1.0, lambda _: {"network.io.direction": "receive"}),
    "gpu[]": _Machine(MetricName("hw.gpu.utilization", "1", "GPU utilization."), 0.01,
                      lambda gpu: {"hw.id": gpu}),
    "gpu_memory[]": _Machine(MetricName("hw.gpu.memory.utilization", "1", "Share of GPU memory in use."), 0.01,
                             lambda gpu: {"hw.id": gpu}),
    "gpu_memory_bytes[]": _Machine(MetricName("hw.gpu.memory.usage", "By", "GPU memory in use."), 1.0,
                                   lambda gpu: {"hw.id": gpu}),
}


def datum_of(reading: Reading) -> Datum | None:
    """Return a reading as an OpenTelemetry value; None if it has no equivalent.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.step import Mode
        >>> found = datum_of(Reading(0.0, "p0", Key(Kind.MACHINE, "cpu[1]"), Mode.TRAIN, "", 7, 50.0))
        >>> found.metric.name, found.attributes, found.value
        ('system.cpu.utilization', {'cpu.logical_number': 1}, 0.5)
    """
    kind, path = reading.key.kind, reading.key.path
    if kind is Kind.MACHINE:
        return _of_machine(path, reading.value)
    step: dict[str, str | int] = {"barograph.mode": reading.mode.value}
    if reading.optimizer:
        step["barograph.optimizer"] = reading.optimizer
    if kind is Kind.TIME:
        if path == "steps":
            return Datum(_PROGRESS, step, float(reading.step))
        if path in ("step", "longest"):
            return Datum(_STEP if path == "step" else _LONGEST, step, reading.value)
        return Datum(_PART, {**step, "barograph.part": path}, reading.value)
    metric, name = {Kind.LOSS: (_LOSS, "barograph.loss.name"), Kind.SCALAR: (_SCALAR, "barograph.scalar.name"),
                    Kind.LEARNING_RATE: (_RATE, "barograph.group")}[kind]
    return Datum(metric, {**step, name: path}, reading.value)


def _of_machine(path: str, value: float) -> Datum | None:
    name, bracket, item = path.partition("[")
    known = _MACHINE.get(name + "[]" if bracket else name)
    if known is None:
        return None
    return Datum(known.metric, known.attributes(item.removesuffix("]")), known.factor * value)
