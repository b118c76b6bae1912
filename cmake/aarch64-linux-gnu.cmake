# Cross-compiles for aarch64 with Debian's g++-aarch64-linux-gnu. What the tests link lies
# in a root of that architecture, and they run in an emulator:
#   -DCMAKE_FIND_ROOT_PATH=ROOT -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;ROOT"
# `.ci/aarch64` makes the root, and does all of it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
