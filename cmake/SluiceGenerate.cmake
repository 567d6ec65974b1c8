# sluice_generate(TARGET FILE file SCHEDULE schedule [NAME name] [NAMESPACE namespace] [PARAMETERS P=4 M=8 ...]
#                 [TRANSPORT transport] [INPUT format] [WITH_RUNTIME])
#
# The static library TARGET: the executor of one schedule of `file`, generated while the project is built.
# What links to it finds `#include "name.h"` and Sluice::Runtime. NAME is that of the files and of the C++
# namespace, SCHEDULE without it; the other words are the options of `sluice generate cpp`. WITH_RUNTIME writes
# the headers of the runtime beside them instead of linking to Sluice::Runtime. docs/cmake.md is the guide.
#
# The tool writes a source only where it differs from what is there, and a stamp each time. The stamp is the
# command's one output, and what the file of dependencies is about: a source that stays as it is would look out
# of date for ever, or be compiled after every run. Sources are by-products.
cmake_policy(PUSH)
cmake_policy(VERSION 3.25)

function(sluice_generate target)
  set(usage "sluice_generate(${target} FILE file SCHEDULE schedule ...)")
  cmake_parse_arguments(PARSE_ARGV 1 ARG "WITH_RUNTIME" "FILE;SCHEDULE;NAME;NAMESPACE;TRANSPORT;INPUT" "PARAMETERS")
  if(ARG_UNPARSED_ARGUMENTS OR ARG_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${usage}: what does this mean? ${ARG_UNPARSED_ARGUMENTS} ${ARG_KEYWORDS_MISSING_VALUES}\n"
                        "It knows NAME, NAMESPACE, PARAMETERS P=4 M=8, TRANSPORT, INPUT and WITH_RUNTIME.")
  endif()
  if(NOT ARG_FILE OR NOT ARG_SCHEDULE)
    message(FATAL_ERROR "${usage} needs both a file and a schedule of it")
  endif()
  if(NOT TARGET Sluice::sluice)
    message(FATAL_ERROR "sluice_generate(${target}): there is no tool `sluice` that runs on this machine.\n"
                        "Set SLUICE_EXECUTABLE to one: -DSLUICE_EXECUTABLE=/path/to/sluice")
  endif()
  cmake_path(ABSOLUTE_PATH ARG_FILE BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  get_source_file_property(isGenerated ${ARG_FILE} GENERATED)
  if(NOT EXISTS ${ARG_FILE} AND NOT isGenerated)
    message(FATAL_ERROR "sluice_generate(${target}): there is no file ${ARG_FILE}")
  endif()
  if(NOT ARG_NAME)
    set(ARG_NAME ${ARG_SCHEDULE})
  endif()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/sluice_generated/${target})
  set(stamp ${folder}/${target}.stamp)
  set(depfile ${folder}/${target}.d)
  set(options --schedule ${ARG_SCHEDULE} --name ${ARG_NAME})
  foreach(option NAMESPACE TRANSPORT INPUT)
    if(ARG_${option})
      string(TOLOWER ${option} word)
      list(APPEND options --${word} ${ARG_${option}})
    endif()
  endforeach()
  foreach(parameter ${ARG_PARAMETERS})
    if(NOT parameter MATCHES "^[A-Za-z_][A-Za-z_0-9]*=.")
      message(FATAL_ERROR "sluice_generate(${target}): PARAMETERS are NAME=VALUE, such as P=4, not ${parameter}")
    endif()
    list(APPEND options -D ${parameter})
  endforeach()
  set(sources ${folder}/${ARG_NAME}.cpp ${folder}/${ARG_NAME}.h)
  set(headers "")
  if(ARG_WITH_RUNTIME)
    list(APPEND options --with-runtime)
    get_property(headers GLOBAL PROPERTY SLUICE_RUNTIME_HEADERS)
    list(TRANSFORM headers PREPEND ${folder}/)
  endif()

  cmake_path(GET ARG_FILE FILENAME shown)
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${sources} ${headers}
    COMMAND Sluice::sluice generate cpp ${ARG_FILE} ${options} -o ${folder} --depfile ${depfile} --stamp ${stamp}
    DEPENDS ${ARG_FILE} Sluice::sluice
    DEPFILE ${depfile}
    COMMENT "Generating the executor ${target} from ${shown}"
    VERBATIM)
  # Make knows of by-products only that something before has made them.
  add_custom_target(${target}_generate DEPENDS ${stamp})
  add_library(${target} STATIC ${sources})
  add_dependencies(${target} ${target}_generate)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(NOT ARG_WITH_RUNTIME)
    target_link_libraries(${target} PUBLIC Sluice::Runtime)
  else()
    find_package(Threads REQUIRED)
    target_link_libraries(${target} PUBLIC Threads::Threads)
  endif()
endfunction()

cmake_policy(POP)
