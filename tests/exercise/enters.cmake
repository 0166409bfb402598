# exercises/07/mine.cu: while the file is there the stage is built with it, without it the stage is as it
# was, and the next build sees the change. Needs ROOT BUILD GENERATOR CXX PREFIX_PATH.
cmake_minimum_required(VERSION 3.25)
set(work ${BUILD}/tests/exercise)
set(mine ${work}/exercises/07/mine.cu)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/exercises/07)

# run(<what> <command>...): fails with the command's output.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result)
    message(FATAL_ERROR "${what} failed (${result}):\n${output}")
  endif()
endfunction()

# expect(<what> <file that must be compiled> <file that must not>)
function(expect what present absent)
  file(READ ${work}/build/compile_commands.json commands)
  if(NOT commands MATCHES "07[^\"\n]*/${present}\"" OR commands MATCHES "07[^\"\n]*/${absent}\"")
    message(FATAL_ERROR "${what}: expected ${present} to be compiled, and not ${absent}")
  endif()
  message(STATUS "${what}: ${present} is compiled, ${absent} is not")
endfunction()

list(JOIN PREFIX_PATH "\\;" prefix_path)
run("configure" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${ROOT} -B ${work}/build -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_PREFIX_PATH=${prefix_path} -DRUNGS_BUILD_TESTS=OFF -DRUNGS_EXERCISES=${work}/exercises)
expect("no file" "no_rungs_of_mine\\.cpp" "mine\\.cu")

# Any build looks; this target only writes a header.
file(COPY_FILE ${ROOT}/exercises/07/example.cu ${mine})
run("a build with the file" ${CMAKE_COMMAND} --build ${work}/build --target rungs_commit)
expect("with the file" "mine\\.cu" "no_rungs_of_mine\\.cpp")

file(REMOVE ${mine})
run("a build without it" ${CMAKE_COMMAND} --build ${work}/build --target rungs_commit)
expect("without it again" "no_rungs_of_mine\\.cpp" "mine\\.cu")
