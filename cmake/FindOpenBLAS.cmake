# Finds OpenBLAS with its CBLAS interface and gives OpenBLAS::OpenBLAS. A module of our own, because distributions
# ship OpenBLAS with differing CMake configs, or none, and those older than 0.3.22 define no target.
#
# OpenBLAS_INCLUDE_DIR (where cblas.h is) and OpenBLAS_LIBRARY may be set to point to another build of it, or to
# another library that has the CBLAS interface.

find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(PC_OpenBLAS QUIET openblas)
endif()

find_path(OpenBLAS_INCLUDE_DIR cblas.h
  HINTS ${PC_OpenBLAS_INCLUDE_DIRS} ENV OpenBLAS_HOME
  PATH_SUFFIXES include openblas include/openblas openblas-pthread openblas-openmp)
find_library(OpenBLAS_LIBRARY NAMES openblas openblasp
  HINTS ${PC_OpenBLAS_LIBRARY_DIRS} ENV OpenBLAS_HOME
  PATH_SUFFIXES lib openblas-pthread openblas-openmp)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
  VERSION_VAR PC_OpenBLAS_VERSION)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION "${OpenBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}")
endif()
