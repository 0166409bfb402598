# rungs_add_component() and rungs_add_stage(): the only way code enters the build. They are told what a
# folder holds, never how it is built.
#
#   rungs_add_component(            a part of common/
#     NAME <id>                     target rungs_<id>, alias rungs::<id>
#     [HEADERS <h>...]              public headers, relative to include/rungs/<id>/
#     [SOURCES <s>...]              .cpp, and .cu kernels, for both back ends
#     [KERNELS <k>...]              .cu, the same as in SOURCES
#     [CUDA_SOURCES <s>...]         only in CUDA builds
#     [EMULATED_SOURCES <s>...]     only in emulated builds
#     [DEPENDS <target>...]         what its public headers need
#     [PRIVATE_DEPENDS <target>...] what only its sources need
#     [TESTS <s>...]                rungs_<id>_test: GoogleTest with its main, rungs::testing, the catalog
#     [TEST_KERNELS <k>...]         .cu for that test
#     [TEST_DEPENDS <target>...]
#     [SLOW_TESTS <s>...]           rungs_<id>_slow_test: the same, not run under sanitizers
#     [TSAN_TESTS <s>...]           rungs_<id>_tsan_test: the same, run under ThreadSanitizer, too
#     [TEST_LABELS <label>...]      more labels; `tsan` runs all of TESTS under ThreadSanitizer
#     [TEST_TIMEOUT <seconds>]      a test case, default 120
#     [HEADERS_OF <id>...]          components above whose plain types it uses, without linking them
#     [NO_SANITIZE]                 the library is never instrumented (the emulator's runtime)
#     [INTERNAL])                   not installed (testing, bench)
#
#   rungs_add_stage(                a stage: all of the above except SOURCES for kernels, and
#     [NAIVE <s>...]                the readable rung
#     [OPTIMIZED <s>...]            the rungs above it
#     [CATALOG <s>...]              rungs_<id>_catalog: operations(), oracle, cases; not installed;
#                                   <rungs/<id>/catalog.hpp> is generated and declares operations()
#     [CATALOG_DEPENDS <target>...]
#     [EXERCISE <s>])               part of the catalog until a reader makes exercises/NN/mine.cu (or
#                                   mine_sm90.cu), which is then compiled in its place
#
# Kernel files (.cu) fall into architecture classes by name: `x_sm90.cu` is compiled for sm_90a only,
# `x_sm100.cu` for sm_100a only, every other file for sm_90a with compute_80 PTX beside it. In emulated
# builds all of them are C++. A dependency on CUDA::* is dropped in emulated builds, rungs::emulator in
# CUDA builds.
include_guard(GLOBAL)

set(RUNGS_ARCHITECTURES_portable 90a-real 80-virtual)
set(RUNGS_ARCHITECTURES_sm90 90a-real)
set(RUNGS_ARCHITECTURES_sm100 100a-real)

set(_rungs_flags NO_SANITIZE INTERNAL)
set(_rungs_values NAME TEST_TIMEOUT EXERCISE)
set(_rungs_lists HEADERS SOURCES KERNELS CUDA_SOURCES EMULATED_SOURCES DEPENDS PRIVATE_DEPENDS TESTS
    TEST_KERNELS TEST_DEPENDS SLOW_TESTS TSAN_TESTS TEST_LABELS NAIVE OPTIMIZED CATALOG CATALOG_DEPENDS HEADERS_OF)

