#!/usr/bin/env bash
# All that needs a GPU, in one go: without a network, in under eight minutes.
#
#   bench/gpu.sh DIR                  install, tests, bench; logs and results in DIR
#   bench/gpu.sh DIR install          the package, and what lies in wheels/
#   bench/gpu.sh DIR tests [ARG...]   all tests marked `gpu`; ARGs are for pytest
#   bench/gpu.sh DIR bench [NAME...]  all benchmarks of bench/gpu, or some by name
#
# A part that fails does not stop the next ones. Exit code: 0 if all went well, 1 if
# something failed or ran out of time, 2 for bad usage, 3 where there is no GPU.
#
# PYTHON (python3) must have torch, CuPy, NumPy, pytest, hypothesis, pybind11,
# scikit-build-core, CMake and ninja. ECHOBUF_GPU_SECONDS (460) is the time for all of it.
# ECHOBUF_COMMIT is written to the results where the checkout has no history.
#
# wheels/ in the checkout, if there is one: what that Python lacks is installed from it,
# what it has is left as it is. On a machine with a network, most important first:
#
#   pip download --only-binary=:all: --no-deps --python-version 3.12 -d wheels \
#     --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
#     optree typing_extensions hypothesis sortedcontainers pytest-timeout \
#     torchrl==0.14.1 tensordict==0.14.3 hoptorch pyvers cloudpickle orjson \
#     ml_dtypes torchvision kornia kornia_rs importlib_metadata zipp flashbax chex absl-py toolz \
#     pytest-benchmark py-cpuinfo iniconfig pluggy packaging pygments \
#     matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing \
#     python-dateutil six rich markdown-it-py mdurl
set -uo pipefail
python="${PYTHON:-python3}"
total="${ECHOBUF_GPU_SECONDS:-460}"
benchmarks="draw_images draw_augmented draw_pages draw_small host_time upload training host_echoing
  replay_peers"

usage() {
  sed -n 's/^#   \(bench.*\)/\1/p' "$0" >&2
  exit 2
}
[ $# -ge 1 ] || usage
mkdir -p "$1" && out="$(cd "$1" && pwd)" || exit 2
part="${2:-all}"
shift; [ $# -eq 0 ] || shift
cd "$(dirname "$0")/.." || exit 2
source bench/gpu/steps.sh

# The options of pyproject.toml need plugins that may not be there.
tests() {
  run tests 150 "$python" -m pytest -o addopts=-ra -o filterwarnings=default \
    -p no:cacheprovider --durations=15 -m gpu tests/gpu "$@"
}

check_names() {
  local name
  for name in "$@"; do
    [ -e "bench/gpu/$name.py" ] || usage
  done
}

bench() {
  local name
  # shellcheck disable=SC2086 # a list
  for name in ${@:-$benchmarks}; do
    run "$name" 75 "$python" "bench/gpu/$name.py" --out "$out"
  done
}

case "$part" in
  install) begin; install ;;
  tests) need_gpu; begin; tests "$@" ;;
  bench) check_names "$@"; need_gpu; begin; bench "$@" ;;
  all) need_gpu; begin; install; tests; bench ;;
  *) usage ;;
esac
finish
