# shellcheck shell=bash
# What bench/gpu.sh and experiments/gpu.sh do alike; sourced by them in the root of the
# checkout, with out, python and total set.
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

need_gpu() {
  "$python" bench/gpu/has_gpu.py || exit $?
}

# What machine it is; an old summary is of another run.
begin() {
  : > "$out/summary.txt"
  { nvidia-smi; "$python" -m pip list; } > "$out/machine.txt" 2>&1
}

finish() {
  echo "== all (${SECONDS} s)"
  cat "$out/summary.txt"
  exit "$failed"
}
