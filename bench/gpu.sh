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
failed=0

# run NAME SECONDS COMMAND...: its output goes to a log, too; never longer than is left.
run() {
  local name="$1" limit="$2" began=$SECONDS code
  shift 2
  local left=$((total - SECONDS))
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    echo "== $name: left out, no time" | tee -a "$out/summary.txt"
    failed=1
    return
  fi
  echo "== $name (at ${SECONDS} s, limit $limit s)"
  timeout -k 5 "$limit" "$@" 2>&1 | tee "$out/$name.log"
  code=${PIPESTATUS[0]}
  [ "$code" -eq 0 ] || failed=1
  local said="exit code $code"
  [ "$code" -ne 124 ] || said="out of time"
  [ "$code" -ne 0 ] || said=ok
  echo "== $name: $said, $((SECONDS - began)) s" | tee -a "$out/summary.txt"
}

# The wheels of wheels/ whose package this Python does not have.
missing_wheels() {
  "$python" - <<'EOF'
import importlib.metadata, pathlib, re
have = {re.sub(r"[-_.]+", "-", d.name).lower() for d in importlib.metadata.distributions()}
for wheel in sorted(pathlib.Path("wheels").glob("*.whl")):
    if re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower() not in have:
        print(wheel)
EOF
}

# One that does not fit this Python does not stop the others.
install_wheels="
  \"$python\" -m pip install --no-index --no-deps -q \"\$@\" && exit
  for wheel in \"\$@\"; do
    \"$python\" -m pip install --no-index --no-deps -q \"\$wheel\" || failed=1
  done
  exit \$failed"

install() {
  local wheels
  wheels="$(missing_wheels)"
  # shellcheck disable=SC2086 # a list
  [ -z "$wheels" ] || run wheels 60 bash -c "$install_wheels" wheels $wheels
  export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"
  run install 150 "$python" -m pip install \
    --no-index --no-build-isolation --no-deps --force-reinstall .
}

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

need_gpu() {
  "$python" bench/gpu/has_gpu.py || exit $?
}

: > "$out/summary.txt"
case "$part" in
  install) install ;;
  tests) need_gpu; tests "$@" ;;
  bench) check_names "$@"; need_gpu; bench "$@" ;;
  all)
    need_gpu
    { nvidia-smi; "$python" -m pip list; } > "$out/machine.txt" 2>&1
    install
    tests
    bench
    ;;
  *) usage ;;
esac
echo "== all (${SECONDS} s)"
cat "$out/summary.txt"
exit "$failed"
