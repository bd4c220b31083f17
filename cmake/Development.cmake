# Flags for what this project builds itself; a user of the library never sees them.
add_library(partita_development INTERFACE)
target_compile_options(partita_development INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall$<SEMICOLON>-Wextra$<SEMICOLON>-Wpedantic$<SEMICOLON>-Wshadow$<SEMICOLON>-Wextra-semi>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor$<SEMICOLON>-Woverloaded-virtual>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PARTITA_WERROR}>>:-Werror>
  # g++ 12 sees overlapping copies, and copies of nearly all memory, inside std::string's operator+ where there are none
  # (GCC bug 105651), under one of three names; whether it does depends on what it has inlined before.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-stringop-overflow$<SEMICOLON>-Wno-array-bounds>
  # -Wpedantic rejects the line markers that nvcc writes.
  "$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:SHELL:-Xcompiler -Wall,-Wextra>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>,$<BOOL:${PARTITA_WERROR}>>:SHELL:-Werror all-warnings>")
if(PARTITA_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native PARTITA_HAS_MARCH_NATIVE)
  if(PARTITA_HAS_MARCH_NATIVE)
    target_compile_options(partita_development INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
  endif()
endif()

# PARTITA_SANITIZE=address,undefined or thread: whole program, so on every target of this project.
set(PARTITA_SANITIZE "" CACHE STRING "Sanitizers for tests, benchmarks and examples, as -fsanitize= takes them")
if(PARTITA_SANITIZE)
  target_compile_options(partita_development INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${PARTITA_SANITIZE}$<SEMICOLON>-fno-omit-frame-pointer>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
    # With these checks g++ takes the address of a variable for one that may be null, also in constant expressions
    # (GCC bug 71962); a null pointer that is followed ends the program without them.
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute>"
    # Of clang++ not either what is checked at each access to a member: with alignment (tests/CMakeLists.txt) a sixth of the time to
    # compile and to run search/exact.
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=null,object-size,vptr>
    # Instrumented code confuses g++'s flow analysis into reporting variables that are set.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(partita_development INTERFACE -fsanitize=${PARTITA_SANITIZE})
  # For tests that weigh the process or time it: shadow memory and checks are not what they mean to measure.
  target_compile_definitions(partita_development INTERFACE PARTITA_SANITIZED)
endif()
