# Builds an example from its folder with the package in BUILD, without a warning, and runs it.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${EXAMPLE} -B ${WORK} -DCMAKE_PREFIX_PATH=${BUILD} -DCMAKE_CXX_COMPILER=${COMPILER}
                        "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" -DCMAKE_BUILD_TYPE=Release
                        "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"
                OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK} --parallel OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/${TARGET} ${DATA} COMMAND_ERROR_IS_FATAL ANY)
