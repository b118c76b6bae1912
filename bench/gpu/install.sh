# shellcheck shell=bash
# Installation without a network; sourced after steps.sh.

# A wheel that does not fit this Python does not stop the others.
install_wheels='
  mapfile -t wheels < <("$0" bench/gpu/wheels.py others)
  [ ${#wheels[@]} -gt 0 ] || { echo "nothing to install from wheels/"; exit; }
  "$0" -m pip install --no-index --no-deps -q "${wheels[@]}" && exit
  failed=0
  for wheel in "${wheels[@]}"; do
    "$0" -m pip install --no-index --no-deps -q "$wheel" || failed=1
  done
  exit $failed'

# The wheel that was built beforehand; the checkout, where there is none that fits.
install_package='
  mapfile -t wheels < <("$0" bench/gpu/wheels.py own)
  for wheel in "${wheels[@]}"; do
    "$0" -m pip install --no-index --no-deps --force-reinstall "$wheel" && exit
  done
  echo "no wheel of this checkout in wheels/ that fits: building it"
  "$0" -m pip install --no-index --no-build-isolation --no-deps --force-reinstall .'

install() {
  stage wheels 60 bash -c "$install_wheels" "$python"
  export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$cores}"
  stage install 150 bash -c "$install_package" "$python"
}
