# Makefile - the front door: verbs over CMake.  `make help` lists them.

BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
PYTHON ?= /usr/bin/python3

# Ninja makes a new folder, if it is there; a folder made another way stays as it is.
ninja = $${CMAKE_GENERATOR:-$$(! command -v ninja >/dev/null || echo Ninja)}
cmake = CMAKE_GENERATOR="$(ninja)" cmake -S . -B $(1) $(2) $(CMAKE_FLAGS) >$(1)/cmake.log 2>&1 || { cat $(1)/cmake.log; exit 1; }
compile = mkdir -p $(1) && { $(call cmake,$(1),$(2)); } && env -u MAKEFLAGS -u MAKELEVEL cmake --build $(1) -j $(JOBS)
# A first configuration leaves the tests out; a folder that has them keeps them.
bare = $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DPARE_TESTS=OFF)

# What `make test` leaves to others.
apart = interop|all
# With QUICK=1, `make asan` leaves out what takes longest and what only calls others.
slow = ^(docs|example|dist)\.|faults\.|cli\.(compress|quantize_budget|train_|analyze)
threaded = test_loader test_plan test_microbatch test_train test_threads test_winograd test_gemm_packed test_depthwise \
    test_int8 test_int8_function test_nbits test_sparse test_tune test_tune_train test_train_kernels test_optim \
    test_rank test_histogram test_calibrate test_quantize_layouts test_analyze test_compress

.PHONY: all help deps demo test test-faults test-docs docs test-interop bench bench-train bench-masks bench-quant bench-nbits bench-calibrate bench-sparse results lint fmt asan tsan valgrind analyze-code fuzz install deb test-deb clean

all: ## build the libraries and the command
	@tools/deps.sh build
	@$(call compile,$(BUILD),$(bare))

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

deps: ## install all that any target needs
	@tools/deps.sh build test interop lint fuzz

demo: ## build the command, then prune, train, shrink and quantize a network that reads digits
	@tools/deps.sh build
	@$(call compile,$(BUILD),$(bare)) --target pare
	@tools/demo.sh $(BUILD)

test: ## build and run the tests: unit, official ONNX cases, command line, install
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -LE '$(apart)'

test-faults: ## all faults: every request for memory, every write, 50 kills of each kind, large models
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@PARE_FAULTS=all ctest --test-dir $(BUILD) -V -R '^(all_faults\.|unit\.test_faults)' \
	    | grep -E '^[0-9]+: [^ ]|tests passed|Failed' | grep -v 'Test command\|Test timeout\|Working Dir'

test-docs: ## run all that README and docs/ say: every command, every piece of code
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -R '^(docs|example)\.'

docs: all ## write docs/config.md anew from the tables of options
	@$(BUILD)/pare help --reference >docs/config.md

test-interop: ## compare with PyTorch and ONNX Runtime on whole networks; ALL=1: on all of them
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -L '^(interop$(if $(ALL),|all))$$'

bench: ## time Pare, ONNX Runtime and PyTorch, then training, quantizers, blocks of zeros; MODELS="resnet18 lenet" BATCH=1 THREADS=1 SECONDS=3
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/run.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
	    $(if $(BATCH),--batch "$(BATCH)") $(if $(THREADS),--threads "$(THREADS)") \
	    $(if $(SECONDS),--seconds $(SECONDS))
	@$(if $(MODELS),,$(train))
	@$(if $(MODELS),,$(quant))
	@$(if $(MODELS),,$(calibrate))
	@$(if $(MODELS),,$(sparse))

train = $(PYTHON) bench/train.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
    $(if $(THREADS),--threads "$(THREADS)") $(if $(SECONDS),--seconds $(SECONDS))

bench-train: ## time only training, Pare and PyTorch; MODELS="lenet resnet18-cifar" THREADS=1 SECONDS=3
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(train)

bench-masks: ## time masks and scores against PyTorch and numpy, on one thread; ROUNDS=5
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/masks.py --build $(BUILD) $(if $(ROUNDS),--rounds $(ROUNDS))

