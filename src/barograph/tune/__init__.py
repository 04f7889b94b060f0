"""Automatic tuning: find the best values of parameters with few and short trials."""

from barograph.late import importer

__all__ = ["Choice", "Completion", "FloatRange", "IntRange", "Objective", "RunningTrial", "Scale", "Space", "Stopping",
           "Study", "Trial", "Tuned", "tune", "tune_job"]

__getattr__ = importer(__name__, {
    "Choice": "barograph.tune.parameter", "FloatRange": "barograph.tune.parameter",
    "IntRange": "barograph.tune.parameter", "Scale": "barograph.tune.parameter", "Space": "barograph.tune.space",
    "Completion": "barograph.tune.spec", "Objective": "barograph.tune.spec", "Stopping": "barograph.tune.spec",
    "Study": "barograph.tune.study", "Trial": "barograph.tune.trial", "RunningTrial": "barograph.tune.running",
    "Tuned": "barograph.tune.running", "tune": "barograph.tune.running", "tune_job": "barograph.tune.job_studies",
})
