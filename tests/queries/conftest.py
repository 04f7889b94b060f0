"""Runs in memory that tests write, and small rules."""

from diary import diary as diary
from diary import finding as finding
from diary import new_diary as new_diary
from watched import clock as clock
from watched import high as high
from watched import new_store as new_store
from watched import new_training as new_training
from watched import raises as raises
from watched import store as store
from watched import training as training
