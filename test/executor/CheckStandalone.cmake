# What `generate cpp --with-runtime` writes is all that a program needs: compiled, linked and run with nothing
# else on the include path. Once with each instruction listed, once with repeats.
file(REMOVE_RECURSE ${WORK})
foreach(rows 20000 0)
  execute_process(COMMAND ${SLUICE} generate cpp ${LIBRARY}/one_f_one_b.sluice -D P=3 -D M=40 --with-runtime --rows
                          ${rows} -o ${WORK}/${rows} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Wpedantic -Werror -I ${WORK}/${rows}
                          ${WORK}/${rows}/one_f_one_b.cpp ${CMAKE_CURRENT_LIST_DIR}/Standalone.cpp -o
                          ${WORK}/${rows}/run -pthread COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${WORK}/${rows}/run OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(NOT said STREQUAL "one_f_one_b: sums 780\n")
    message(FATAL_ERROR "with --rows ${rows}: ${said}")
  endif()
endforeach()
