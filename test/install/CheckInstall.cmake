# Installs BUILD below WORK, then configures, builds and runs the project of `consumer` against it.
set(stage ${WORK}/stage)
file(REMOVE_RECURSE ${stage} ${WORK}/consumer)

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${stage})
run(${stage}/bin/sluice --version)

# Whatever is installed must not lean on the folders it was made in.
file(GLOB package ${stage}/lib/cmake/Sluice/*.cmake ${stage}/lib/*/cmake/Sluice/*.cmake)
foreach(file ${package})
  file(READ ${file} text)
  string(FIND "${text}" "${BUILD}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names the build folder")
  endif()
endforeach()

# Each header stands alone, but for the transports over libraries of others.
file(GLOB_RECURSE headers RELATIVE ${stage}/include ${stage}/include/*.h)
list(FILTER headers EXCLUDE REGEX "^sluice/(Mpi|Nccl|NcclQueue)\\.h$")
list(LENGTH headers count)
if(count LESS 40)
  message(FATAL_ERROR "only ${count} headers are installed")
endif()
list(JOIN headers "," headers) # a list would fall apart into arguments
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer -G Ninja
    -D CMAKE_PREFIX_PATH=${stage} -D CMAKE_CXX_COMPILER=${COMPILER} -D "HEADERS=${headers}")
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${WORK}/consumer/embedded)
message("${output}")
run(${WORK}/consumer/runtime)
