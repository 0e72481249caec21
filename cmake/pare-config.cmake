# pare-config.cmake - package for find_package(pare): defines pare::shared, and pare::static if the
# libraries for a static link are installed.
include(${CMAKE_CURRENT_LIST_DIR}/pare-shared.cmake)

find_package(PkgConfig QUIET)
find_package(OpenMP QUIET COMPONENTS C)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PROTOBUFC QUIET IMPORTED_TARGET libprotobuf-c)
  pkg_check_modules(JANSSON QUIET IMPORTED_TARGET jansson)
  pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
  pkg_check_modules(PNG QUIET IMPORTED_TARGET libpng)
  pkg_check_modules(JPEG QUIET IMPORTED_TARGET libjpeg)
endif()
# Set if the library was built with oneDNN, with MPI.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/pare-static.cmake PARE_WITH_DNNL REGEX "[:;>]dnnl[;>\"]")
if(PARE_WITH_DNNL)
  find_library(PARE_DNNL dnnl)
endif()
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/pare-static.cmake PARE_WITH_MPI REGEX "MPI::MPI_C")
if(PARE_WITH_MPI)
  find_package(MPI QUIET COMPONENTS C)
endif()
if((NOT PARE_WITH_MPI OR MPI_C_FOUND) AND OpenMP_C_FOUND AND Threads_FOUND AND
   (NOT PARE_WITH_DNNL OR PARE_DNNL) AND PROTOBUFC_FOUND AND JANSSON_FOUND AND
   ZLIB_FOUND AND PNG_FOUND AND JPEG_FOUND)
  include(${CMAKE_CURRENT_LIST_DIR}/pare-static.cmake)
endif()
