# The commands are in do.py, which needs only Python. make passes them on.
PYTHON ?= python3
VERBS := demo test check bench versions docs setup clean

.PHONY: help $(VERBS)
help $(VERBS):
	@$(PYTHON) do.py $@
