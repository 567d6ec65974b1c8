# sluice_find_tool(VERSION [FILE]): makes Sluice::sluice, the tool that sluice_generate runs while a project is
# built. It is the first of
#
#   1. SLUICE_EXECUTABLE, where that is set: a sluice that was built for the machine that builds;
#   2. the tool of this installation, which FILE imports, unless the build is for another machine;
#   3. a `sluice` that find_program finds and that runs here.
#
# Only a tool of VERSION (major.minor) is taken: what it writes is for the runtime of that version. Without one
# there is no Sluice::sluice, and sluice_generate says so; Sluice::Runtime alone needs none.

# Does `tool` run on this machine, and is it of SLUICE_TOOL_VERSION? What it says goes to SLUICE_TOOL_SAID.
function(sluice_tool_suits result tool)
  execute_process(COMMAND ${tool} --version RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE said
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(suits FALSE)
  if(code EQUAL 0 AND said MATCHES "^sluice ([0-9]+\\.[0-9]+)")
    set(found ${CMAKE_MATCH_1})
    if(SLUICE_TOOL_VERSION MATCHES "^([0-9]+\\.[0-9]+)" AND CMAKE_MATCH_1 STREQUAL found)
      set(suits TRUE)
    endif()
  elseif(NOT code EQUAL 0)
    set(said "it does not run here (${code})")
  endif()
  set(${result} ${suits} PARENT_SCOPE)
  set(SLUICE_TOOL_SAID "${said}" PARENT_SCOPE)
endfunction()

macro(sluice_find_tool version)
  set(SLUICE_TOOL_VERSION ${version})
  set(SLUICE_TOOL_FILE ${ARGN})
  if(NOT TARGET Sluice::sluice AND NOT SLUICE_EXECUTABLE AND NOT CMAKE_CROSSCOMPILING
     AND EXISTS "${SLUICE_TOOL_FILE}")
    include(${SLUICE_TOOL_FILE})
  endif()
  if(NOT TARGET Sluice::sluice)
    # Where programs of the other machine are looked for is no place for one that has to run on this one.
    find_program(SLUICE_EXECUTABLE sluice NO_CMAKE_FIND_ROOT_PATH VALIDATOR sluice_tool_suits
                 DOC "The sluice that generates executors, built for this machine")
    if(SLUICE_EXECUTABLE)
      sluice_tool_suits(SLUICE_TOOL_SUITS ${SLUICE_EXECUTABLE})
      if(NOT SLUICE_TOOL_SUITS)
        message(FATAL_ERROR "SLUICE_EXECUTABLE is ${SLUICE_EXECUTABLE}: ${SLUICE_TOOL_SAID}\n"
                            "Set it to a sluice ${version} that was built for this machine, or to nothing.")
      endif()
      add_executable(Sluice::sluice IMPORTED GLOBAL)
      set_target_properties(Sluice::sluice PROPERTIES IMPORTED_LOCATION ${SLUICE_EXECUTABLE})
    endif()
  endif()
endmacro()
