# A user's own launcher wins. The sloppiness is what ccache asks for before it caches files that use a precompiled
# header; the tests' holds no clock macros.
find_program(PARTITA_CCACHE ccache)
mark_as_advanced(PARTITA_CCACHE)
if(PARTITA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${PARTITA_CCACHE}")
endif()
