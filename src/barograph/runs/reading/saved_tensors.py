"""Tensors that a run saved whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from barograph.errors import DamagedChunk, ObjectNotFound, SplitTensor
from barograph.model.key import Key
from barograph.runs.format.proof import proved
from barograph.runs.format.tensors import TensorsOrigin, check_tensors_origin, read_tensor, tensor_entry
from barograph.runs.reading.records import Records
from barograph.runs.reading.view import worker_order
from barograph.store.base import Store

SAVED_COLUMNS = ("attempt", "worker", "chunk", "tick", "step", "tensor", "shard", "whole")
"""Columns of the rows that `SavedTensors` needs."""


class SavedTensors:
    """Reads saved tensors of a run, given the rows that name them."""

    def __init__(self, store: Store, run_id: str, records: Records) -> None:
        self._store = store
        self._run_id = run_id
        self._records = records

    def read(self, rows: Sequence[dict[str, Any]], key: Key, step: int, worker: str | None) -> NDArray[Any]:
        """Return the tensor of a key at a step, from the first worker that saved it, as a read-only array.

        Args:
            rows: Rows of this key and step, with `SAVED_COLUMNS`; at least one.
            key, step: For error messages.
            worker: The worker whose part is wanted; None: any, and a part is an error.

        Raises:
            SplitTensor: Each worker saved a part and `worker` is None.
            DamagedChunk: The file is damaged or missing.
        """
        row = min(rows, key=lambda row: (worker_order(row["worker"]), -row["attempt"], -row["tick"]))
        array = self._from_file(row["attempt"], row["worker"], row["chunk"], tensor_entry(row["tick"], key))
        if row["shard"] and worker is None and array.size != row["whole"]:
            parts = sorted({row["worker"] for row in rows}, key=worker_order)
            raise SplitTensor(f"{key} is split over workers; each saved its part at step {step}. Read one part "
                              f'with worker="{parts[0]}". Workers: {", ".join(parts)} ({self._store.url}).')
        return array

    def _from_file(self, attempt: int, worker: str, chunk: int, entry: str) -> NDArray[Any]:
        damage = DamagedChunk(
            f"The tensor {entry} is lost: the file of chunk {chunk} of {worker} is missing ({self._store.url})."
        )
        for name in self._records.survey.tensors.get((attempt, worker), ()):
            if name.chunk == chunk:
                try:
                    data = proved(self._store, str(name), name.digest)
                    check_tensors_origin(data, TensorsOrigin(self._run_id, worker, attempt, chunk), str(name))
                    array = read_tensor(data, entry, str(name))
                except ObjectNotFound:
                    continue
                except DamagedChunk as error:
                    damage = error
                    continue
                if array is not None:
                    return array
        raise damage
