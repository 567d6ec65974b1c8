# Compiles the generated code and the runtime with COMPILER; any warning is an error.
set(flags -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only)
set(here ${CMAKE_CURRENT_LIST_DIR})
foreach(schedule ${SCHEDULES})
  list(APPEND sources ${GENERATED}/${schedule}.cpp)
endforeach()
execute_process(COMMAND ${COMPILER} ${flags} -I ${RUNTIME} -I ${GENERATED} -I ${here} ${sources}
                        ${here}/GeneratedTest.cpp COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${COMPILER} ${flags} -I ${RUNTIME} -I ${GENERATED}/forms -I ${here} ${here}/LibraryTest.cpp
                COMMAND_ERROR_IS_FATAL ANY)
# The copy that `--with-runtime` writes is whole.
execute_process(COMMAND ${COMPILER} ${flags} -I ${GENERATED}/runtime ${GENERATED}/runtime/gpipe.cpp
                        -include sluice/Executor.h COMMAND_ERROR_IS_FATAL ANY)
