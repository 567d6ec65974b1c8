# Generates an executor of every schedule of LIBRARY with the tool, compiles them into one program and runs it.
# Those that executors do not know yet (115) are refused, and no others.
cmake_minimum_required(VERSION 3.25) # if(... IN_LIST ...)
set(unknown)
file(REMOVE_RECURSE ${WORK})
file(GLOB files ${LIBRARY}/*.sluice)
foreach(file ${files})
  file(STRINGS ${file} declarations REGEX "^schedule [a-z_0-9]+")
  foreach(declaration ${declarations})
    string(REGEX REPLACE "^schedule ([a-z_0-9]+).*" "\\1" schedule "${declaration}")
    set(generate ${SLUICE} generate cpp ${file} --schedule ${schedule} --namespace library -o ${WORK})
    if(schedule IN_LIST unknown)
      execute_process(COMMAND ${generate} RESULT_VARIABLE result ERROR_VARIABLE said)
      if(NOT result EQUAL 1 OR NOT said MATCHES "an executor with .*not-supported-yet 115")
        message(FATAL_ERROR "${schedule} should be refused: ${said}")
      endif()
      continue()
    endif()
    execute_process(COMMAND ${generate} COMMAND_ERROR_IS_FATAL ANY)
    # Each lives in a namespace of its own, so all fit into one translation unit.
    string(APPEND includes "#include \"${schedule}.cpp\"\n")
    string(APPEND list " \\\n  RUN(library::${schedule}::schedule);")
  endforeach()
endforeach()
file(WRITE ${WORK}/Library.inc "${includes}#define FOR_EACH_SCHEDULE(RUN)${list}\n")
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Wpedantic -Werror -I ${RUNTIME} -I ${WORK}
                        ${CMAKE_CURRENT_LIST_DIR}/LibraryTest.cpp -o ${WORK}/library -pthread
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/library COMMAND_ERROR_IS_FATAL ANY)
