# Third-party libraries, each behind one interface target pergola_external_<NEED>. Names are Debian 12's
# packages; Ubuntu 24.04's work too. scripts/install_dependencies.sh installs them.

find_package(PkgConfig REQUIRED)

function(pergola_external need)
  add_library(pergola_external_${need} INTERFACE)
  target_link_libraries(pergola_external_${need} INTERFACE ${ARGN})
endfunction()

find_package(simdjson REQUIRED)
pergola_external(JSON simdjson::simdjson)

find_package(Boost 1.81 REQUIRED)
find_package(OpenSSL REQUIRED)
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

if(PERGOLA_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  include(GoogleTest)
endif()
