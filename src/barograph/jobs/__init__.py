"""Training jobs: run a script with its data on this machine or a cluster, surviving interruptions."""

from barograph.late import importer

__all__ = ["Job", "SubmittedJob"]

__getattr__ = importer(__name__, {"Job": "barograph.jobs.job", "SubmittedJob": "barograph.jobs.job"})
