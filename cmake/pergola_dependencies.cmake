# Third-party libraries, each behind one interface target pergola_external_<NEED>. Names are Debian 12's
# packages; Ubuntu 24.04's work too. scripts/install_dependencies.sh installs them.

function(pergola_external need)
  add_library(pergola_external_${need} INTERFACE)
  target_link_libraries(pergola_external_${need} INTERFACE ${ARGN})
endfunction()

find_package(simdjson REQUIRED)
pergola_external(JSON simdjson::simdjson)

find_package(OpenSSL REQUIRED)
pergola_external(CRYPTO OpenSSL::Crypto)
pergola_external(TLS OpenSSL::SSL OpenSSL::Crypto)

if(PERGOLA_TESTS AND CMAKE_CROSSCOMPILING)
  # Debian has GoogleTest's source for this. Not the project's code: no warnings of ours.
  find_path(PERGOLA_GTEST_SOURCE CMakeLists.txt PATHS /usr/src/googletest REQUIRED NO_DEFAULT_PATH
            NO_CMAKE_FIND_ROOT_PATH)
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK OFF)
  add_subdirectory("${PERGOLA_GTEST_SOURCE}" "${CMAKE_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
  include(GoogleTest)
elseif(PERGOLA_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  include(GoogleTest)
endif()

if(PERGOLA_ENGINE_ONLY)
  return()
endif()

find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(ZLIB REQUIRED)
pergola_external(HTTP Boost::boost OpenSSL::SSL OpenSSL::Crypto ZLIB::ZLIB)

find_package(prometheus-cpp REQUIRED COMPONENTS core)
pergola_external(METRICS prometheus-cpp::core)

pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pergola_external(HASH PkgConfig::XXHASH)

find_package(CURL REQUIRED)
pergola_external(DOWNLOADS CURL::libcurl OpenSSL::Crypto ZLIB::ZLIB)

find_package(CLI11 REQUIRED)
pergola_external(FLAGS CLI11::CLI11)

# gRPC and Protobuf are linked statically: the program starts in 2 ms instead of 14 and needs none of
# their 57 shared libraries. Debian's CMake package knows only the shared ones and Protobuf has none, so
# pkg-config names the archives; what the system has everywhere stays shared.
pkg_check_modules(GRPC REQUIRED grpc++ protobuf)
set(grpc_archives)
foreach(name IN ITEMS grpc++_reflection LISTS GRPC_STATIC_LIBRARIES)
  if(name MATCHES "^(ssl|crypto|z|dl|rt|m|atomic|pthread)$")
    continue()
  endif()
  find_library(PERGOLA_ARCHIVE_${name} "lib${name}.a" REQUIRED)
  list(APPEND grpc_archives "${PERGOLA_ARCHIVE_${name}}")
endforeach()
list(REMOVE_DUPLICATES grpc_archives)
find_program(PERGOLA_PROTOC protoc REQUIRED)
find_program(PERGOLA_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
include(pergola_protos)
pergola_protos(pergola/v1/embedding pergola/v1/grid tei/v1/tei)
pergola_external(GRPC pergola_protos -Wl,--start-group ${grpc_archives} -Wl,--end-group OpenSSL::SSL
                 OpenSSL::Crypto ZLIB::ZLIB atomic ${CMAKE_DL_LIBS} rt)
