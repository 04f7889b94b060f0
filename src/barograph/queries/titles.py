"""Titles of problems, one line each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from barograph.model.cause import Cause
from barograph.model.finding import Finding

SURE = 0.5
"""Weight from which on a title names the cause; below it names the symptom."""

_OF_CAUSES: Mapping[str, str] = {
    Cause.LEARNING_RATE_TOO_HIGH: "The learning rate is too high",
    Cause.LEARNING_RATE_TOO_LOW: "The learning rate is too low",
    Cause.SCHEDULER_MISPLACED: "The learning rate scheduler steps at the wrong time",
    Cause.NO_WARMUP: "The learning rate needs a warmup",
    Cause.WEIGHT_DECAY_TOO_LARGE: "The weight decay is too large",
    Cause.MOMENTUM_WRONG: "The momentum is too high",
    Cause.OPTIMIZER_STATE_LOST: "The optimizer loses its state again and again",
    Cause.NO_GRADIENT_CLIPPING: "Gradients explode and nothing clips them",
    Cause.FROZEN_PARAMETER: "Parameters are frozen",
    Cause.PARAMETER_NOT_IN_OPTIMIZER: "Parameters are missing from the optimizer",
    Cause.STALE_OPTIMIZER: "The optimizer updates parameters that the model does not use",
    Cause.DETACHED_GRAPH: "The graph is cut: no gradient reaches some parameters",
    Cause.UNUSED_PARAMETER: "Parameters are not used in the forward pass",
    Cause.GRADIENTS_NOT_RESET: "Gradients are not reset: zero_grad is missing",
    Cause.EVAL_MODE_IN_TRAINING: "The model trains in evaluation mode",
    Cause.TRAIN_MODE_IN_EVALUATION: "The model is evaluated in training mode",
    Cause.INPLACE_UPDATE: "A tensor that backward needs is changed in place",
    Cause.GRADIENTS_NOT_AVERAGED: "Workers do not average their gradients",
    Cause.SAME_DATA_ON_ALL_WORKERS: "All workers train on the same samples",
    Cause.NONDETERMINISM: "Training is not deterministic",
    Cause.WRONG_LOSS: "The loss function does not fit the task",
    Cause.LOSS_SIGN: "The loss has the wrong sign",
    Cause.SOFTMAX_TWICE: "Softmax is applied twice",
    Cause.LOGITS_AS_PROBABILITIES: "The loss expects probabilities and gets logits",
    Cause.SOFTMAX_WRONG_AXIS: "Softmax runs over the wrong axis",
    Cause.BROADCAST_TARGETS: "Outputs and targets are broadcast against each other",
    Cause.LABELS_UNRELATED: "The labels do not match the inputs",
    Cause.LABELS_OFF_BY_ONE: "Labels are off by one",
    Cause.TARGETS_IN_INPUT: "The target leaks into the input",
    Cause.INPUT_NOT_NORMALIZED: "Inputs are not normalized",
    Cause.NON_FINITE_INPUT: "The input data contains NaN or infinite values",
    Cause.BAD_SAMPLE: "A sample is far out of range",
    Cause.UNSHUFFLED_DATA: "The training data is not shuffled",
    Cause.REPEATED_BATCH: "The same batch is used again and again",
    Cause.CLASS_IMBALANCE: "Some classes are too rare to be learned",
    Cause.LEAKY_VALIDATION: "Training samples are in the validation data",
    Cause.OVERFITTING: "The model overfits",
    Cause.DEAD_RELU: "ReLU units are dead",
    Cause.SATURATED_ACTIVATION: "Activations are saturated",
    Cause.VANISHING_GRADIENT: "The gradient vanishes",
    Cause.EXPLODING_GRADIENT: "The gradient explodes",
    Cause.CONSTANT_INITIALIZATION: "Weights are initialized to a constant",
    Cause.INITIALIZATION_SCALE: "Weights are initialized at the wrong scale",
    Cause.ATTENTION_COLLAPSE: "Attention has collapsed",
    Cause.REPRESENTATION_COLLAPSE: "Different inputs give the same output",
    Cause.FP16_UNDERFLOW: "Values underflow in half precision",
    Cause.FP16_OVERFLOW: "Values overflow in half precision",
    Cause.LOSS_SCALE_COLLAPSE: "The loss scale collapses",
    Cause.EXP_OVERFLOW: "An exponential overflows",
    Cause.LOG_OF_ZERO: "The logarithm of 0 is taken",
    Cause.DIVISION_BY_ZERO: "A number is divided by 0",
    Cause.SQRT_OF_ZERO: "The gradient of a square root at 0 is infinite",
    Cause.TREES_TOO_DEEP: "Trees are too deep",
    Cause.TREES_ADD_NOTHING: "Trees add nothing",
    Cause.FEW_FEATURES_DOMINATE: "A few features dominate",
    Cause.SLOW_DATA_LOADING: "Training waits for data",
    Cause.MACHINE_UNDERUSED: "The machine is underused",
    Cause.MEMORY_LEAK: "Memory grows with every step",
    Cause.SLOW_WORKER: "One worker slows down the others",
    Cause.SCRIPT_ERROR: "The script ended with an error",
}

_OF_RULES: Mapping[str, str] = {
    "G102": "The gradient norm has spikes",
    "G103": "The gradient explodes",
    "L101": "The loss does not fall",
    "L102": "The model overfits",
    "L103": "Training has stopped improving",
    "L104": "The loss has spikes",
    "L105": "The loss diverges",
    "L106": "The loss is on a plateau",
    "L107": "The first loss is far above chance",
    "L108": "The model has learned nothing from its inputs",
    "N101": "NaN or infinite values",
    "N102": "NaN or infinite values",
    "W103": "Parameters do not change",
    "W104": "Parameters do not change",
    "A103": "Different inputs give the same output",
}
"""Titles of symptoms, by rule; other rules use the first clause of the message."""

_OF_FINDINGS: Mapping[tuple[str, str], str] = {
    ("L102", Cause.LABELS_UNRELATED): "On validation data, the model is no better than a constant prediction",
    ("D102", Cause.LABELS_UNRELATED): "Training and validation number the classes differently",
}
"""Titles of causes that a rule knows more exactly, by rule and cause."""

_IN_WORDS: Mapping[str, str] = {
    "all-zero": "all-zero tensors",
    "amp-scale": "falling loss scale",
    "confusion": "confused classes",
    "cpu-bottleneck": "CPU bottleneck",
    "gpu-memory-increase": "growing GPU memory",
    "non-determinism": "results that differ between runs",
    "non-finite": "NaN or infinite values",
    "non-finite-input": "NaN or infinite inputs",
    "non-finite-origin": "the first NaN or infinite value",
    "optimizer-state": "wrong optimizer state",
    "overfit": "overfitting",
    "parameters-and-optimizer": "parameters missing in the optimizer",
    "train-eval-mode": "wrong train or eval mode",
    "tensor-variance": "wrong variance of weights",
    "underfit": "underfitting",
    "weight-decay": "dominating weight decay",
    "weight-update-ratio": "unusual size of updates",
    "wrong-chance": "first loss above chance",
}
"""Names of rules in plain words, where the words of the name are unclear."""

_UNITS = {"A101": "dead", "A102": "saturated"}
_MOST_CHARS = 72
_OTHER_WORDS = 0.25
"""Share of words that may be other ones in a repetition."""
_ENDS = r" \([^()]*\)(?:[,:;.]|$)|[:;] |\.(?: |$)"
_CLAUSE = re.compile(rf"(?:(?!{_ENDS})(?:\([^()]*\)|.))*", re.DOTALL)
"""Ends at punctuation outside of parentheses, or before a parenthesis in front of punctuation."""


def title_of(cause: str, weight: float, lead: Finding) -> str:
    """Return the title of a problem.

    Args:
        cause: Name of the cause; "" if unknown.
        weight: Strength of the evidence for the cause, from 0 to 1.
        lead: The finding with the strongest evidence.
    """
    if cause == Cause.SCRIPT_ERROR:
        return lead.message if len(lead.message) <= _MOST_CHARS else first_clause(lead.message)
    if cause and weight >= SURE:
        if lead.code in _UNITS and cause in (Cause.DEAD_RELU, Cause.SATURATED_ACTIVATION):
            return _units_title(lead) or _OF_CAUSES[cause]
        if cause == Cause.SOFTMAX_TWICE and "the sigmoid" in lead.remedy:
            return "Sigmoid is applied twice"
        if known := _OF_FINDINGS.get((lead.code, cause)) or _OF_CAUSES.get(cause):
            return known
    return _OF_RULES.get(lead.code) or _units_title(lead) or first_clause(lead.message)


def kind_of_problem(cause: str, weight: float, lead: Finding) -> str:
    """Return the title of a problem without what differs between runs, such as the name of a layer; see `title_of`."""
    known = (_OF_FINDINGS.get((lead.code, cause)) or _OF_CAUSES.get(cause)) if weight >= SURE else None
    words = rule_in_words(lead.rule)
    return known or _OF_RULES.get(lead.code) or words[:1].upper() + words[1:]


def cause_in_words(cause: str) -> str:
    """Return a cause as a clause: "the learning rate is too high".

    Example:
        >>> cause_in_words("learning-rate-too-high"), cause_in_words("my-own")
        ('the learning rate is too high', 'my own')
    """
    title = _OF_CAUSES.get(cause)
    if title is None:
        return cause.replace("-", " ")
    return title if title.split()[0] in ("ReLU",) else title[0].lower() + title[1:]


def rule_in_words(rule: str) -> str:
    """Return what a rule reports, in words.

    Example:
        >>> rule_in_words("dead-relu"), rule_in_words("underfit")
        ('dead ReLU', 'underfitting')
    """
    return _IN_WORDS.get(rule) or " ".join("ReLU" if word == "relu" else word for word in rule.split("-"))


def first_clause(message: str) -> str:
    """Return the first clause of a message, shortened if it is long.

    Example:
        >>> first_clause("The gradient explodes: its norm rose from 1 to 100. It will not stop.")
        'The gradient explodes'
        >>> first_clause("A step changed it by 0.9 (normal: up to 0.1), and the loss rose.")
        'A step changed it by 0.9'
        >>> first_clause("Memory of the training process (p0: worker) keeps growing: by 3 MB a step.")
        'Memory of the training process (p0: worker) keeps growing'
    """
    clause = _CLAUSE.match(message)[0].strip()  # type: ignore[index]  # it matches any text
    return clause if len(clause) <= _MOST_CHARS else clause[:_MOST_CHARS].rsplit(" ", 1)[0] + " …"


def beyond(title: str, message: str) -> str:
    """Return a message without the clause that the title of its problem says already; "" if it says no more.

    Example:
        >>> beyond("Training stalled", "Training stalled: no step for 33 minutes.")
        'No step for 33 minutes.'
        >>> beyond("The loss is 0", "The loss is 0."), beyond("Weights are zero", "The weight is zero: a, b.")
        ('', 'The weight is zero: a, b.')
        >>> beyond("Memory (p0: worker) keeps growing", "Memory (p0: worker) keeps growing: by 3 MB a step.")
        'By 3 MB a step.'
    """
    if says(title, message):
        return ""
    clause = _CLAUSE.match(message)[0]  # type: ignore[index]  # it matches any text
    rest = message.removeprefix(f"{clause}: ")
    if rest == message or not says(title, clause):
        return message
    return rest[0].upper() + rest[1:] if rest.split()[0].isalpha() else rest


def says(said: str, text: str) -> bool:
    """Return whether a text only repeats what was said.

    It adds something if it has another number, another name in quotes, a "not", or many other words.

    Example:
        >>> says("2 NaN of 100 values in the batch of step 7.", "2 NaN values in the batch")
        True
        >>> says("All units are dead.", "All 8 units are dead"), says("The loss is 0.", "The learning rate is 0")
        (False, False)
        >>> says('Outputs of "encoder" are almost identical', 'outputs of "decoder" are almost identical')
        False
    """
    words = _words(text)
    others = words - _words(said)
    matters = "not" in others or any(re.search(r"\d", word) for word in others) or _quoted(text) - _quoted(said)
    return len(others) <= _OTHER_WORDS * len(words) and not matters


def _quoted(text: str) -> set[str]:
    return set(re.findall(r'"([^"]+)"', text))


def _words(text: str) -> set[str]:
    return {word.strip(".'-") for word in re.findall(r"[\w.%'-]+", text.casefold())}


def tidy(text: str) -> str:
    """Return a rule's text with percentages without a space and numbers that are practically zero as 0.

    Example:
        >>> tidy('62.5 % of the units; the norm is 5.09e-17'), tidy("0.1 % or less")
        ('62.5% of the units; the norm is 0', '0.1% or less')
    """
    return re.sub(r"\b\d(?:\.\d+)?e-(?:1[5-9]|[2-9]\d|\d{3})\b", "0", re.sub(r"(?<=\d) %", "%", text))


def percentage(share: float) -> str:
    """Return a share in three digits, as "38.6%".

    Example:
        >>> percentage(0.386), percentage(1.0), percentage(0.9999)
        ('38.6%', '100%', '99.9%')
    """
    percent = 100 * share
    return f"{min(99.9, percent) if share < 1 else percent:.3g}%"


def _units_title(lead: Finding) -> str:
    what = _UNITS.get(lead.code)
    worst = next((item for item in lead.evidence if item.key is not None and item.statistic.endswith("_share")), None)
    if what is None or worst is None or worst.key is None:
        return ""
    share = "All" if worst.value == 1 else f"{percentage(worst.value)} of the"
    path = worst.key.path
    return f"{share} units of {f'layer {path}' if path.isdigit() else path} are {what}"
