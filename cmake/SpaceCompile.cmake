# Compiler settings shared by every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
# One code model for libraries and programs, so that they share the precompiled header; clang links PIE by default.
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
add_compile_options(-fPIE)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "SPACE is built with clang 19: g++ 12 miscompiles coroutines. Use a preset: cmake --preset dev")
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wno-unused-parameter -Werror=unused-result -Werror=return-type
                    -Wno-gnu-statement-expression -Wno-missing-field-initializers -fstack-protector-strong)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(_FORTIFY_SOURCE=2)
endif()
add_link_options(-fuse-ld=lld)

if(SPACE_SANITIZE)
  add_compile_options(-fsanitize=${SPACE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPACE_SANITIZE})
endif()
if(SPACE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_compile_definitions(SPACE_FUZZING)
endif()

# ccache understands precompiled headers only with these sloppiness flags and without PCH time stamps.
find_program(SPACE_CCACHE ccache)
if(SPACE_CCACHE)
  foreach(lang C CXX)
    set(CMAKE_${lang}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${SPACE_CCACHE})
  endforeach()
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang> $<$<COMPILE_LANGUAGE:CXX>:-fno-pch-timestamp>)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
find_package(Boost 1.81 REQUIRED COMPONENTS json url)

# Asio is compiled once (asio_impl.cc) and its headers once per build (the precompiled header).
add_library(space_asio STATIC ${CMAKE_SOURCE_DIR}/cmake/asio_impl.cc)
target_compile_definitions(space_asio PUBLIC BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_VISIBILITY)
target_link_libraries(space_asio PUBLIC Threads::Threads)
target_precompile_headers(space_asio PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)
