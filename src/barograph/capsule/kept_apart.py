"""The pickled objects of a capsule: loaded only with the user's permission, when the script needs them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, overload

from barograph.errors import NotPlain


class KeptApart(Sequence[Any]):
    """The pickled objects of a capsule, by number.

    Args:
        data: The pickled objects; None: they were not saved.
        opens: Whether the user permits unpickling, which can run any code.
        where: The capsule, for messages.
    """

    def __init__(self, data: bytes | None, *, opens: bool, where: str) -> None:
        self._data = data
        self._opens = opens
        self._where = where
        self._objects: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self._opened())

    @overload
    def __getitem__(self, number: int) -> Any: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Any]: ...
    def __getitem__(self, number: int | slice) -> Any:
        """Return one object.

        Raises:
            NotPlain: The objects were not saved, may not be unpickled, or cannot be.
        """
        return self._opened()[number]

    def _opened(self) -> Sequence[Any]:
        if self._data is None:
            raise NotPlain("The step used objects that only pickle can store, and they were not stored: record "
                           f"with --set recorder.pickle=true ({self._where}).")
        if not self._opens:
            raise NotPlain("The step used objects that only pickle can store. Unpickling can run any code: "
                           f"if you trust the capsule, add --open-pickle ({self._where}).")
        if self._objects is None:
            # Not earlier: the script must define its classes first.
            try:
                self._objects = pickle.loads(self._data)
            except Exception as error:
                raise NotPlain("The pickled objects cannot be loaded: "
                               f"{type(error).__name__}: {error} ({self._where}).") from error
        return self._objects
