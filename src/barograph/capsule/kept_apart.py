"""The objects of a capsule that only pickle can hold: opened where the user says so, once the script needs them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, overload

from barograph.errors import NotPlain


class KeptApart(Sequence[Any]):
    """Those objects, by their numbers.

    Args:
        data: As they were pickled; None: they were not kept.
        opens: Whether the user has said that they may be opened: that can run anything.
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
        """Return one.

        Raises:
            NotPlain: They were not kept, may not be opened, or cannot be.
        """
        return self._opened()[number]

    def _opened(self) -> Sequence[Any]:
        if self._data is None:
            raise NotPlain("The step was made of objects that only pickle can hold, and they were not kept: record "
                           f"with --set recorder.pickle=true ({self._where}).")
        if not self._opens:
            raise NotPlain("The step was made of objects that only pickle can hold. Opening them can run anything: "
                           f"where you trust the capsule, add --open-pickle ({self._where}).")
        if self._objects is None:
            # Not before: the script has to define its classes first.
            try:
                self._objects = pickle.loads(self._data)
            except Exception as error:
                raise NotPlain("What only pickle can hold cannot be opened here: "
                               f"{type(error).__name__}: {error} ({self._where}).") from error
        return self._objects
