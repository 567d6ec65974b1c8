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
