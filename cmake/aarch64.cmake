# aarch64.cmake - toolchain of `make test-arm64`: Debian's cross compiler, libraries of a Debian root, and
# qemu-user to run what was built.  PARE_ARM64_ROOT is that root (tools/arm64_root.sh).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PARE_ARM64_ROOT)
set(CMAKE_SYSROOT ${PARE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH ${PARE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH) # onnx.proto and the official cases are the host's
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PARE_ARM64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${PARE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PARE_ARM64_ROOT}/usr/share/pkgconfig)
# Tests and scripts start programs by their path, so a linked program is a script that runs NAME.arm64 in the emulator.
get_property(trying GLOBAL PROPERTY IN_TRY_COMPILE)
if(NOT trying)
  set(CMAKE_C_LINK_EXECUTABLE
    "<CMAKE_C_COMPILER> <FLAGS> <CMAKE_C_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET>.arm64 <LINK_LIBRARIES>"
    "${CMAKE_CURRENT_LIST_DIR}/../tools/emulated.sh <TARGET> ${PARE_ARM64_ROOT}")
endif()
