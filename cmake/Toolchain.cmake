# Compilers, languages and flags: everything that is the same for each target of the project.
include_guard(GLOBAL)

# A `.deps` folder at the root holds unpacked packages that the machine lacks (./rungs names it too).
foreach(prefix IN ITEMS "${PROJECT_SOURCE_DIR}/.deps" "${PROJECT_SOURCE_DIR}/.deps/usr")
  if(IS_DIRECTORY "${prefix}")
    list(APPEND CMAKE_PREFIX_PATH "${prefix}")
  endif()
endforeach()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  find_program(RUNGS_CCACHE ccache DOC "Compiler cache; used when found")
  if(RUNGS_CCACHE)
    # The sloppiness is what ccache asks for before it caches a compilation with a precompiled header.
    set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RUNGS_CCACHE})
    foreach(language IN ITEMS CXX CUDA)
      if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
        set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
      endif()
    endforeach()
  endif()
endif()

if(RUNGS_GPU_CUDA)
  # Each kernel target names its own architectures (Stage.cmake); this only keeps CMake from guessing.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  endif()
  # rungs::gpu links the runtime; CMake's own choice would add a second one.
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
    message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} at ${CMAKE_CUDA_COMPILER} is too old: "
                        "the kernels need CUDA 12.8 or later. Choose another with "
                        "-DCMAKE_CUDA_COMPILER=PATH, or build without -DRUNGS_GPU_CUDA=ON.")
  endif()
  # CMake before 3.25.2 stops at nvcc's C++17.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
endif()

set(RUNGS_SANITIZE_FLAGS)
if(RUNGS_SANITIZE STREQUAL "address")
  set(RUNGS_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(RUNGS_SANITIZE STREQUAL "thread")
  set(RUNGS_SANITIZE_FLAGS -fsanitize=thread)
elseif(RUNGS_SANITIZE)
  message(FATAL_ERROR "RUNGS_SANITIZE is '${RUNGS_SANITIZE}': choose address, thread or nothing.")
endif()
if(RUNGS_SANITIZE AND RUNGS_GPU_CUDA)
  message(FATAL_ERROR "RUNGS_SANITIZE works on emulated builds; on a GPU use compute-sanitizer.")
endif()

# The back end and the version, for every source and every linker: rungs/config.hpp.
if(RUNGS_GPU_CUDA)
  set(config_gpu_cuda 1)
else()
  set(config_gpu_cuda 0)
endif()
block()
  set(RUNGS_GPU_CUDA ${config_gpu_cuda})
  configure_file(common/core/include/rungs/config.hpp.in
                 ${PROJECT_BINARY_DIR}/generated/rungs/config.hpp @ONLY)
endblock()

# rungs_target_defaults(<target>): standard, warnings and sanitizer of a target of ours. Nothing of it
# reaches those who link the target, except that they need C++20.
function(rungs_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF CUDA_STANDARD 20 CUDA_EXTENSIONS OFF CUDA_STANDARD_REQUIRED ON
    POSITION_INDEPENDENT_CODE ON CUDA_SEPARABLE_COMPILATION OFF)
  # No contraction: the host computes the same bits whatever the compiler would fuse.
  set(flags -Wall -Wextra -Wshadow -ffp-contract=off)
  list(JOIN flags "," cuda_flags)
  # g++ would tell at every kernel with a 64-byte aligned parameter (a tensor map) that older ones differ.
  list(APPEND flags -Wno-psabi)
  if(CMAKE_COMPILE_WARNING_AS_ERROR AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -Wno-error=restrict)  # g++ 12's false alarm on std::string + (GCC bug 105651)
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${flags};${RUNGS_SANITIZE_FLAGS}>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_flags}>")
  if(RUNGS_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-omit-frame-pointer)
    string(TOUPPER ${RUNGS_SANITIZE} kind)
    # The emulator's runtime is not instrumented, so __SANITIZE_ADDRESS__ does not tell it.
    target_compile_definitions(${target} PRIVATE RUNGS_SANITIZE_${kind}=1)
    target_link_options(${target} PUBLIC ${RUNGS_SANITIZE_FLAGS})
  endif()
endfunction()