function(rungs_add_component)
  cmake_parse_arguments(PARSE_ARGV 0 arg "${_rungs_flags}" "${_rungs_values}" "${_rungs_lists}")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES OR NOT arg_NAME)
    message(FATAL_ERROR "rungs_add_component(NAME '${arg_NAME}'): unknown or empty arguments: "
                        "${arg_UNPARSED_ARGUMENTS} ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  _rungs_filter_dependencies(arg_DEPENDS arg_PRIVATE_DEPENDS arg_TEST_DEPENDS arg_CATALOG_DEPENDS)
  if(RUNGS_GPU_CUDA)
    set(backend_sources ${arg_CUDA_SOURCES})
  else()
    set(backend_sources ${arg_EMULATED_SOURCES})
  endif()
  if(NOT arg_TEST_TIMEOUT)
    set(arg_TEST_TIMEOUT 120)
  endif()
  set(sources ${arg_SOURCES} ${backend_sources} ${arg_KERNELS} ${arg_NAIVE} ${arg_OPTIMIZED})

  set(library rungs_${arg_NAME})
  if(sources)
    add_library(${library} STATIC)
    set(scope PUBLIC)
    _rungs_add_sources(${library} SOURCES ${sources} DEPENDS ${arg_DEPENDS} ${arg_PRIVATE_DEPENDS})
    rungs_target_defaults(${library})
    target_include_directories(${library} PRIVATE src)
    if(arg_PRIVATE_DEPENDS)
      target_link_libraries(${library} PRIVATE ${arg_PRIVATE_DEPENDS})
    endif()
    set_property(GLOBAL APPEND PROPERTY RUNGS_OBJECTS ${library})
    if(arg_NO_SANITIZE AND RUNGS_SANITIZE)
      target_compile_options(${library} PRIVATE -fno-sanitize=all -O2)
    else()
      _rungs_use_library_pch(${library})
    endif()
  else()
    add_library(${library} INTERFACE)
    set(scope INTERFACE)
    target_compile_features(${library} INTERFACE cxx_std_20)
  endif()
  add_library(rungs::${arg_NAME} ALIAS ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${arg_NAME})
  target_link_libraries(${library} ${scope} ${arg_DEPENDS})
  rungs_require(${arg_DEPENDS} ${arg_PRIVATE_DEPENDS} FOUND_AS packages)
  foreach(other IN LISTS arg_HEADERS_OF)
    target_include_directories(${library} ${scope}
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/common/${other}/include>)
  endforeach()

  list(TRANSFORM arg_HEADERS PREPEND include/rungs/${arg_NAME}/)
  _rungs_check_listed_headers(${arg_NAME} ${arg_HEADERS})
  set(base_directories include)
  if(arg_NAME STREQUAL "core")
    list(APPEND base_directories ${PROJECT_BINARY_DIR}/generated)
    list(APPEND arg_HEADERS ${PROJECT_BINARY_DIR}/generated/rungs/config.hpp)
  endif()
  target_sources(${library} ${scope} FILE_SET HEADERS BASE_DIRS ${base_directories}
                                     FILES ${arg_HEADERS})
  rungs_check_headers(${arg_NAME} ${arg_HEADERS})

  if(arg_INTERNAL AND NOT RUNGS_BUILD_TESTS AND NOT RUNGS_BUILD_CLI)
    set_target_properties(${library} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(NOT arg_INTERNAL)
    install(TARGETS ${library} EXPORT rungs-${arg_NAME}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${arg_NAME}
            FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT ${arg_NAME})
    set(needs ${arg_DEPENDS} ${arg_PRIVATE_DEPENDS})
    list(FILTER needs INCLUDE REGEX "^rungs::")
    list(TRANSFORM needs REPLACE "^rungs::" "")
    set_property(GLOBAL APPEND PROPERTY RUNGS_COMPONENTS ${arg_NAME})
    set_property(GLOBAL PROPERTY RUNGS_NEEDS_${arg_NAME} "${needs}")
    set_property(GLOBAL PROPERTY RUNGS_PACKAGES_${arg_NAME} "${packages}")
  endif()

  if(arg_EXERCISE)
    _rungs_find_exercise(${arg_EXERCISE} exercise)
    list(APPEND arg_CATALOG ${exercise})
    list(APPEND arg_CATALOG_DEPENDS rungs::ptx)
  endif()
  if(arg_CATALOG)
    _rungs_add_catalog(${arg_NAME} SOURCES ${arg_CATALOG} DEPENDS ${arg_CATALOG_DEPENDS})
  endif()
  foreach(kind IN ITEMS "" SLOW_ TSAN_)
    if(RUNGS_BUILD_TESTS AND arg_${kind}TESTS)
      string(TOLOWER "${kind}" suffix)
      _rungs_add_test(${arg_NAME} ${library}_${suffix}test
        SOURCES ${arg_${kind}TESTS} KERNELS ${arg_TEST_KERNELS} DEPENDS ${arg_TEST_DEPENDS}
        LABELS ${arg_TEST_LABELS} TIMEOUT ${arg_TEST_TIMEOUT})
    endif()
  endforeach()
  if(TARGET ${library}_test AND TARGET ${library}_tsan_test)
    add_dependencies(${library}_test ${library}_tsan_test)  # one target for all that a chapter tells to run
  endif()
endfunction()

function(rungs_add_stage)
  rungs_add_component(${ARGV})
endfunction()

# Drops what this build does not have from each list named, and stops at a component that is not below.
function(_rungs_filter_dependencies)
  if(RUNGS_GPU_CUDA)
    set(other "^rungs::emulator$")
  else()
    set(other "^CUDA::")
  endif()
  if(NOT RUNGS_BUILD_TESTS)
    # rungs::testing has oracles for catalogs beside its headers for tests.
    string(APPEND other "|^GTest::")
  endif()
  foreach(variable IN LISTS ARGN)
    list(FILTER ${variable} EXCLUDE REGEX "${other}")
    foreach(target IN LISTS ${variable})
      if(target MATCHES "^rungs::" AND NOT TARGET ${target} AND variable MATCHES "^arg_(PRIVATE_)?DEPENDS$")
        message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR} depends on ${target}, which is not added before "
                            "it: only what lies below may be used (order: CMakeLists.txt at the root).")
      endif()
    endforeach()
    set(${variable} "${${variable}}" PARENT_SCOPE)
  endforeach()
