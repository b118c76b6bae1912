# shellcheck shell=bash
# The self-test and the smoke runs; sourced after steps.sh.

doctor() {
  stage doctor 30 "$python" -m echobuf doctor
}

# smoke NAME...: all at once, so that they take 30 s at most; and once more under
# compute-sanitizer, where it is installed.
smoke() {
  local tool
  # shellcheck disable=SC2086 # an option, or none
  side_by_side smoke 30 "$@" -- "$python" bench/gpu/smoke_NAME.py $simulated
  tool="$(sanitizer)"
  if [ -z "$tool" ]; then
    note "sanitized: compute-sanitizer is not there"
    return
  fi
  # Errors that the driver returns are left out: callers expect some of them.
  # shellcheck disable=SC2086 # an option, or none
  side_by_side sanitized 60 "$@" -- "$tool" --tool memcheck --report-api-errors no \
    --error-exitcode 1 "$python" bench/gpu/smoke_NAME.py $simulated
}

sanitizer() {
  local tool
  for tool in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer; do
    if [ -x "$tool" ]; then
      echo "$tool"
      return
    fi
  done
}
