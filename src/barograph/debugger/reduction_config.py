"""smdebug's `ReductionConfig`: the reductions to save of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.debugger.exceptions import SMDebugValueError

REDUCTIONS = ("min", "max", "mean", "std", "variance", "sum", "prod")
NORMS = ("l1", "l2")


@dataclass(slots=True)
class ReductionConfig:
    """The reductions to save of a tensor, and whether to save the tensor.

    Attributes:
        reductions, abs_reductions: Of its elements, of their magnitudes; names of `REDUCTIONS`.
        norms, abs_norms: Likewise; names of `NORMS`.
        save_raw_tensor: The tensor itself.
        save_shape: Its shape.
    """

    reductions: Sequence[str] | None = None
    abs_reductions: Sequence[str] | None = None
    norms: Sequence[str] | None = None
    abs_norms: Sequence[str] | None = None
    save_raw_tensor: bool = False
    save_shape: bool = False

    def __post_init__(self) -> None:
        for name, known in (("reductions", REDUCTIONS), ("abs_reductions", REDUCTIONS), ("norms", NORMS),
                            ("abs_norms", NORMS)):
            given = list(getattr(self, name) or ())
            setattr(self, name, given)
            for item in given:
                if item not in known:
                    raise SMDebugValueError(f'"{item}" is not one of the {name}: {", ".join(known)}.')

    def wanted(self) -> Iterator[tuple[str, bool]]:
        """Yield each reduction, and whether it applies to magnitudes."""
        yield from ((name, False) for name in (*(self.reductions or ()), *(self.norms or ())))
        yield from ((name, True) for name in (*(self.abs_reductions or ()), *(self.abs_norms or ())))

    def to_json_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        names = [*(self.reductions or ()), *(f"{name}_norm" for name in self.norms or ()),
                 *(f"abs_{name}" for name in self.abs_reductions or ()),
                 *(f"abs_{name}_norm" for name in self.abs_norms or ())]
        return {"save_raw_tensor": self.save_raw_tensor, "reductions": ",".join(names), "save_shape": self.save_shape}
