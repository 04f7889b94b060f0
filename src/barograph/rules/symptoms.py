"""The index of rules by symptom: what a user sees, and the rules that look for its causes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barograph.rules.base import Rule
from barograph.rules.page import file_name, page_from_rule

FILE_NAME = "by-symptom.md"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A symptom as a user describes it.

    Attributes:
        heading: The symptom in the user's words.
        advice: One sentence, or "".
        codes: Rules that look for a cause, the most likely first.
    """

    heading: str
    codes: tuple[str, ...]
    advice: str = ""


COMPLAINTS = (
    Complaint("My loss is NaN or infinite",
              ("N101", "N102", "N104", "N103", "O103", "G103", "L105", "O101"),
              "The [flight recorder](../how-to/replay-a-failing-step.md) saves the failing step before its update."),
    Complaint("My loss does not fall",
              ("L101", "L108", "L106", "W101", "O102", "P108", "W104", "W103", "A101", "A102", "A103", "G101", "W102",
               "P101", "D108", "D103", "D105", "O104")),
    Complaint("My loss falls, then rises or jumps",
              ("L104", "L105", "G102", "G103", "W101", "O102", "N104", "D106")),
    Complaint("My first loss is far too high", ("L107", "W102", "D108", "D107", "D103")),
    Complaint("Validation is worse than training", ("L102", "P102", "L103", "T104"),
              "These rules need an evaluation inside the training."),
    Complaint("Validation is too good to be true", ("D109", "D110")),
    Complaint("My model always predicts the same class", ("D101", "D102", "A103", "L108", "D106", "D107")),
    Complaint("Some layers do not learn",
              ("W104", "W103", "W105", "P108", "A101", "A102", "G101", "W107", "W106")),
    Complaint("My transformer does not learn", ("A104", "D104", "W101", "N103", "L106")),
    Complaint("Mixed precision fails", ("O103", "N103", "N102", "N101")),
    Complaint("My data may be wrong",
              ("N104", "D103", "D101", "D105", "D106", "D107", "D109", "D110", "D104")),
    Complaint("Training is slow",
              ("M114", "M107", "M103", "M102", "M104", "M101", "M109", "M108", "M110", "M106"),
              "Most of these rules need some minutes of training on a GPU."),
    Complaint("Memory grows or runs out", ("M111", "M105", "M113")),
    Complaint("Training hangs or crashes", ("P106", "P107")),
    Complaint("Training runs for too long", ("L103", "L106", "T104")),
    Complaint("Training on several workers goes wrong", ("P103", "P104", "M110", "M106")),
    Complaint("Two runs that should agree differ", ("R101", "P105")),
    Complaint("My boosted trees are bad", ("T103", "T104", "T101", "T102", "D101", "D102", "L102")),
    Complaint("Recorded steps are missing", ("M112",)),
)


def index_by_symptom(rule_classes: Iterable[type[Rule]]) -> str:
    """Return the page that lists the rules by symptom.

    Raises:
        KeyError: A complaint names a rule that is not among `rule_classes`.
    """
    by_code = {rule_class.code: rule_class for rule_class in rule_classes}
    lines = ["# Rules by symptom", "",
             "Find what you see, then read the rules that look for its causes. `barograph show RUN` says which of them "
             "fired and which could not be evaluated.", "",
             *(f"- [{complaint.heading}](#{_anchor(complaint.heading)})" for complaint in COMPLAINTS), ""]
    for complaint in COMPLAINTS:
        lines += [f"## {complaint.heading}", "", *([complaint.advice, ""] if complaint.advice else []),
                  "| rule | looks for |", "|---|---|"]
        for rule_class in (by_code[code] for code in complaint.codes):
            lines.append(f"| [{rule_class.code} {rule_class.name}]({file_name(rule_class)}) | "
                         f"{page_from_rule(rule_class).fault} |")
        lines.append("")
    return "\n".join(lines)


def symptoms_section(code: str) -> str:
    """Return the section of a rule's page that links to its symptoms.

    Example:
        >>> print(symptoms_section("M112"))
        ## Symptoms
        <BLANKLINE>
        - [Recorded steps are missing](by-symptom.md#recorded-steps-are-missing)
        <BLANKLINE>
    """
    links = [f"- [{complaint.heading}]({FILE_NAME}#{_anchor(complaint.heading)})"
             for complaint in COMPLAINTS if code in complaint.codes]
    return "\n".join(["## Symptoms", "", *links, ""])


def _anchor(heading: str) -> str:
    return "".join(letter for letter in heading.lower() if letter.isalnum() or letter in " -").replace(" ", "-")
