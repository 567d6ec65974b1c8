# Builds docs/examples/mlp as its reader does, from the schedule files and with the package in BUILD, and runs it. The
# executors must be those of the schedules built in C++ (in BUILT): same digests.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${EXAMPLE} -B ${WORK} -DCMAKE_PREFIX_PATH=${BUILD} -DCMAKE_CXX_COMPILER=${COMPILER}
                        "-DCMAKE_CXX_FLAGS=-O1 -Wall -Wextra -Wpedantic -Werror"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(schedule gpipe one_f_one_b recomputing uneven)
  file(STRINGS ${WORK}/sluice_generated/${schedule}/${schedule}.h fromFile REGEX "inline namespace")
  file(STRINGS ${BUILT}/${schedule}.h fromBuilder REGEX "inline namespace")
  if(NOT fromFile STREQUAL fromBuilder)
    message(FATAL_ERROR "${schedule}: the file gives ${fromFile}, the builder ${fromBuilder}")
  endif()
endforeach()
execute_process(COMMAND ${WORK}/mlp ${EXAMPLE}/iris.csv COMMAND_ERROR_IS_FATAL ANY)
