# `make run` and `make test` set up everything they need in .uv and .venv of this folder.
.PHONY: run test bare release-check lint docs pictures bench lock wheel

VENV := .venv/bin

.venv/.ready: requirements.lock pyproject.toml tools/uv.txt
	tools/bootstrap

# This machine's GPUs and Slurm where they answer (exit 1: nothing could be read), else the demo fleet.
run: .venv/.ready
	@$(VENV)/gpumon $(ARGS) || { status=$$?; [ $$status -eq 1 ] && exec $(VENV)/gpumon demo; exit $$status; }

# Tests start gpumon some thousand times; compiled once, it starts in a third of the time.
# Three workers for two processors, of one thread each, but no more than memory has room for; ARGS="-n 0" runs one test after the other.
test: .venv/.ready
	unset PYTHONDONTWRITEBYTECODE; OMP_NUM_THREADS=1 $(VENV)/python -m pytest -n logical --maxprocesses 16 --dist worksteal $(ARGS)

# What `make test` promises on a fresh machine, tried on four of them; as root.
bare:
	tests/bare/all $(ARGS)

# The wheel and the source distribution under Debian's own pipx, on two of them, with a read-only home; as root, some minutes.
release-check:
	tests/bare/release $(ARGS)

lint: .venv/.ready
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

docs: .venv/.ready
	$(VENV)/python -m tools.pages
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict

# Every picture of the docs anew, in tmux, or those of ARGS="jobs ranks"; as root also those of many places.
pictures: .venv/.ready
	$(VENV)/python -m tools.pictures $(ARGS)

bench: .venv/.ready
	$(VENV)/python -m tests.bench $(ARGS)

# The source distribution, and the wheel built from it, as an installer that is given the first does.
wheel: .venv/.ready
	$(VENV)/python -m tools.man_page
	.uv/bin/uv build --quiet --no-build-isolation --python $(VENV)/python --out-dir dist .

# Pins every dependency with its hashes; the file names no package index.
lock: .venv/.ready
	.uv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--python-version 3.11 --group dev --output-file requirements.lock pyproject.toml
