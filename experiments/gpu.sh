#!/usr/bin/env bash
# The experiments that train, larger, on a machine with a GPU: without a network, in
# under eight minutes.
#
#   experiments/gpu.sh DIR             install, smoke, over_network, fresh_examples
#   experiments/gpu.sh DIR install     the package, and what lies in wheels/
#   experiments/gpu.sh DIR smoke       `echobuf doctor`, and two smoke runs
#   experiments/gpu.sh DIR NAME...     experiments by name, with what is installed
#
# Each stage is a process with a time limit. One that fails, or hangs, loses nothing of the
# others; of itself, over_network loses the seed that runs, fresh_examples the runs that it
# has begun. DIR holds the result files and pictures, summary.txt with a line for each stage
# that has ended, and STAGE.log with what it printed and the tracebacks of one that was
# stopped. Exit code: 0 if all went well, 1 if something failed or ran out of time, 2 for
# bad usage, 3 where there is no GPU.
#
# PYTHON (python3) must have torch, CuPy, NumPy, matplotlib, Pillow, rich and scikit-learn;
# and, where wheels/ has no wheel of this checkout, pybind11, scikit-build-core, CMake and
# ninja. wheels/ is as in bench/gpu.sh, with scikit-learn, scipy, joblib, threadpoolctl and
# narwhals beside what that names. ECHOBUF_GPU_SECONDS (460) is the time for all of it.
# ECHOBUF_DEVICE=cpu tries the script where there is no GPU: smoke runs on the simulated
# driver, and the figures of the experiments are the CPU's, and say so.
set -uo pipefail
python="${PYTHON:-python3}"
total="${ECHOBUF_GPU_SECONDS:-460}"
device="${ECHOBUF_DEVICE:-cuda}"
spare=60 # for what an experiment has begun when its time is over
jobs=8   # runs at a time where no time is measured
simulated=""
[ "$device" != cpu ] || simulated=--simulated

usage() {
  sed -n 's/^#   \(experiments.*\)/\1/p' "$0" >&2
  exit 2
}
[ $# -ge 1 ] || usage
mkdir -p "$1" && out="$(cd "$1" && pwd)" || exit 2
shift
cd "$(dirname "$0")/.." || exit 2
source bench/gpu/steps.sh
source bench/gpu/install.sh
source bench/gpu/smoke.sh

# experiment NAME SECONDS ARGUMENT...: begins nothing after its time, and ends what it has
# begun in the spare seconds.
experiment() {
  local name="$1" seconds="$2" left=$((total - SECONDS - spare))
  shift 2
  [ "$left" -ge 1 ] || { stage "$name" 0; return; }
  [ "$seconds" -le "$left" ] || seconds=$left
  stage "$name" $((seconds + spare)) "$python" "experiments/$name.py" \
    --seconds "$seconds" --device "$device" --out "$out" "$@"
}

# over_network widens its own model until R can be had.
over_network() { experiment over_network 150 --factors 5 --seeds 0 1 2 3 4 --rates 0.03 0.01 0.05 0.02 0.005; }
fresh_examples() { experiment fresh_examples "$total" --jobs "$jobs" --width 4; }

for name in "$@"; do
  case "$name" in
    install | smoke | over_network | fresh_examples) ;;
    *) usage ;;
  esac
done
[ "$*" = install ] || need_gpu
begin
# shellcheck disable=SC2048 # names
for name in ${*:-install smoke over_network fresh_examples}; do
  case "$name" in
    install) install ;;
    smoke) doctor; smoke draw torch ;;
    over_network) over_network ;;
    fresh_examples) fresh_examples ;;
  esac
done
finish
