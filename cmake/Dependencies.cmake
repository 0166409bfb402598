# Third-party packages, found when the first target names one of theirs.
include_guard(GLOBAL)

# Their targets are visible in every folder, wherever they were found.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
# Find modules for packages without a CMake configuration; they are installed with ours.
list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/cmake)

# namespace of the targets | arguments of find_package | Debian and Ubuntu package
set(RUNGS_PACKAGES
  "fmt|fmt|libfmt-dev"
  "spdlog|spdlog|libspdlog-dev"
  "nlohmann_json|nlohmann_json|nlohmann-json3-dev"
  "CLI11|CLI11|libcli11-dev"
  "GTest|GTest|libgtest-dev"
  "benchmark|benchmark|libbenchmark-dev"
  "Boost|Boost COMPONENTS context|libboost-context-dev"
  "pugixml|pugixml|libpugixml-dev"
  "hwloc|hwloc|libhwloc-dev"
  "ibverbs|ibverbs|libibverbs-dev"
  "Threads|Threads|libc6-dev"
  "CUDA|CUDAToolkit|the CUDA toolkit, 12.8 or later")

# rungs_require(<target>... [FOUND_AS <variable>]): finds the package of each imported target, or says
# what to install. Sets <variable> to the find_package arguments of all of them.
function(rungs_require)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "FOUND_AS" "")
  set(found_as)
  foreach(target IN LISTS arg_UNPARSED_ARGUMENTS)
    if(target MATCHES "^rungs::" OR NOT target MATCHES "^([A-Za-z0-9_]+)::")
      continue()
    endif()
    set(namespace ${CMAKE_MATCH_1})
    set(entry ${RUNGS_PACKAGES})
    list(FILTER entry INCLUDE REGEX "^${namespace}\\|")
    if(NOT entry)
      message(FATAL_ERROR "${target}: no package is known for it; add it to cmake/Dependencies.cmake.")
    endif()
    string(REPLACE "|" ";" entry "${entry}")
    list(GET entry 1 arguments)
    list(GET entry 2 debian)
    list(APPEND found_as "${arguments}")
    if(NOT TARGET ${target})
      string(REPLACE " " ";" arguments_list "${arguments}")
      find_package(${arguments_list} QUIET)
      if(NOT TARGET ${target})
        message(FATAL_ERROR "${target} was not found. Install ${debian}, or name its prefix in "
                            "CMAKE_PREFIX_PATH or unpack it into ${PROJECT_SOURCE_DIR}/.deps.")
      endif()
    endif()
  endforeach()
  if(arg_FOUND_AS)
    set(${arg_FOUND_AS} ${found_as} PARENT_SCOPE)
  endif()
endfunction()
