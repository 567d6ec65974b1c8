# What `cmake --install` puts where, and the package that find_package(Sluice) reads:
#
#   bin/sluice                                                                       component Tool
#   include/sluice/Executor.h   and its neighbours: the runtime of generated executors       Runtime
#   lib/cmake/Sluice/           the package, with sluice_generate                            Runtime
#   include/sluice/sluice.h     the embedded form; include/sluice/ROOM/HEADER are the
#                               headers it stands on                                         Development
#   lib/libsluice*.a                                                                         Development
#
# Sluice::Sluice builds, verifies, simulates and emits schedules; Sluice::Driver adds schedule files (and
# with them ANTLR); Sluice::Runtime is header-only and needs neither LLVM nor fmt.
get_property(libraries GLOBAL PROPERTY SLUICE_LIBRARIES)
foreach(library ${libraries})
  string(REGEX REPLACE "^sluice" "" room ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${room})
  add_library(Sluice::${room} ALIAS ${library})
endforeach()
add_library(sluice_embedded INTERFACE)
add_library(Sluice::Sluice ALIAS sluice_embedded)
set_target_properties(sluice_embedded PROPERTIES EXPORT_NAME Sluice)
target_link_libraries(sluice_embedded INTERFACE sluiceEmit sluiceVerify sluiceTimeline sluicePasses sluiceIR)
set_target_properties(sluice_options PROPERTIES EXPORT_NAME Options)
set_target_properties(sluiceGrammar PROPERTIES EXPORT_NAME Grammar)
if(NOT SLUICE_INSTALL)
  return()
endif()

install(TARGETS ${libraries} sluiceGrammar sluice_options sluice_embedded EXPORT Sluice
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT Development)
install(EXPORT Sluice NAMESPACE Sluice:: DESTINATION ${package} FILE SluiceTargets.cmake COMPONENT Development)

get_property(headers GLOBAL PROPERTY SLUICE_PUBLIC_HEADERS)
foreach(header sluice/sluice.h ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  string(REGEX REPLACE "^sluice$" "." folder ${folder})
  install(FILES ${PROJECT_SOURCE_DIR}/lib/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/${folder}
          COMPONENT Development)
endforeach()
