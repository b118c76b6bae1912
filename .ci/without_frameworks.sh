# Sourced in the repository's root: `without`, options that make pytest leave out the files
# of tests that import PyTorch, JAX, Arrow or PyYAML at their top, where these are not installed.
without=()
absent='torch|jax|equinox|pyarrow|yaml|echobuf\.(torch|jax|ranks|cache\.distributed)'
for file in $(grep -rlE "^(import|from) ($absent)" tests); do
  without+=("--ignore=$PWD/$file")
done