quant = $(PYTHON) bench/quant.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
    $(if $(THREADS),--threads "$(THREADS)") $(if $(ROUNDS),--rounds $(ROUNDS))

bench-quant: ## time training steps, float and quantized; MODELS=lenet THREADS=1 ROUNDS=15
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(quant)

bench-nbits: ## time products with weights of 4 and 8 bits against ONNX Runtime; THREADS=1 SECONDS=2 BATCH="1 4 64"
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/nbits.py --build $(BUILD) $(if $(THREADS),--threads $(THREADS)) \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(BATCH),--batch "$(BATCH)")

calibrate = $(PYTHON) bench/calibrate.py --build $(BUILD) $(if $(MODEL),--model $(MODEL)) \
    $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(THREADS),--threads "$(THREADS)")

bench-calibrate: ## time calibration beside running the model, and its memory; MODEL=resnet50 ROUNDS=3 THREADS=2
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(calibrate)

sparse = $(PYTHON) bench/sparse.py --build $(BUILD) $(if $(THREADS),--threads "$(THREADS)") \
    $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(LAYER),--layer "$(LAYER)")

bench-sparse: ## time layers with dense weights and with blocks of zeros; THREADS="1 2" ROUNDS=15 LAYER=resnet18
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(sparse)

results: ## write bench/RESULTS.md from what make bench measured
	@$(PYTHON) bench/results.py --build $(BUILD) > bench/RESULTS.md

lint: ## check style, layers, registries and headers; build without a warning
	@tools/deps.sh build test lint
	@BUILD=$(BUILD) tools/lint.sh

fmt: ## format all C files in place
	@tools/deps.sh lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

asan: ## the tests again, with the address and undefined-behaviour sanitizers
	@tools/deps.sh build test
	@$(call compile,$(BUILD)/asan,-DPARE_TESTS=ON -DPARE_SANITIZE=ON)
	@PARE_GRAPHS=$(or $(GRAPHS),20) ctest --test-dir $(BUILD)/asan --output-on-failure -j $(JOBS) \
	    -LE '$(apart)' $(if $(QUICK),-E '$(slow)')

tsan: ## threads under the thread sanitizer: the loader's, those of kernels, of whole trainings
	@tools/deps.sh build test fuzz
	@$(call compile,$(BUILD)/tsan,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=ON -DPARE_TSAN=ON \
	    -DPARE_MPI=OFF) --target $(threaded) pare
	@tools/tsan.sh $(BUILD)/tsan $(threaded)

valgrind: all ## the demo's commands under valgrind, on few items
	@tools/deps.sh build lint
	@tools/valgrind.sh $(BUILD)

analyze-code: ## clang-tidy and gcc's analyzer over src/
	@tools/deps.sh build lint
	@$(call compile,$(BUILD)/tidy,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=OFF) --target pare_wire >/dev/null
	@tools/analyze_code.sh $(BUILD)/tidy

fuzz: ## run all fuzzers, in SECONDS (600) altogether
	@tools/deps.sh build fuzz
	@$(call compile,$(BUILD)/fuzz,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=OFF -DPARE_FUZZ=ON)
	@tools/fuzz.sh $(BUILD)/fuzz $(SECONDS)

install: all ## install under PREFIX (/usr/local); DESTDIR is honoured
	@cmake --install $(BUILD) --prefix $(PREFIX)

deb: ## make a Debian package: build/deb/pare_VERSION_ARCHITECTURE.deb
	@tools/deps.sh build deb
	@$(call compile,$(BUILD)/deb,-DPARE_TESTS=OFF -DPARE_MPI=OFF -DCMAKE_INSTALL_PREFIX=/usr \
	    -DPARE_ZSH_DIR=share/zsh/vendor-completions)
	@cd $(BUILD)/deb && cpack -G DEB >cpack.log || { cat cpack.log; exit 1; }
	@ls $(BUILD)/deb/*.deb

test-deb: deb ## as root: install that package on a new Debian 12, and use it there
	@tools/deps.sh build deb root
	@tests/install/deb.sh $(BUILD)/deb/*.deb

clean: ## remove the build folder
	@rm -rf $(BUILD)
