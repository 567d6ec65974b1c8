# antlr_generate(OUT grammar.g4 ...): C++ lexer and parser from grammar/, into the build folder.
find_program(ANTLR4 antlr4 REQUIRED)
find_library(ANTLR4_RUNTIME libantlr4-runtime.a REQUIRED)
find_path(ANTLR4_INCLUDE antlr4-runtime.h PATH_SUFFIXES antlr4-runtime REQUIRED)

function(antlr_generate out)
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(lexer ${PROJECT_SOURCE_DIR}/grammar/SluiceLexer.g4)
  set(parser ${PROJECT_SOURCE_DIR}/grammar/SluiceParser.g4)
  set(sources ${dir}/SluiceLexer.cpp ${dir}/SluiceParser.cpp)
  add_custom_command(
    OUTPUT ${sources}
    COMMAND ${ANTLR4} -Dlanguage=Cpp -no-listener -no-visitor -package sluice::grammar -Xexact-output-dir -o ${dir} ${lexer}
    COMMAND ${ANTLR4} -Dlanguage=Cpp -no-listener -no-visitor -package sluice::grammar -Xexact-output-dir -lib ${dir} -o ${dir} ${parser}
    DEPENDS ${lexer} ${parser}
    COMMENT "Generating the parser from grammar/"
    VERBATIM)
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-Wno-all;-Wno-extra;-Wno-attributes;-fno-char8_t")
  set(${out} ${sources} PARENT_SCOPE)
  set(${out}_DIR ${dir} PARENT_SCOPE)
endfunction()
