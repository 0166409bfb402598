# Checks of the source tree that are part of the build.
include_guard(GLOBAL)

# Headers of the second class: for kernel sources only, compiled as CUDA in CUDA builds.
set(RUNGS_KERNEL_HEADERS "(_device\\.hpp|rungs/gpu/kernel\\.hpp|rungs/ptx/[^/]+\\.hpp|rungs/emulator/[^/]+\\.hpp)$")

# rungs_check_headers(<name> <header>...): compiles every public header of rungs_<name> by itself.
function(rungs_check_headers name)
  if(NOT RUNGS_BUILD_TESTS)
    return()
  endif()
  set(sources)
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE "^.*/(rungs/)" "\\1" include "${header}")
    string(MAKE_C_IDENTIFIER ${include} id)
    if(RUNGS_GPU_CUDA AND include MATCHES "${RUNGS_KERNEL_HEADERS}")
      set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${id}.cu)
    else()
      set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${id}.cpp)
    endif()
    # Twice, so that a missing guard shows as well.
    file(CONFIGURE OUTPUT ${source} CONTENT "#include <${include}>\n#include <${include}>\n")
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(rungs_${name}_headers OBJECT ${sources})
    rungs_target_defaults(rungs_${name}_headers)
    target_compile_options(rungs_${name}_headers PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-O0;-Wno-unknown-pragmas>")
    set_target_properties(rungs_${name}_headers PROPERTIES
      CUDA_ARCHITECTURES "${RUNGS_ARCHITECTURES_sm90}")
    target_link_libraries(rungs_${name}_headers PRIVATE rungs_${name})
    set_property(GLOBAL APPEND PROPERTY RUNGS_OBJECTS rungs_${name}_headers)
  endif()
endfunction()

# A header that lies in include/ but is not in HEADERS would be neither checked nor installed.
function(_rungs_check_listed_headers name)
  file(GLOB_RECURSE present RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS
       include/rungs/${name}/*.hpp)
  if(ARGN)
    list(REMOVE_ITEM present ${ARGN})
  endif()
  if(present)
    message(FATAL_ERROR "rungs_${name}: these headers are not in HEADERS: ${present}")
  endif()
endfunction()

# Groups of targets. asan-tests and tsan-tests build only the tests labelled for that sanitizer.
function(rungs_add_group_targets)
  foreach(sanitizer IN ITEMS asan tsan)
    get_property(tests GLOBAL PROPERTY RUNGS_${sanitizer}_TESTS)
    add_custom_target(${sanitizer}-tests DEPENDS ${tests})
  endforeach()
  # Every library, kernel and header, no program: what a machine with nvcc and no GPU can check.
  get_property(objects GLOBAL PROPERTY RUNGS_OBJECTS)
  add_custom_target(objects DEPENDS ${objects})
endfunction()

# Targets check-layering, check-format, format and check-tidy. The last three need the LLVM tools.
function(rungs_add_check_targets)
  add_custom_target(check-layering VERBATIM
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/Layering.cmake)

  set(lint ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR})
  add_custom_target(check-format VERBATIM
    COMMAND ${lint} -DMODE=check-format -P ${PROJECT_SOURCE_DIR}/cmake/Lint.cmake)
  add_custom_target(format VERBATIM
    COMMAND ${lint} -DMODE=format -P ${PROJECT_SOURCE_DIR}/cmake/Lint.cmake)
  add_custom_target(check-tidy VERBATIM USES_TERMINAL
    COMMAND ${lint} -DMODE=check-tidy -P ${PROJECT_SOURCE_DIR}/cmake/Lint.cmake)
  if(TARGET rungs_commit)
    add_dependencies(check-tidy rungs_commit)  # the one header made by building; no other build is needed
  endif()
endfunction()
