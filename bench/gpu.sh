#!/usr/bin/env bash
# All that needs a GPU, in one go: without a network, in under eight minutes; on 16 cores,
# with a wheel of the package, about seven.
#
#   bench/gpu.sh DIR                  all of it; logs and results in DIR
#   bench/gpu.sh DIR install          the package, and what lies in wheels/
#   bench/gpu.sh DIR smoke            `echobuf doctor`, and the smoke runs
#   bench/gpu.sh DIR tests [NAME...]  all files of tests/gpu, or some by name
#   bench/gpu.sh DIR contract         the contract's tests of all devices
#   bench/gpu.sh DIR bench [NAME...]  all benchmarks of bench/gpu, or some by name
#   bench/gpu.sh --simulated DIR ...  the same on the simulated driver
#
# Each stage is a process with a time limit: the installation, each smoke run, each file of
# tests, each benchmark. Files of tests run side by side on all cores, but for `memory`,
# which looks at what others leave free; benchmarks run alone. One that fails, or hangs, loses nothing of the others.
# DIR/summary.txt has a line for each stage that has ended, DIR/STAGE.log its output, with
# the tracebacks of a stage that was stopped. Exit code: 0 if all went well, 1 if something
# failed or ran out of time, 2 for bad usage, 3 where there is no GPU.
#
# The stage `contract` runs the contract's tests on the device (`--real-device`, see
# tests/on_simulated.py), on all cores where pytest-xdist is there. In this form it has been
# tried on the simulated driver only, where it runs a few of them.
#
# On the simulated driver only the tests run that need no GPU, and the figures of the
# benchmarks mean nothing.
#
# PYTHON (python3) must have torch, CuPy, NumPy, pytest and hypothesis; and, where wheels/
# has no wheel of this checkout, pybind11, scikit-build-core, CMake and ninja.
# ECHOBUF_GPU_SECONDS (460) is the time for all of it. ECHOBUF_COMMIT is written to the
# results where the checkout has no history. PYTEST_ADDOPTS holds options for pytest.
#
# wheels/ in the checkout, if there is one: what that Python lacks is installed from it,
# what it has is left as it is. The package itself is installed from there, too, if the
# version, Python files, headers and kernels of its wheel are the checkout's. With the same
# Python version and a C library that is no newer:
#
#   python3.12 -m pip wheel --no-deps -w wheels .
#
# On a machine with a network, most important first:
#
#   pip download --only-binary=:all: --no-deps --python-version 3.12 -d wheels \
#     --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
#     optree typing_extensions pytest hypothesis sortedcontainers pytest-timeout \
#     pytest-xdist execnet \
#     torchrl==0.14.1 tensordict==0.14.3 hoptorch pyvers cloudpickle orjson \
#     ml_dtypes torchvision kornia kornia_rs importlib_metadata zipp flashbax chex absl-py toolz \
#     pytest-benchmark py-cpuinfo iniconfig pluggy packaging pygments \
#     matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing \
#     python-dateutil six rich markdown-it-py mdurl
set -uo pipefail
python="${PYTHON:-python3}"
total="${ECHOBUF_GPU_SECONDS:-460}"
simulated=""
# The most important first.
smokes=(draw chain graph torch jax)
tests=(ragged transforms order streams graphs torch current errors processes jax experiments
  producer_examples upstreams memory)
alone=" memory " # tests beside which nothing else uses the device
benchmarks=(draw_images draw_augmented draw_pages draw_small draw_ragged host_time upload training resnet
  host_echoing replay_peers put_device)
for_benchmarks=150 # seconds that tests leave them

usage() {
  sed -n 's/^#   \(bench.*\)/\1/p' "$0" >&2
  exit 2
}
[ "${1:-}" != --simulated ] || { simulated=--simulated; shift; }
[ $# -ge 1 ] || usage
mkdir -p "$1" && out="$(cd "$1" && pwd)" || exit 2
part="${2:-all}"
shift; [ $# -eq 0 ] || shift
cd "$(dirname "$0")/.." || exit 2
source bench/gpu/steps.sh
source bench/gpu/install.sh
source bench/gpu/smoke.sh

# check_names PATTERN NAME...: there is a file for each name, which replaces NAME.
check_names() {
  local pattern="$1" name
  shift
  for name in "$@"; do
    [ -e "${pattern//NAME/$name}" ] || usage
  done
}

# The options of pyproject.toml need plugins that may not be there.
tests() {
  local name marked="gpu" together=() apart=()
  [ -z "$simulated" ] || marked="not gpu"
  [ $# -gt 0 ] || set -- "${tests[@]}"
  for name in "$@"; do
    if [[ "$alone" == *" $name "* ]]; then apart+=("$name"); else together+=("$name"); fi
  done
  set -- "$python" -m pytest -v -o addopts=-ra -o filterwarnings=default \
    -p no:cacheprovider --durations=5 -m "$marked" tests/gpu/test_gpu_NAME.py
  side_by_side test_gpu 150 "${together[@]}" -- "$@"
  for name in "${apart[@]}"; do
    side_by_side test_gpu 60 "$name" -- "$@"
  done
}

contract() {
  local tried=(--real-device tests/{buffer,structure,expiry,ragged,loader,on_torch,on_jax})
  [ -z "$simulated" ] || tried=(--real-device --stand-in tests/buffer/test_batches.py
    tests/structure/test_structure.py tests/ragged/test_ragged_out.py)
  ! "$python" -c "import xdist" > /dev/null 2>&1 || tried+=(-n "$cores")
  stage contract 120 "$python" -m pytest -o addopts=-ra -o filterwarnings=default \
    -p no:cacheprovider -m "contract and not host" "${tried[@]}"
}

bench() {
  local name
  [ $# -gt 0 ] || set -- "${benchmarks[@]}"
  for name in "$@"; do
    stage "$name" 90 "$python" "bench/gpu/$name.py" --out "$out" \
      ${simulated:+--simulated --rounds 1}
  done
}

everything() {
  install
  doctor
  smoke "${smokes[@]}"
  kept=$for_benchmarks
  tests
  contract
  kept=0
  bench
}

case "$part" in
  tests) check_names tests/gpu/test_gpu_NAME.py "$@" ;;
  bench) check_names bench/gpu/NAME.py "$@" ;;
  install | smoke | contract | all) [ $# -eq 0 ] || usage ;;
  *) usage ;;
esac
[ "$part" = install ] || need_gpu
begin
[ -z "$simulated" ] || note "SIMULATED: what is measured means nothing"
case "$part" in
  all) everything ;;
  smoke) doctor; smoke "${smokes[@]}" ;;
  *) "$part" "$@" ;;
esac
finish
