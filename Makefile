# The verbs are in do.py, which needs nothing but Python. This passes them on, for fingers that know make.
PYTHON ?= python3
VERBS := demo test check bench versions docs setup clean

.PHONY: help $(VERBS)
help $(VERBS):
	@$(PYTHON) do.py $@
