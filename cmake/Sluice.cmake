# Rules that every room of lib/ shares.

add_library(sluice_options INTERFACE)
target_include_directories(sluice_options SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_include_directories(sluice_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/lib>
  $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/sluice>)
target_compile_features(sluice_options INTERFACE cxx_std_20)
target_compile_definitions(sluice_options INTERFACE ${LLVM_DEFINITIONS_LIST})
target_compile_options(sluice_options INTERFACE $<BUILD_INTERFACE:-fvisibility=hidden>)
if(SLUICE_SANITIZE)
  add_compile_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SLUICE_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Warnings for our own code alone: generated and third-party sources do not get them.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE -Wall -Wextra $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

# sluice_library(Room SOURCES ... DEPENDS rooms ... PUBLIC_HEADERS ...): the static library sluice<Room>.
function(sluice_library room)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PUBLIC_HEADERS" ${ARGN})
  add_library(sluice${room} STATIC ${ARG_SOURCES})
  target_link_libraries(sluice${room} PUBLIC sluice_options fmt::fmt PRIVATE $<BUILD_INTERFACE:sluice_warnings>)
  foreach(depend ${ARG_DEPENDS})
    target_link_libraries(sluice${room} PUBLIC sluice${depend})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SLUICE_LIBRARIES sluice${room})
  foreach(header ${ARG_PUBLIC_HEADERS})
    set_property(GLOBAL APPEND PROPERTY SLUICE_PUBLIC_HEADERS ${room}/${header})
  endforeach()
endfunction()

# sluice_embed(VARIABLE FOLDER folder FILES ... HEADER h TYPE t FUNCTION f): a C++ file that holds the text of
# files of a folder (Embed.cmake), made when it is needed; its path goes to VARIABLE.
function(sluice_embed variable)
  cmake_parse_arguments(ARG "" "FOLDER;HEADER;TYPE;FUNCTION" "FILES" ${ARGN})
  set(text ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TYPE}Text.cpp)
  list(TRANSFORM ARG_FILES PREPEND ${ARG_FOLDER}/ OUTPUT_VARIABLE paths)
  add_custom_command(
    OUTPUT ${text}
    COMMAND ${CMAKE_COMMAND} -D OUT=${text} -D "FILES=${ARG_FILES}" -D INCLUDE=${ARG_HEADER} -D TYPE=${ARG_TYPE}
            -D FUNCTION=${ARG_FUNCTION} -P ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/Embed.cmake
    WORKING_DIRECTORY ${ARG_FOLDER}
    COMMENT "Embedding the files of ${ARG_HEADER}"
    VERBATIM)
  set(${variable} ${text} PARENT_SCOPE)
endfunction()
