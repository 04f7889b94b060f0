"""The fused statistics loop: `barograph._native` if it is built, otherwise its NumPy reference.

All calls take addresses, because a tensor of any framework has one. They trust the caller for the memory at an
address, but check type, shape and bounds of the buffers they write. Elements are dense and in native
byte order. Statistics are *merged* into the rows, so rows start as `summary.identity_rows`.

Counts, extremes and bins are exact; for the bound of the sums see `measures.summary`. The same tensor gives the
same bits on every processor, whichever instructions it has, and whether or not denormals are flushed to zero in
the calling thread.

The native calls release the GIL for large memory. Several threads read memory above a few megabytes, see
`use_threads`; the results are bitwise the same.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from barograph.measures import plain
from barograph.measures.elements import DTYPE_CODES, dtype_code

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DTYPE_CODES", "all_finite", "available", "copy", "copy_many", "difference_into", "difference_many",
           "dtype_code", "summarize_into", "summarize_many", "units_into", "use_threads", "xla_handler"]

MOST_THREADS = 4
"""Number of threads that nearly saturate memory bandwidth."""

try:
    _loops: Any = importlib.import_module("barograph._native")
except ImportError:  # no compiler at installation
    _loops = plain


def available() -> bool:
    """Return whether the native loop is used. Its NumPy reference gives the same results, many times slower."""
    return _loops is not plain


def summarize_into(
    pointer: int,
    numel: int,
    dtype: int,
    moments: NDArray[np.float64],
    row: int,
    exponents: NDArray[np.int64] | None = None,
    exponent_mode: int = 0,
) -> None:
    """Merge the statistics of the elements at an address into one row.

    Args:
        pointer: Address of the first element.
        numel: Number of elements; 0 merges nothing.
        dtype: Element type, a number of `DTYPE_CODES`.
        moments: Shape (n, 10), float64, C-contiguous, columns as in `MOMENT_FIELDS`. Changed in place.
        row: Index of the row.
        exponents: Shape (m, 512), int64, C-contiguous; its row of the same index is changed in place.
        exponent_mode: A `Histogram`: 0 none, 1 sampled, 2 exact. With 0, `exponents` is not touched.

    Raises:
        ValueError: A buffer, the row, the type, the mode or the size is not as above. Nothing was changed.

    Example:
        >>> import numpy as np
        >>> from barograph.measures.summary import identity_rows
        >>> weights, rows = np.array([1, 2, 3], np.float32), identity_rows(1)
        >>> summarize_into(weights.ctypes.data, weights.size, dtype_code("float32"), rows, 0)
        >>> float(rows[0, 7])
        6.0
    """
    _loops.summarize_into(pointer, numel, dtype, moments, row, exponents, exponent_mode)


def summarize_many(
    pointers: NDArray[np.int64],
    numels: NDArray[np.int64],
    dtypes: NDArray[np.int32],
    rows: NDArray[np.int64],
    moments: NDArray[np.float64],
    exponents: NDArray[np.int64] | None = None,
    modes: int | NDArray[np.uint8] = 0,
) -> None:
    """Merge the statistics of each of many tensors into its row: one call for a whole model.

    Args:
        pointers, numels, dtypes, rows: One entry for each tensor, as in `summarize_into`; C-contiguous. Several
            tensors may share a row.
        moments, exponents: As in `summarize_into`.
        modes: One mode for all tensors, or one for each.

    Raises:
        ValueError: As in `summarize_into`, or the lengths differ. Nothing was changed.

    Example:
        >>> import numpy as np
        >>> from barograph.measures.summary import identity_rows
        >>> tensors, rows = [np.ones(3, np.float32), np.ones(5, np.float32)], identity_rows(2)
        >>> summarize_many(
        ...     np.array([tensor.ctypes.data for tensor in tensors]), np.array([tensor.size for tensor in tensors]),
        ...     np.zeros(2, np.int32), np.arange(2), rows)
        >>> rows[:, 0].tolist()
        [3.0, 5.0]
    """
    _loops.summarize_many(pointers, numels, dtypes, rows, moments, exponents, modes)


def difference_into(
    after: int,
    before: int,
    numel: int,
    dtype: int,
    moments: NDArray[np.float64],
    row: int,
    exponents: NDArray[np.int64] | None = None,
    exponent_mode: int = 0,
    advance: bool = False,
) -> None:
    """Merge the statistics of after − before into one row.

    The differences are rounded as in `measures.elements.subtract`: to float32 for floats of at most 32 bits.

    Args:
        after, before: Addresses of the first elements.
        numel, dtype, moments, row, exponents, exponent_mode: As in `summarize_into`; one type for both.
        advance: Copy `after` over `before` in the same pass, so that the next call sees the next step's update.

    Raises:
        ValueError: As in `summarize_into`. Nothing was changed.

    Example:
        >>> import numpy as np
        >>> from barograph.measures.summary import identity_rows
        >>> new, old, rows = np.array([1.5], np.float32), np.array([1.0], np.float32), identity_rows(1)
        >>> difference_into(new.ctypes.data, old.ctypes.data, 1, dtype_code("float32"), rows, 0, advance=True)
        >>> float(rows[0, 7]), float(old[0])
        (0.5, 1.5)
    """
    _loops.difference_into(after, before, numel, dtype, moments, row, exponents, exponent_mode, advance)


def difference_many(
    afters: NDArray[np.int64],
    befores: NDArray[np.int64],
    numels: NDArray[np.int64],
    dtypes: NDArray[np.int32],
    rows: NDArray[np.int64],
    update_rows: NDArray[np.int64],
    moments: NDArray[np.float64],
    exponents: NDArray[np.int64] | None = None,
    modes: int | NDArray[np.uint8] = 0,
    update_modes: int | NDArray[np.uint8] = 0,
) -> None:
    """Merge the statistics of each of many tensors, and of after − before, into its two rows, in one pass.

    Args:
        afters, befores: Addresses of the first elements.
        numels, dtypes: As in `summarize_many`; one type for both.
        rows: Row for the statistics of each tensor; −1: none.
        update_rows: Row for those of the differences, rounded as in `difference_into`; −1: none.
        moments, exponents: As in `summarize_into`.
        modes, update_modes: One mode for all, or one for each.

    Raises:
        ValueError: As in `summarize_many`. Nothing was changed.

    Example:
        >>> import numpy as np
        >>> from barograph.measures.summary import identity_rows
        >>> new, old, rows = np.array([1.5], np.float32), np.array([1.0], np.float32), identity_rows(2)
        >>> difference_many(np.array([new.ctypes.data]), np.array([old.ctypes.data]), np.array([1]),
        ...                 np.zeros(1, np.int32), np.array([0]), np.array([1]), rows)
        >>> rows[:, 7].tolist()
        [1.5, 0.5]
    """
    _loops.difference_many(afters, befores, numels, dtypes, rows, update_rows, moments, exponents, modes, update_modes)


def units_into(
    pointer: int,
    outer: int,
    units: int,
    inner: int,
    dtype: int,
    bound: float,
    columns: NDArray[np.float64],
) -> None:
    """Merge the statistics of each unit (channel, neuron) of an activation into its row of `columns`.

    The array is dense, of shape (outer, units, inner), and the unit is its middle axis: (N, C) is (N, C, 1), and
    (N, C, H, W) is (N, C, H · W).

    Args:
        pointer: Address of the first element.
        outer, units, inner: The shape.
        dtype: Type of the elements, a number of `DTYPE_CODES`.
        bound: `beyond` counts the elements with |x| >= bound, infinite ones included; NaN counts none.
        columns: Shape (units, 7), float64, C-contiguous, columns as in `UNIT_FIELDS`, min starting as +inf and
            max as −inf. Changed in place. Extremes and sums are over the finite elements.

    Raises:
        ValueError: A size, the type or the buffer is not as above. Nothing was changed.

    Example:
        >>> import numpy as np
        >>> batch = np.array([[0.0, 2.0], [0.0, -4.0]], np.float32)  # 2 samples of 2 units
        >>> columns = np.zeros((2, 7))
        >>> columns[:, 3:5] = np.inf, -np.inf
        >>> units_into(batch.ctypes.data, 2, 2, 1, dtype_code("float32"), 3.0, columns)
        >>> columns[:, 0].tolist(), columns[:, 1].tolist()  # zeros, beyond
        ([2.0, 0.0], [0.0, 1.0])
    """
    _loops.units_into(pointer, outer, units, inner, dtype, bound, columns)


def all_finite(pointers: NDArray[np.int64], numels: NDArray[np.int64], dtypes: NDArray[np.int32]) -> bool:
    """Return whether every element of every tensor is finite, including both parts of complex ones.

    It costs as much as reading the memory, and stops at the first nonfinite element.

    Args:
        pointers, numels, dtypes: One entry for each tensor, as in `summarize_many`.

    Raises:
        ValueError: As in `summarize_many`.

    Example:
        >>> import numpy as np
        >>> tensor = np.array([1.0, np.inf], np.float32)
        >>> all_finite(np.array([tensor.ctypes.data]), np.array([2]), np.array([dtype_code("float32")], np.int32))
        False
    """
    finite: bool = _loops.all_finite(pointers, numels, dtypes)
    return finite


def copy(destination: int, source: int, size_bytes: int) -> None:
    """Copy bytes from one address to another. The ranges must not overlap.

    Raises:
        ValueError: The size is negative, or an address is 0 although there are bytes to copy.
    """
    _loops.copy(destination, source, size_bytes)


def copy_many(destinations: NDArray[np.int64], sources: NDArray[np.int64], sizes_bytes: NDArray[np.int64]) -> None:
    """Copy many ranges of bytes as `copy` does.

    Raises:
        ValueError: As in `copy`, or the lengths differ. Nothing was changed.
    """
    _loops.copy_many(destinations, sources, sizes_bytes)


def use_threads(threads: int) -> int:
    """Set the number of threads that read large memory, including the caller's. Results are bitwise the same.

    The default is the number of CPUs of this process, but at most `MOST_THREADS` and `OMP_NUM_THREADS`. The NumPy
    reference has one.

    Args:
        threads: 1 to 64.

    Returns:
        The previous number.

    Raises:
        ValueError: The number is out of range.

    Example:
        >>> before = use_threads(1)
        >>> use_threads(before)
        1
    """
    before: int = _loops.use_threads(threads)
    return before


def _threads() -> int:
    """Return the default number of threads."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    most = min(int(allowed), MOST_THREADS) if allowed.isdecimal() else MOST_THREADS
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(most, processors))


def xla_handler() -> Any:
    """Return the handler for `jax.ffi` that computes statistics of a tensor inside an XLA program.

    A call takes one tensor, and `dtype`, `mode`, `units` and `bound` as 64-bit numbers. It returns a row of moments,
    the bins of a histogram if `mode` is not 0, and per-unit statistics of the last axis if `units` is not 0, in the
    layout of
    the other calls: 64-bit numbers in 32-bit words.

    Returns:
        A PyCapsule; None without the native loop.
    """
    return _loops.xla_handler() if available() else None


use_threads(_threads())
