# A thin front of Meson. make help lists what there is.

.PHONY: help build run test test-long bench fuzz lint format install-deps install clean

help:
	@echo "make run           install what is missing, build, start the gateway"
	@echo "make build         the optimised binary: build/stile"
	@echo "make test          all tests, in some minutes"
	@echo "make test-long     the same with the counts before a release, and shaken"
	@echo "make bench         stile and its peers side by side (BENCH_ARGS=--quick)"
	@echo "make fuzz          libFuzzer on every parser (FUZZ_SECONDS=60 each)"
	@echo "make lint          clang-format, clang-tidy, cppcheck, rooms, scripts"
	@echo "make format        clang-format on all sources"
	@echo "make install-deps  all packages, also for tests, lint, fuzz and benchmarks"
	@echo "make install       build and install (DESTDIR=…)"
	@echo "make clean         remove all build folders"

# What users run. Why -O3 and LTO: docs/internals/requests.md.
RELEASE = -Dtests=false -Doptimization=3 -Db_lto=true

build:
	@tools/install-packages build
	@tools/setup-build build $(RELEASE) -Dbench=false
	@ninja --quiet -C build

run: build
	@tools/install-packages run
	@build/stile serve $(ARGS)

test:
	@tools/install-packages build test
	@tools/run-tests

test-long:
	@tools/install-packages build test
	@STILE_TEST_SCALE=$${STILE_TEST_SCALE:-10} tools/run-tests

bench:
	@tools/install-packages build bench
	@tools/setup-build build $(RELEASE) -Dbench=true
	@ninja --quiet -C build
	@bench/run $(BENCH_ARGS)

fuzz:
	@tools/install-packages build fuzz
	@tools/run-fuzz

lint:
	@tools/install-packages build lint
	@tools/run-lint

format:
	@tools/install-packages lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install-deps:
	@tools/install-packages build run test lint fuzz bench

install: build
	@meson install -C build --no-rebuild

clean:
	rm -rf build build-test build-asan build-tsan build-fuzz build-lint build-walk
