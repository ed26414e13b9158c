# Toolchain file: cross compilation to ARM64 with Debian's compiler; programs run under qemu-user.
# scripts/install_dependencies.sh --arm64 installs both and makes the folder of libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

if(DEFINED ENV{PERGOLA_HOME})
  set(pergola_sysroot "$ENV{PERGOLA_HOME}/arm64")
else()
  set(pergola_sysroot "$ENV{HOME}/.cache/pergola/arm64")
endif()
# The baseline: what every ARM64 processor has. Kernel tables add their own.
set(flags "-march=armv8-a -isystem ${pergola_sysroot}/usr/include/aarch64-linux-gnu")
set(CMAKE_C_FLAGS_INIT "${flags}")
set(CMAKE_CXX_FLAGS_INIT "${flags}")

# The folder is searched for headers and libraries, the machine itself for programs.
set(CMAKE_FIND_ROOT_PATH "${pergola_sysroot}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# All instructions that the emulator knows, among them the dot products.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max,pauth-impdef=on,sve=off;-L;/usr/aarch64-linux-gnu)
