# Installs the build into a fresh tree, then configures, builds and runs the consumer against it, as a
# project elsewhere would. Needs ROOT BUILD GENERATOR CXX VERSION GPU_CUDA PREFIX_PATH.
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD}/tests/install)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})

# run(<what> <command>...): fails with the command's output.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result)
    message(FATAL_ERROR "${what} failed (${result}):\n${output}")
  endif()
  message(STATUS "${what}: fine")
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix_path ${prefix} ${PREFIX_PATH})
list(JOIN prefix_path "\\;" prefix_path)
set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -S ${ROOT}/tests/install -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_PREFIX_PATH=${prefix_path})

# refused(<what> <words> <option>...): configuring the consumer must fail and say <words>.
function(refused what words)
  execute_process(COMMAND ${configure} -B ${work}/refused --fresh ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n\t]+" " " output "${output}")
  if(NOT result OR NOT output MATCHES "${words}")
    message(FATAL_ERROR "${what}: expected a failure that says '${words}', got (${result}):\n${output}")
  endif()
  message(STATUS "${what}: refused with '${words}'")
endfunction()

run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB_RECURSE installed RELATIVE ${prefix} ${prefix}/*)
foreach(file IN LISTS installed)
  if(file MATCHES "catalog|rungs/testing|rungs_testing|rungs/bench|rungs_bench|gtest|_test$|\\.in$")
    message(FATAL_ERROR "installed, but only the project's own: ${file}")
  endif()
  if(file MATCHES "\\.cmake$")
    file(STRINGS ${prefix}/${file} leaks REGEX "-Wshadow|-ffp-contract|${ROOT}|${BUILD}")
    if(leaks)
      message(FATAL_ERROR "${file} carries our flags or paths: ${leaks}")
    endif()
  endif()
endforeach()

run("configure" ${configure} -B ${work}/consumer)
run("build" ${CMAKE_COMMAND} --build ${work}/consumer)
file(READ ${work}/consumer/compile_commands.json commands)
if(commands MATCHES "-Wshadow|-ffp-contract")
  message(FATAL_ERROR "our flags reach the consumer: ${commands}")
endif()
run("consumer" ${work}/consumer/consumer)
message(STATUS "consumer says: ${output}")

string(FIND "${output}" "no GPU" without_gpu)

# The stages above, with what they bring along.
run("configure for all stages" ${configure} -B ${work}/all -DCONSUMER_ALSO=attention,training)
run("build for all stages" ${CMAKE_COMMAND} --build ${work}/all --target consumer_of_all)
run("consumer of all stages" ${work}/all/consumer_of_all)
message(STATUS "consumer of all stages says: ${output}")

refused("unknown component" "rungs has no component 'gem'" -DCONSUMER_ALSO=gem)
refused("higher version" "version: ${VERSION}" -DCONSUMER_VERSION=99.0)
if(NOT without_gpu EQUAL -1)
  # ctest reads the first line, ./rungs test the second.
  message("tests/install: Skipped\nthe consumer was linked, but there is no GPU to run it on")
endif()
