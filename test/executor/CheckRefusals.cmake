# Each file of refused/ must not compile, and the compiler must say each of its EXPECT lines.
# Chain.h alone compiles: what is refused on top of it is refused for its own sake.
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -x c++ -I ${RUNTIME} ${CMAKE_CURRENT_LIST_DIR}/refused/Chain.h
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB files ${CMAKE_CURRENT_LIST_DIR}/refused/*.cpp)
foreach(file ${files})
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I ${RUNTIME} -I ${GENERATED} ${file}
                  RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(result EQUAL 0)
    message(FATAL_ERROR "${file} compiles")
  endif()
  file(STRINGS ${file} wanted REGEX "^// EXPECT: ")
  foreach(line ${wanted})
    string(REPLACE "// EXPECT: " "" line "${line}")
    string(FIND "${said}" "${line}" place)
    if(place EQUAL -1)
      message(FATAL_ERROR "${file}: the compiler does not say\n  ${line}\nbut\n${said}")
    endif()
  endforeach()
endforeach()
