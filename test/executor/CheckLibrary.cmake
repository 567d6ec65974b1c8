# Generates an executor of every schedule of LIBRARY with the tool, as a table of all its rows and as one of rows
# plus repeats, compiles them into one program with each compiler of ALSO, without a warning, and with COMPILER,
# and runs it.
file(REMOVE_RECURSE ${WORK})
file(GLOB files ${LIBRARY}/*.sluice)
foreach(file ${files})
  file(STRINGS ${file} declarations REGEX "^schedule [a-z_0-9]+")
  foreach(declaration ${declarations})
    string(REGEX REPLACE "^schedule ([a-z_0-9]+).*" "\\1" schedule "${declaration}")
    set(generate ${SLUICE} generate cpp ${file} --schedule ${schedule})
    execute_process(COMMAND ${generate} --namespace library -o ${WORK} COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${generate} --namespace packed --rows 0 -o ${WORK}/packed COMMAND_ERROR_IS_FATAL ANY)
    # Each lives in a namespace of its own, so all fit into one translation unit.
    string(APPEND includes "#include \"${schedule}.cpp\"\n#include \"packed/${schedule}.cpp\"\n")
    string(APPEND list " \\\n  RUN(library::${schedule}::schedule); \\\n  RUN(packed::${schedule}::schedule);")
  endforeach()
endforeach()
file(WRITE ${WORK}/Library.inc "${includes}#define FOR_EACH_SCHEDULE(RUN)${list}\n")
set(flags -std=c++20 -Wall -Wextra -Wpedantic -Werror -I ${RUNTIME} -I ${WORK}
          ${CMAKE_CURRENT_LIST_DIR}/LibraryTest.cpp)
foreach(compiler ${ALSO})
  execute_process(COMMAND ${compiler} ${flags} -fsyntax-only COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${COMPILER} ${flags} -o ${WORK}/library -pthread COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/library COMMAND_ERROR_IS_FATAL ANY)
