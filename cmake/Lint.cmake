# cmake -DROOT=<tree> -DBUILD=<build> -DMODE=check-format|format|check-tidy -P cmake/Lint.cmake
# Formatting differs between clang-format releases; 14 (Debian 12) is the one that counts.
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE files RELATIVE ${ROOT}
     ${ROOT}/common/*.hpp ${ROOT}/common/*.cpp ${ROOT}/common/*.cu
     ${ROOT}/[01][0-9]_*/*.hpp ${ROOT}/[01][0-9]_*/*.cpp ${ROOT}/[01][0-9]_*/*.cu
     ${ROOT}/cli/*.hpp ${ROOT}/cli/*.cpp ${ROOT}/tests/*.hpp ${ROOT}/tests/*.cpp ${ROOT}/tests/*.cu
     ${ROOT}/exercises/*/example*.cu)
list(FILTER files EXCLUDE REGEX "^tests/layering/")
list(LENGTH files count)

if(MODE MATCHES "format$")
  find_program(CLANG_FORMAT NAMES clang-format-14 clang-format REQUIRED)
  if(MODE STREQUAL "format")
    execute_process(COMMAND ${CLANG_FORMAT} -i ${files} WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE result)
  else()
    execute_process(COMMAND ${CLANG_FORMAT} --dry-run -Werror ${files} WORKING_DIRECTORY ${ROOT}
                    RESULT_VARIABLE result ERROR_VARIABLE output)
    # One line a place is enough: which file, where.
    string(REGEX MATCHALL "[^\n]*: error: [^\n]*" places "${output}")
    # Comments are not reflowed (they hold tables), so their length is looked at here.
    execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 grep -n -o -E "^.{101}" ${files}
                    WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE none OUTPUT_VARIABLE long)
    if(none EQUAL 0)
      string(REGEX REPLACE "([^:\n]+:[0-9]+):[^\n]*" "\\1: longer than 100 columns" long "${long}")
      list(APPEND places "${long}")
      set(result 1)
    endif()
    list(JOIN places "\n" places)
    if(places)
      message("${places}")
    endif()
  endif()
elseif(MODE STREQUAL "check-tidy")
  find_program(CLANG_TIDY NAMES clang-tidy-14 clang-tidy REQUIRED)
  # Not what this back end does not compile, nor tests: clang cannot read g++'s precompiled header.
  list(FILTER files INCLUDE REGEX "\\.cpp$")
  list(FILTER files EXCLUDE REGEX "(^|/)tests/|/src/cuda/|cublas")
  list(LENGTH files count)
  cmake_host_system_information(RESULT jobs QUERY NUMBER_OF_LOGICAL_CORES)
  list(JOIN files "\n" names)
  file(WRITE ${BUILD}/tidy-files.txt "${names}\n")
  execute_process(COMMAND xargs -a ${BUILD}/tidy-files.txt -P ${jobs} -n 1
                          ${CLANG_TIDY} --quiet -p ${BUILD}
                  WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE result ERROR_VARIABLE errors)
  # Said of every file, and of system headers only; what else it says is an error.
  string(REGEX REPLACE "[0-9]+ warnings?( and [0-9]+ errors?)? generated\\.\n" "" errors "${errors}")
  if(NOT errors STREQUAL "")
    message("${errors}")
  endif()
else()
  message(FATAL_ERROR "Lint.cmake: MODE is '${MODE}'; choose check-format, format or check-tidy")
endif()
if(result)
  message(FATAL_ERROR "${MODE}: not clean (${count} files looked at); `cmake --build <build> --target format` formats")
endif()
message(STATUS "${MODE}: ${count} files")
