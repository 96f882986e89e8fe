# SPDX-License-Identifier: Apache-2.0
# Thin: CMake builds (CMakePresets.json), scripts/ holds what takes more than one line.
.PHONY: all run test ci ci-rest soak bench lint install clean help
.DEFAULT_GOAL := all

PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 3600

all: ## build the release preset into build/
	@scripts/build.sh release

run: ## two real layers through the i8 cache, compared with the official implementation
	@scripts/deps.sh run
	@BUILD_TARGET=qsa_tool scripts/build.sh release
	build/qsa run tests/golden/real_long.safetensors
	build/qsa run tests/golden/real_edge.safetensors

test: ## release and asan: build, run every test but the long ones, list the kernel rows
	@scripts/deps.sh test
	@scripts/test.sh release asan

ci ci-rest: export CI = true
ci: test ci-rest ## test, then lint, the plugin for CUDA, thread sanitizer, AArch64, fuzzing and the long tests

ci-rest:
	@scripts/deps.sh ci
	@scripts/lint.sh
	@scripts/cuda.sh
	@scripts/test.sh tsan aarch64
	@scripts/fuzz.sh
	ctest --test-dir build -L long --parallel "$$(nproc)" --output-on-failure --no-label-summary </dev/null

soak: ## random histories of a cache for an hour (SECONDS=3600), with new seeds
	@scripts/build.sh release
	build/tests/test_history $(SECONDS)

bench: all ## the standard table: each part of the step beside what the machine can do, one thread
	build/qsa bench all

lint: ## SPDX lines, layout, clang-tidy, cppcheck, shellcheck
	@scripts/deps.sh ci
	@scripts/lint.sh

install: all ## install to PREFIX (default /usr/local), below DESTDIR
	DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

clean: ## remove every build folder
	rm -rf build build-debug build-asan build-tsan build-fuzz build-aarch64

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile
