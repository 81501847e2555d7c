# Every target makes what it needs: the first one pays for .venv, the others find it there.
#
#     make demo        topology optimization of a cantilever, with a picture in out/; installs what it needs, no more
#     make test        every law, rule, engine, front end and mode, and the examples of every docstring and page
#     make test-all    the rest: more numbers, views, sizes and pairs of the same, the benchmarks in their quick form; after `make mpi` a part of test-mpi
#     make compat      SciPy's own tests, with ldiv's functions in place of SciPy's: a part of test-all
#     make test-oldest what `make test` runs, with the oldest NumPy, SciPy, PyTorch and JAX that pyproject.toml admits;      make test-newest    with the
#                      newest Python that is here and the newest of all; NEWEST='jax torch' adds PyTorch, from the registry gigabytes
#     make test-pytensor    the adapter for PyTensor and its example, with one version of PyMC in an environment of its own over .venv
#     make coverage    lines and branches of each room that `make test` runs through
#     make fuzz        hard problems and bad calls for SECONDS=600, from SEED=0, of one KIND or all: counts, and the smallest Python that fails
#     make native      compiles ldiv._native, and fails where that fails
#     make native-asan compiles it with AddressSanitizer and UndefinedBehaviorSanitizer, and makes CALLS=100000 broken calls of it and of what XLA calls, from SEED=0
#     make lint        style and types; the workflows by zizmor, the project by sp-repo-review
#     make docs        the site in out/site, offline, warnings are errors, no example runs;      make docs-full    with the pictures of the gallery
#     make linkcheck   the links inside of the site
#     make release-check    sdist and wheel in dist/, each installed into a fresh environment, where the README's first example runs; and a wheel
#                      that is made without a compiler
#     make bench       the benchmarks, on one thread
#     make league      the gradient league: packages that claim derivatives, each in an environment of its own; about half an hour
#     make test-gpu    the tests that need CUDA;      make bench-gpu    the benchmarks that do
#     make mpi         PETSc, SLEPc and an MPI for .venv, on Debian and Ubuntu, as root: minutes, once
#     make test-mpi    matrices over several processes, on 1, 2 and 3 of them
#
# PYTHON chooses the interpreter (3.11 to 3.13). VENV=none runs in it as it is, say where a CUDA build of torch is installed already:
#     make test-gpu VENV=none PYTHON=/opt/torch/bin/python

PYTHON ?= python3
VENV ?= .venv

ifeq ($(VENV),none)
run := $(PYTHON)
programs :=
ready :=
demo_ready :=
export PYTHONPATH := $(CURDIR)/src
else
run := $(VENV)/bin/python
programs := $(VENV)/bin/
ready := $(VENV)/ready
demo_ready := $(VENV)/demo
endif

on_gpu := bench/bench_gpu.py
one_thread := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Modules are compiled once, not by every process that a test starts, and what takes long is in the log.
pytest_of = PYTHONDONTWRITEBYTECODE= $(one_thread) $(1) -m pytest --durations=40
one_pytest := $(call pytest_of,$(run))
# Two neighbours in a file often share what JAX has compiled: each worker starts on its half, and helps the other when it is done.
WORKERS ?= 2
workers := -n $(WORKERS) --dist worksteal
pytest := $(one_pytest) $(workers)
nothing_to_run := [ $$? -eq 5 ] # of pytest: where a framework is missing all that is left may be skipped with its files

help:
	@awk '!/^#/ { exit } { sub(/^# ?/, ""); print }' Makefile

.PHONY: help demo test test-all test-oldest test-newest test-pytensor coverage compat fuzz native native-asan lint docs docs-full linkcheck release-check bench league test-gpu bench-gpu mpi test-mpi test-mpi-part clean
.DEFAULT_GOAL := test

demo: $(demo_ready)
	$(run) examples/topology.py

test: $(ready)
	$(pytest) -m 'not exhaustive'

test-all: $(ready)
	$(pytest) -m exhaustive || $(nothing_to_run)
	@if [ -e $(VENV)-pytensor/ready ]; then $(MAKE) test-pytensor; else echo "not tested: PyTensor (make test-pytensor)"; fi
	@if [ -e $(VENV)/mpi ]; then $(MAKE) test-mpi-part; else echo "not tested: matrices over several processes (make mpi, make test-mpi)"; fi

