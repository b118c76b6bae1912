# shellcheck shell=bash
# Stages of bench/gpu.sh and experiments/gpu.sh: each is a process with a log, so that a
# fault in one loses nothing of the others. Sourced in the root of the checkout, with out,
# python, total and simulated set.
failed=0
kept=0    # seconds that are kept for the stages after
# os.cpu_count(); `nproc` prints OMP_NUM_THREADS where that is set.
cores="$(getconf _NPROCESSORS_ONLN)"
nothing=5 # exit code: there is nothing to run; pytest's, too
# A stage is stopped with SIGABRT, at which Python prints the tracebacks of its threads; and
# all that it printed before is in its log.
export PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
ulimit -c 0
running=() # the stage that runs, or those side by side: their processes
trap 'stop 129' HUP
trap 'stop 130' INT
trap 'stop 143' TERM

# stop CODE: end what runs, and leave. In a process group of its own, `timeout` passes
# SIGTERM on to its group; SIGINT from a terminal does not reach it.
stop() {
  trap '' HUP INT TERM
  [ ${#running[@]} -eq 0 ] || { kill "${running[@]}"; wait "${running[@]}"; } 2> /dev/null
  exit "$1"
}

note() {
  echo "== $*" | tee -a "$out/summary.txt"
}

# stage NAME SECONDS COMMAND...: never longer than is left. Its output goes through no pipe,
# which a process that outlives the stage would keep open.
stage() {
  local name="$1" limit="$2" began=$SECONDS code=0
  local left=$((total - kept - SECONDS))
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    note "$name: left out, no time"
    failed=1
    return 1
  fi
  echo "== $name (at $began s, limit $limit s)"
  timeout -s ABRT -k 5 "$limit" "$@" > "$out/$name.log" 2>&1 < /dev/null &
  running=($!)
  wait "${running[0]}" || code=$?
  running=()
  tail -n 20 "$out/$name.log"
  note "$name: $(meaning "$code"), $((SECONDS - began)) s"
  [ "$code" -eq 0 ] || [ "$code" -eq "$nothing" ] || failed=1
  return "$failed"
}

meaning() {
  case "$1" in
    0) echo ok ;;
    "$nothing") echo "nothing to run" ;;
    124) echo "out of time, exit code $1" ;;
    137) echo "killed, exit code $1" ;;
    *) echo "exit code $1" ;;
  esac
}

# side_by_side PREFIX SECONDS NAME... -- COMMAND...: a stage for each name, which replaces
# NAME in the command; as many at once as there are cores.
side_by_side() {
  local prefix="$1" limit="$2" names=() name process
  shift 2
  while [ "$1" != -- ]; do names+=("$1"); shift; done
  shift
  for name in "${names[@]}"; do
    if [ ${#running[@]} -ge "$cores" ]; then
      wait "${running[0]}" || failed=1
      running=("${running[@]:1}")
    fi
    {
      trap 'stop 143' TERM # the shell that begins it has another one
      running=()
      stage "${prefix}_$name" "$limit" "${@//NAME/$name}"
    } &
    running+=($!)
  done
  for process in "${running[@]}"; do
    wait "$process" || failed=1
  done
  running=()
}

need_gpu() {
  [ -n "$simulated" ] || timeout -k 5 60 "$python" bench/gpu/has_gpu.py || exit $?
}

# Begin a new summary, and write what machine this is.
begin() {
  : > "$out/summary.txt"
  { timeout -k 5 20 nvidia-smi; timeout -k 5 60 "$python" -m pip list; } \
    > "$out/machine.txt" 2>&1
}

finish() {
  echo "== all ($SECONDS s)"
  cat "$out/summary.txt"
  exit "$failed"
}
