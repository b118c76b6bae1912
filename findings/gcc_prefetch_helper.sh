#!/usr/bin/env bash
# GCC 12.2.0: a prefetch in a function of its own is left out, without a word
#
# Code that gathers rows from memory asks for the next ones ahead, by a helper of one line
# around `__builtin_prefetch`. GCC finds that the helper returns nothing and writes nothing, so
# that a call of it is dead, and removes it; the prefetch is left only where the helper was
# inlined before that, which depends on the level, on the size of the caller and on its other
# attributes. Nothing is warned of, and results are the same: the loop is only slower (12 KB
# rows in random order by a fifth, in echobuf's draws). Clang 14 keeps it at each level. An
# empty `asm volatile("")` beside the prefetch keeps it in GCC, too.
#
# Seen (prefetches in the code):
# helper, inlined by chance: -O1 0, -O2 4, -O3 4, -Os 0
# helper that is not inlined: -O1 0, -O2 0, -O3 0, -Os 0
# the same with an empty asm: -O1 1, -O2 1, -O3 1, -Os 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# The compiler of Debian 12, unpacked and not installed.
apt-get download -q cpp-12=12.2.0-14+deb12u1 libisl23=0.25-1.1 libmpc3=1.3.1-1 \
  libmpfr6=4.2.0-1 libgmp10=2:6.2.1+dfsg1-1.1 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
compiled() { # level, program
  LD_LIBRARY_PATH=$folder/root/usr/lib/x86_64-linux-gnu \
    root/usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet "$1" -o "$2-$1.s" "$2.c"
  grep -c prefetch "$2-$1.s" || true
}
counts() { # title, program
  local level found=""
  for level in -O1 -O2 -O3 -Os; do found+=", $level $(compiled "$level" "$2")"; done
  echo "$1: ${found#, }"
}
sum='long sum(const long *const *rows, long n) {
  long s = 0;
  for (long i = 0; i < n; ++i) ask((const char *)rows[i + 8]), s += *rows[i];
  return s;
}'
cat >loop.c <<C
static void ask(const char *p) { for (int i = 0; i < 256; i += 64) __builtin_prefetch(p + i); }
$sum
C
cat >call.c <<C
__attribute__((noinline)) static void ask(const char *p) { __builtin_prefetch(p); }
$sum
C
cat >kept.c <<C
__attribute__((noinline)) static void ask(const char *p) { __builtin_prefetch(p); asm volatile(""); }
$sum
C
{
  counts "helper, inlined by chance" loop
  counts "helper that is not inlined" call
  counts "the same with an empty asm" kept
} | tee seen
diff seen - <<'SEEN'
helper, inlined by chance: -O1 0, -O2 4, -O3 4, -Os 0
helper that is not inlined: -O1 0, -O2 0, -O3 0, -Os 0
the same with an empty asm: -O1 1, -O2 1, -O3 1, -Os 1
SEEN