endfunction()

# Adds SOURCES to a target. In CUDA builds the kernels of each architecture class become an object library
# whose objects are folded into the target, so that none of it shows in the export.
function(_rungs_add_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  set(classes portable sm90 sm100)
  foreach(source IN LISTS arg_SOURCES)
    if(NOT source MATCHES "\\.cu$")
      target_sources(${target} PRIVATE ${source})
    elseif(NOT RUNGS_GPU_CUDA)
      # `#pragma unroll` speaks to nvcc. Sanitized kernels are where the tests' time goes.
      set_source_files_properties(${source} PROPERTIES
        LANGUAGE CXX COMPILE_OPTIONS "-Wno-unknown-pragmas;$<$<BOOL:${RUNGS_SANITIZE}>:-O1>")
      target_sources(${target} PRIVATE ${source})
    elseif(source MATCHES "_sm(90|100)\\.cu$")
      list(APPEND sm${CMAKE_MATCH_1} ${source})
    else()
      list(APPEND portable ${source})
    endif()
  endforeach()
  foreach(class IN LISTS classes)
    if(${class})
      set(objects ${target}_kernels_${class})
      add_library(${objects} OBJECT ${${class}})
      rungs_target_defaults(${objects})
      set_target_properties(${objects} PROPERTIES
        CUDA_ARCHITECTURES "${RUNGS_ARCHITECTURES_${class}}")
      target_include_directories(${objects} PRIVATE
        src $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
      target_link_libraries(${objects} PRIVATE ${arg_DEPENDS})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
      set_property(GLOBAL APPEND PROPERTY RUNGS_OBJECTS ${objects})
    endif()
  endforeach()
endfunction()

# Sets <out> to the reader's own file for this stage, or to the one that stands in for it. A file that
# comes or goes is seen by the next build.
function(_rungs_find_exercise stand_in out)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(SUBSTRING ${folder} 0 2 number)
  file(GLOB mine CONFIGURE_DEPENDS ${RUNGS_EXERCISES}/${number}/mine.cu ${RUNGS_EXERCISES}/${number}/mine_sm*.cu)
  if(mine)
    message(STATUS "${folder}: with the rungs of ${mine}")
  else()
    set(mine ${stand_in})
  endif()
  set(${out} ${mine} PARENT_SCOPE)
endfunction()

function(_rungs_add_catalog name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  set(catalog rungs_${name}_catalog)
  set(depends rungs::${name} rungs::ladder rungs::testing ${arg_DEPENDS})
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/catalog)
  set(NAME ${name})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/catalog.hpp.in ${generated}/rungs/${name}/catalog.hpp @ONLY)
  add_library(${catalog} STATIC)
  if(NOT RUNGS_BUILD_TESTS AND NOT RUNGS_BUILD_CLI)
    set_target_properties(${catalog} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  add_library(rungs::${name}_catalog ALIAS ${catalog})
  _rungs_add_sources(${catalog} SOURCES ${arg_SOURCES} DEPENDS ${depends})
  rungs_target_defaults(${catalog})
  target_include_directories(${catalog} PUBLIC ${generated} PRIVATE src)
  target_link_libraries(${catalog} PUBLIC ${depends})
  _rungs_use_library_pch(${catalog})
  rungs_require(${arg_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY RUNGS_OBJECTS ${catalog})
endfunction()

function(_rungs_add_test name target)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TIMEOUT" "SOURCES;KERNELS;DEPENDS;LABELS")
  set(depends rungs::${name} $<TARGET_NAME_IF_EXISTS:rungs::${name}_catalog>
              rungs::testing GTest::gtest_main ${arg_DEPENDS})
  rungs_require(GTest::gtest_main ${arg_DEPENDS})
  add_executable(${target})
  _rungs_add_sources(${target} SOURCES ${arg_SOURCES} ${arg_KERNELS} DEPENDS ${depends})
  rungs_target_defaults(${target})
  target_include_directories(${target} PRIVATE src tests)
  target_link_libraries(${target} PRIVATE ${depends})
  _rungs_use_test_pch(${target})

  set(labels ${name} ${arg_LABELS})
  if(target MATCHES "_slow_test$")
    list(APPEND labels slow)
  else()
    list(APPEND labels unit asan)
    if(target MATCHES "_tsan_test$")
      list(APPEND labels tsan)
    endif()
    if(arg_KERNELS OR arg_SOURCES MATCHES "\\.cu")
      list(APPEND labels kernel)
    endif()
  endif()
  foreach(sanitizer IN ITEMS asan tsan)
    if(sanitizer IN_LIST labels)
      set_property(GLOBAL APPEND PROPERTY RUNGS_${sanitizer}_TESTS ${target})
    endif()
  endforeach()
  if(RUNGS_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  include(GoogleTest)
  gtest_discover_tests(${target} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       NO_PRETTY_VALUES PROPERTIES TIMEOUT ${arg_TIMEOUT})
  # gtest_discover_tests would keep only the first of several labels.
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT
       "if(@target@_TESTS)\n  set_tests_properties(\${@target@_TESTS} PROPERTIES LABELS \"@labels@\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

# One precompiled header for all libraries: most of a source's compile time goes to the standard library.
# Not in CUDA builds, which thereby check that every source includes what it uses.
function(_rungs_use_library_pch target)
  if(RUNGS_GPU_CUDA)
    return()
  endif()
  if(NOT TARGET rungs_library_pch)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/library_pch.cpp CONTENT "")
    add_library(rungs_library_pch OBJECT ${PROJECT_BINARY_DIR}/generated/library_pch.cpp)
    rungs_target_defaults(rungs_library_pch)
    target_precompile_headers(rungs_library_pch PRIVATE
      <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstddef> <cstdint> <cstring>
      <deque> <functional> <map> <memory> <mutex> <numeric> <optional> <random> <span> <sstream> <string>
      <string_view> <thread> <utility> <vector>)
  endif()
  target_precompile_headers(${target} REUSE_FROM rungs_library_pch)
endfunction()

# Tests run once for each time they are compiled; oracles and what is tested keep their optimisation.
set(RUNGS_TEST_OPTIONS $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)

# One precompiled header for all tests: GoogleTest takes longer to parse than most tests to compile.
function(_rungs_use_test_pch target)
  if(NOT TARGET rungs_test_pch)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_pch.cpp CONTENT "int main() {}\n")
    # An executable like the tests: code compiled as -fPIC cannot share its header with -fPIE.
    add_executable(rungs_test_pch ${PROJECT_BINARY_DIR}/generated/test_pch.cpp)
    rungs_target_defaults(rungs_test_pch)
    target_compile_options(rungs_test_pch PRIVATE ${RUNGS_TEST_OPTIONS})
    target_link_libraries(rungs_test_pch PRIVATE GTest::gtest)
    target_precompile_headers(rungs_test_pch PRIVATE
      <gtest/gtest.h> <algorithm> <array> <cmath> <cstdint> <functional> <limits> <memory> <random>
      <span> <string> <string_view> <vector>)
  endif()
  target_compile_options(${target} PRIVATE ${RUNGS_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM rungs_test_pch)
endfunction()

# rungs_install_package(): rungsConfig.cmake with one targets file a component. Call it last.
function(rungs_install_package)
  include(CMakePackageConfigHelpers)
  set(directory ${CMAKE_INSTALL_LIBDIR}/cmake/rungs)
  get_property(RUNGS_COMPONENTS GLOBAL PROPERTY RUNGS_COMPONENTS)
  set(RUNGS_COMPONENT_TABLE)
  foreach(name IN LISTS RUNGS_COMPONENTS)
    get_property(needs GLOBAL PROPERTY RUNGS_NEEDS_${name})
    get_property(packages GLOBAL PROPERTY RUNGS_PACKAGES_${name})
    string(APPEND RUNGS_COMPONENT_TABLE "set(_rungs_needs_${name} \"${needs}\")\n"
                                        "set(_rungs_packages_${name} \"${packages}\")\n")
    install(EXPORT rungs-${name} NAMESPACE rungs:: DESTINATION ${directory}
            FILE rungs-${name}-targets.cmake COMPONENT ${name})
  endforeach()
  configure_package_config_file(cmake/rungsConfig.cmake.in ${PROJECT_BINARY_DIR}/rungsConfig.cmake
                                INSTALL_DESTINATION ${directory})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/rungsConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  file(GLOB find_modules CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/Find*.cmake)
  install(FILES ${PROJECT_BINARY_DIR}/rungsConfig.cmake ${PROJECT_BINARY_DIR}/rungsConfigVersion.cmake
                ${find_modules}
          DESTINATION ${directory} COMPONENT core)
endfunction()
