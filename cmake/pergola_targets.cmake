# How targets are made. A module is a folder src/<name>; its sources, tests (*_test.cc), benchmarks
# (*_benchmark.cc) and fuzz targets (*_fuzz.cc) are found by glob, so none can be forgotten.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

# Line numbers and function names are enough for backtraces; full debug information doubles build times.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
if(PERGOLA_SANITIZER AND NOT PERGOLA_FUZZ)
  # A third less to compile than with -O2.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
endif()

find_program(PERGOLA_CCACHE ccache)
if(PERGOLA_CCACHE)
  # Relative to the source folder, so that a second clone finds what the first compiled.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
               CCACHE_SLOPPINESS=pch_defines,time_macros,locale "${PERGOLA_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()

add_library(pergola_flags INTERFACE)
target_include_directories(pergola_flags INTERFACE "${CMAKE_SOURCE_DIR}/src"
                                                   "${CMAKE_SOURCE_DIR}/include")
target_compile_definitions(pergola_flags INTERFACE PERGOLA_VERSION="${PROJECT_VERSION}")
# -ffp-contract=off: a compiler that fuses on its own makes bits depend on inlining (docs/numerics.md).
target_compile_options(pergola_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror
                                               -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps and overruns in inlined std::string concatenation that are not there
  # (GCC bugs 105329, 105651).
  target_compile_options(pergola_flags INTERFACE -Wno-restrict -Wno-array-bounds
                                                 -Wno-stringop-overflow)
endif()
if(PERGOLA_ASSERTIONS)
  # RelWithDebInfo and Release define NDEBUG; assertions are wanted all the same.
  target_compile_options(pergola_flags INTERFACE -UNDEBUG)
endif()
if(PERGOLA_SIMDE)
  target_compile_definitions(pergola_flags INTERFACE PERGOLA_SIMDE)
endif()
if(PERGOLA_SANITIZER)
  target_compile_options(pergola_flags INTERFACE -fsanitize=${PERGOLA_SANITIZER}
                                                 -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pergola_flags INTERFACE -fsanitize=${PERGOLA_SANITIZER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers g++ 12 takes std::variant's storage for uninitialised (GCC bug 105562).
    target_compile_options(pergola_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(PERGOLA_SANITIZER MATCHES "thread")
    # Asio's fences are not understood by TSan; -Wtsan warns of them.
    target_compile_definitions(pergola_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
    target_compile_options(pergola_flags INTERFACE -Wno-tsan)
  endif()
endif()
if(PERGOLA_FUZZ)
  # clang 14 cannot assemble coroutines with the check of function types.
  target_compile_options(pergola_flags INTERFACE -fsanitize=fuzzer-no-link -fno-sanitize=function
                                                 -Wno-unknown-warning-option)
endif()
find_package(Threads REQUIRED)
target_link_libraries(pergola_flags INTERFACE Threads::Threads)

# pergola_library(<module> DEPENDS <module or UPPER-CASE external>...)
# Makes library pergola_<module>, its test <module>_test, benchmark <module>_benchmark and fuzz targets.
function(pergola_library module)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(folder "${CMAKE_SOURCE_DIR}/src/${module}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc" "${folder}/*.h")
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS "${folder}/*_test.cc")
  file(GLOB_RECURSE benchmarks CONFIGURE_DEPENDS "${folder}/*_benchmark.cc")
  file(GLOB_RECURSE fuzzers CONFIGURE_DEPENDS "${folder}/*_fuzz.cc")
  list(REMOVE_ITEM sources ${tests} ${benchmarks} ${fuzzers} "${folder}/main.cc")
  list(FILTER sources EXCLUDE REGEX "/testing/[^/]*\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/isa/${PERGOLA_FOREIGN_ISA}")
  file(GLOB testing CONFIGURE_DEPENDS "${folder}/testing/*.cc")
  list(FILTER testing EXCLUDE REGEX "_test\\.cc$")

  set(compiled ${sources})
  list(FILTER compiled INCLUDE REGEX "\\.cc$")
  if(compiled)
    add_library(pergola_${module} STATIC ${sources})
    set(scope PUBLIC)
    set(edge PRIVATE)
  else()  # headers only
    add_library(pergola_${module} INTERFACE)
    set(scope INTERFACE)
    set(edge INTERFACE)
  endif()
  target_link_libraries(pergola_${module} ${scope} pergola_flags)
  foreach(dependency IN LISTS ARG_DEPENDS)
    if(TARGET pergola_${dependency})
      target_link_libraries(pergola_${module} ${scope} pergola_${dependency})
    elseif(TARGET pergola_external_${dependency})
      target_link_libraries(pergola_${module} ${edge} pergola_external_${dependency})
    else()
      message(FATAL_ERROR "${module}: unknown dependency ${dependency}")
    endif()
  endforeach()
  pergola_isa_flags(pergola_${module} ${sources})

  if(PERGOLA_TESTS AND testing)
    add_library(pergola_${module}_testing STATIC ${testing})
    target_link_libraries(pergola_${module}_testing PUBLIC pergola_${module} GTest::gtest)
  endif()
  if(PERGOLA_TESTS AND tests)
    pergola_test(${module}_test SOURCES ${tests} LINK pergola_${module} ${ARG_DEPENDS})
  endif()
  if(PERGOLA_TESTS AND benchmarks AND NOT PERGOLA_SANITIZER AND NOT CMAKE_CROSSCOMPILING)
    pergola_benchmark(${module}_benchmark SOURCES ${benchmarks} LINK pergola_${module} ${ARG_DEPENDS})
  endif()
  if(PERGOLA_FUZZ)
    foreach(fuzzer IN LISTS fuzzers)
      get_filename_component(name "${fuzzer}" NAME_WE)
      add_executable(${name} "${fuzzer}")
      target_link_libraries(${name} PRIVATE pergola_${module})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()

# Instruction sets of the other architecture: their files are left out.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(PERGOLA_FOREIGN_ISA "avx|ssse3")
else()
  set(PERGOLA_FOREIGN_ISA "neon")
endif()

# One translation unit per instruction set under kernels/cpu/isa, with its own flags; everything else is
# built for the baseline.
function(pergola_isa_flags target)
  foreach(source IN LISTS ARGN)
    if(NOT source MATCHES "/isa/([a-z0-9_]+)\\.cc$")
      continue()
    endif()
    set(isa "${CMAKE_MATCH_1}")
    if(isa STREQUAL "ssse3")
      set(flags -mssse3)
    elseif(isa MATCHES "^avx2")  # what else a table takes is written in assembly
      set(flags -mavx2 -mfma -mf16c)
    elseif(isa STREQUAL "avx512")
      set(flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
    elseif(isa STREQUAL "avx512_vnni")
      set(flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
    elseif(isa STREQUAL "avx512_bf16")
      # The last for functions that are called only where it is there (kernel_table.h).
      set(flags -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni
                -mavx512bf16 -mvpclmulqdq)
    elseif(isa STREQUAL "neon_dotprod")
      set(flags -march=armv8.2-a+dotprod)
    elseif(isa STREQUAL "neon_i8mm")
      set(flags -march=armv8.2-a+dotprod+i8mm)
    else()
      set(flags)
    endif()
    if(PERGOLA_SIMDE AND isa MATCHES "^avx512")
      set(flags -mavx2 -mfma -mf16c -Wno-psabi)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Without the first g++ 12 keeps two copies of each accumulator of a tile and spills half of them;
      # the others are for its own avx512fintrin.h.
      list(APPEND flags -fno-tree-ter -Wno-maybe-uninitialized -Wno-uninitialized)
    endif()
    # Instrumented at -O3 one of these compiles for minutes. -fno-math-errno: a square root is an
    # instruction, never a call.
    set(level -O3)
    if(PERGOLA_SANITIZER)
      set(level -O1)
    endif()
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${flags};${level};-fno-math-errno")
  endforeach()
endfunction()

function(pergola_link_names target)
  foreach(name IN LISTS ARGN)
    if(TARGET pergola_external_${name})
      target_link_libraries(${target} PRIVATE pergola_external_${name})
    elseif(TARGET pergola_${name})
      target_link_libraries(${target} PRIVATE pergola_${name})
    else()
      target_link_libraries(${target} PRIVATE ${name})
    endif()
  endforeach()
endfunction()

# pergola_test(<name> SOURCES ... LINK ... [LABELS ...]): a GoogleTest binary, each case known to ctest.
# Cases whose suite name contains "PerIsa" are run once more per forced instruction set by .ci/run.
function(pergola_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> <string> <vector> <memory>)
  pergola_link_names(${name} ${ARG_LINK})
  if(TARGET pergola_core_testing)
    target_link_libraries(${name} PRIVATE pergola_core_testing)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE PERGOLA_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# pergola_benchmark(<name> SOURCES ... LINK ...): run by hand, and one iteration each in CI.
function(pergola_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  pergola_link_names(${name} ${ARG_LINK})
  target_link_libraries(${name} PRIVATE benchmark::benchmark_main)
  target_compile_definitions(${name} PRIVATE PERGOLA_TEST_DATA="${CMAKE_SOURCE_DIR}/tests")
endfunction()
