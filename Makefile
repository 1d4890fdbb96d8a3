# Shorthands; what each step runs is in tests/check.py.
PYTHON ?= .venv/bin/python

.PHONY: check fix golden pages slow

check:  ## format, lint, types, imports, tests: what the README runs
	$(PYTHON) -m tests.check

fix:  ## format, and repair what the linter can
	$(PYTHON) -m ruff check --fix
	$(PYTHON) -m ruff format

golden:  ## rewrite tests/golden from what the program prints now; read the diff
	$(PYTHON) -m pytest --update-golden

pages:  ## write the pages of docs that are made of the tables of the package
	$(PYTHON) -m tests.pages

slow:  ## what CI runs besides: the tests that take long, and fuzzing
	$(PYTHON) -m tests.check slow slow-spark fuzz
