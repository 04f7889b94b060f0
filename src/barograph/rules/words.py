"""Numbers and names in the wording of findings."""

from __future__ import annotations

from collections.abc import Sequence

from barograph.model.significant import significant
from barograph.rules.frameworks import either

CLIPPING = either(torch="torch.nn.utils.clip_grad_norm_ before optimizer.step",
                  keras="global_clipnorm of the optimizer", jax="optax.clip_by_global_norm")
"""How to clip gradients to a norm."""

IN_BFLOAT16 = either(torch="torch.autocast with dtype=torch.bfloat16", keras="the policy mixed_bfloat16")
"""How to train in bfloat16."""

SCALER = either(torch="torch.amp.GradScaler", keras="LossScaleOptimizer")
"""Loss scalers for half precision."""

DETACHING = either(torch=".detach() or .item()", keras="stop_gradient", jax="jax.lax.stop_gradient")
"""Ways to detach a tensor from the graph, by mistake or on purpose."""

FREEZING = either(torch="requires_grad_(False)", keras="trainable = False", jax="a mask in Optax")
"""How to freeze layers."""

UNFREEZING = either(torch="requires_grad_(True)", keras="trainable = True before compile",
                    jax="take them out of the mask in Optax")
"""How to unfreeze layers."""

UNFREEZE = f"Unfreeze the layers that should learn ({UNFREEZING})."

HE = either(torch="kaiming_normal_", keras="he_normal", jax="he_normal")
XAVIER = either(torch="xavier_uniform_", keras="glorot_uniform", jax="glorot_uniform")
BY_ACTIVATION = f"{HE} for ReLU, {XAVIER} for tanh and sigmoid"
"""Initializations of torch and those of Keras and JAX."""

SCALE_INPUTS = "Scale the inputs to zero mean and unit variance."


def number(value: float) -> str:
    """Return a number with three significant digits.

    Example:
        >>> number(0.00012345), number(1234.0), number(0.1), number(1e-5)
        ('0.000123', '1,230', '0.1', '1e-5')
    """
    return significant(value)


def percent(share: float) -> str:
    """Return a share as a percentage; never "100%" for less than all, nor "0%" for more than none.

    Example:
        >>> percent(0.5), percent(0.9999), percent(1.0), percent(0.0001)
        ('50%', '99.9%', '100%', '0.1%')
    """
    if 0 < share < 1:
        return f"{min(99.9, max(0.1, 100 * share)):.3g}%"
    return f"{100 * share:.3g}%"


def lapse(secs: float) -> str:
    """Return a time span in words.

    Example:
        >>> lapse(25.2), lapse(130.0), lapse(9000.0)
        ('25 seconds', '2 minutes', '2.5 hours')
    """
    if secs < 120:
        return f"{secs:.0f} seconds"
    return f"{secs / 60:.0f} minutes" if secs < 7200 else f"{number(secs / 3600)} hours"


def names(paths: Sequence[str], *, at_most: int = 3) -> str:
    """Return the first few paths, quoted, and how many more there are.

    Example:
        >>> names(["a", "b", "c", "d", "e"])
        '"a", "b", "c" and 2 more'
        >>> names(["a", "b"])
        '"a" and "b"'
    """
    quoted = [f'"{path}"' for path in paths[:at_most]]
    return joined([*quoted, f"{len(paths) - at_most} more"] if len(paths) > at_most else quoted)


def joined(words: Sequence[str]) -> str:
    """Return the words as a list in a sentence.

    Example:
        >>> joined(["losses", "outputs", "gradients"])
        'losses, outputs and gradients'
    """
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def lower_rate(rate: float | None, factor: float) -> str:
    """Return the advice to divide the learning rate, with its numbers where it is known.

    Example:
        >>> lower_rate(0.5, 10)
        'lower the learning rate from 0.5 to 0.05'
        >>> lower_rate(None, 10)
        'lower the learning rate 10 times'
    """
    if rate is None or rate <= 0:
        return f"lower the learning rate {factor:g} times"
    return f"lower the learning rate from {number(rate)} to {number(rate / factor)}"


def raise_rate(rate: float | None, factor: float) -> str:
    """Return the advice to multiply the learning rate, with its numbers where it is known.

    Example:
        >>> raise_rate(1e-5, 10)
        'raise the learning rate from 1e-5 to 0.0001'
    """
    if rate is None or rate <= 0:
        return f"raise the learning rate {factor:g} times"
    return f"raise the learning rate from {number(rate)} to {number(rate * factor)}"


def sentence(words: str) -> str:
    """Return the words with a capital at the start.

    Example:
        >>> sentence("lower it")
        'Lower it'
    """
    return words[:1].upper() + words[1:]