compat: $(ready)
	$(one_pytest) -n 0 -s tests/compat

# Only what the tests of ldiv itself need: adapters have versions of their own.
tools := pytest pytest-timeout pytest-xdist mpmath array-api-strict
test-oldest: $(VENV)-oldest/ready
	$(call pytest_of,$(VENV)-oldest/bin/python) $(workers) -m 'not exhaustive' $(ours)
$(VENV)-oldest/ready: pyproject.toml .ci/oldest.txt $(wildcard native/* native/*/*)
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --constraint .ci/oldest.txt --editable '.[torch,jax,amg]' $(tools)
	touch $@

NEWEST ?= jax
NEWEST_PYTHON ?= $(shell .ci/newest_python)
test-newest: $(VENV)-newest/ready
	$(call pytest_of,$(VENV)-newest/bin/python) $(workers) -m 'not exhaustive' $(ours)
$(VENV)-newest/ready: pyproject.toml $(wildcard native/* native/*/*)
	$(NEWEST_PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --upgrade --editable '.[amg]' $(tools) $(NEWEST)
	touch $@

test-pytensor: $(VENV)-pytensor/ready
	$(call pytest_of,$(VENV)-pytensor/bin/python) -n 0 -p no:cacheprovider tests/pytensor tests/project/test_examples.py -k 'pytensor or car'
$(VENV)-pytensor/ready: .ci/pytensor.txt | $(ready)
	$(run) -m venv $(VENV)-pytensor
	$(run) -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
		> $$($(VENV)-pytensor/bin/python -c 'import site; print(site.getsitepackages()[0])')/below.pth
	$(VENV)-pytensor/bin/python -m pip install --constraint .ci/pytensor.txt pymc
	touch $@

# without pages, examples and adapters, which need packages of others, and the tests of the project itself; what needs a package that is missing is left out
ours := tests $(addprefix --ignore=tests/,cli compat linear_operator lineax project pymatsolver pytensor skfem)

coverage: $(ready)
	$(run) -m pip install --quiet 'pytest-cov>=6'
	$(pytest) -m 'not exhaustive' --cov=ldiv --cov-branch --cov-report=json:out/coverage.json --cov-report=
	$(run) .ci/coverage_by_room.py out/coverage.json

SECONDS ?= 600
SEED ?= 0
CALLS ?= 100000
KIND ?= all
fuzz: $(ready)
	PYTHONPATH=$(CURDIR)/tests:$$PYTHONPATH $(one_thread) $(run) -m adversarial.fuzz --seconds $(SECONDS) --seed $(SEED) --kind $(KIND)

# as `pip install --editable .` does, which does not fail
native: $(ready)
	cmake -S native -B build/native -DCMAKE_BUILD_TYPE=Release -DSKBUILD_STATE=editable \
		-DPython_EXECUTABLE=$$($(run) -c 'import sys; print(sys.executable)') -Dnanobind_DIR=$$($(run) -m nanobind --cmake_dir)
	cmake --build build/native
	cmake --install build/native --prefix build/native/installed

asan := build/asan
preloaded = $(foreach lib,asan ubsan stdc++,$(shell $(CXX) -print-file-name=lib$(lib).so))
native-asan: $(ready)
	cmake -S native -B $(asan) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$$($(run) -c 'import sys; print(sys.executable)') \
		-Dnanobind_DIR=$$($(run) -m nanobind --cmake_dir) -DCMAKE_CXX_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
	cmake --build $(asan)
	LDIV_NATIVE_AT=$$(ls $(CURDIR)/$(asan)/_native.*so) LD_PRELOAD="$(preloaded)" ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
		UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(CURDIR)/tests:$$PYTHONPATH $(one_thread) $(run) -m adversarial.native_fuzz --calls $(CALLS) --seed $(SEED)

lint: $(ready)
	$(run) -m ruff check .
	$(run) -m ruff format --check .
	$(run) .ci/shared_paragraphs.py --check
	$(run) -m mypy
	$(programs)zizmor --offline --no-progress --quiet .github
	$(run) -m repo_review --show=err .

sphinx := $(run) -m sphinx -E -W --keep-going -q -d out/doctrees
docs: $(ready)
	$(sphinx) -b html docs out/site
	$(run) .ci/check_site.py out/site

docs-full: $(ready)
	LDIV_DOCS_RUN_EXAMPLES=1 $(sphinx) -b html docs out/site
	$(run) .ci/check_site.py out/site

linkcheck: $(ready)
	$(sphinx) -b linkcheck docs out/linkcheck

release-check: $(ready)
	$(run) .ci/check_release.py

bench: $(ready)
	for script in $(filter-out $(on_gpu),$(wildcard bench/bench_*.py)); do $(run) $$script || exit 1; done
	$(run) bench/summary.py

league: $(ready)
	$(run) bench/league --install
	$(run) bench/league

test-gpu: $(ready)
	$(run) -m pytest --durations=40 -m gpu -rs

bench-gpu: $(ready)
	$(run) $(on_gpu)

# Debian's PETSc is 3.18, so that its petsc4py is, too; a PETSc of your own: make mpi PETSC4PY=3.26.1 SLEPC4PY=3.26.1 PETSC_DIR=... SLEPC_DIR=...
PETSC_DIR ?= /usr/lib/petscdir/petsc-real
SLEPC_DIR ?= /usr/lib/slepcdir/slepc-real
PETSC4PY ?= 3.18.5
SLEPC4PY ?= 3.18.2
mpi: $(VENV)/mpi
$(VENV)/mpi: $(ready)
	test -d $(PETSC_DIR) -a -d $(SLEPC_DIR) || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		libpetsc-real-dev libslepc-real-dev libopenmpi-dev openmpi-bin gcc g++)
	$(run) -m pip install --quiet --no-deps mpi4py
	# their setup.py needs distutils as setuptools had it before version 60: in an environment of its own, beside ours
	$(PYTHON) -m venv $(VENV)/mpi-build
	$(VENV)/mpi-build/bin/python -m pip install --quiet 'setuptools<60' wheel numpy==$$($(run) -c 'import numpy; print(numpy.__version__)')
	PETSC_DIR=$(PETSC_DIR) $(VENV)/mpi-build/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir $(VENV)/mpi-build petsc4py==$(PETSC4PY)
	$(VENV)/mpi-build/bin/python -m pip install --quiet --no-deps $(VENV)/mpi-build/petsc4py-*.whl
	PETSC_DIR=$(PETSC_DIR) SLEPC_DIR=$(SLEPC_DIR) $(VENV)/mpi-build/bin/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir $(VENV)/mpi-build slepc4py==$(SLEPC4PY)
	$(run) -m pip install --quiet --no-deps $(VENV)/mpi-build/petsc4py-*.whl $(VENV)/mpi-build/slepc4py-*.whl
	touch $@

mpirun := OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LDIV_DISTRIBUTED_TIMEOUT=60 $(one_thread) timeout 600 mpirun --oversubscribe
test-mpi: $(VENV)/mpi
	for n in 1 2 3; do $(mpirun) -n $$n $(run) -m pytest -q --durations=40 -p no:cacheprovider tests/distributed || exit 1; done

test-mpi-part: $(ready)
	$(mpirun) -n 2 $(run) -m pytest -q --durations=10 -p no:cacheprovider -m 'not exhaustive' tests/distributed

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-pytensor out build dist docs/generated .pytest_cache .mypy_cache .ruff_cache

sources := pyproject.toml constraints.txt $(wildcard native/* native/*/*)
$(VENV)/demo: $(sources)
	$(PYTHON) -m venv $(VENV)
	# Python compiles what it imports: the rest, which is the most, is not waited for
	$(VENV)/bin/python -m pip install --no-compile --constraint constraints.txt --editable '.[demo]'
	touch $@

# ldiv is there, compiled: what is missing are the packages of the extra
$(VENV)/ready: $(VENV)/demo
	$(VENV)/bin/python -m pip install --constraint constraints.txt 'ldiv[dev]'
	touch $@
