"""A run in memory that tests write step by step, and findings."""

from diary import diary as diary
from diary import finding as finding
from diary import new_diary as new_diary
