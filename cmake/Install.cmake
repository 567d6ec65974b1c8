# What `cmake --install` puts where, and the package that find_package(Sluice) reads:
#
#   bin/sluice
#   include/sluice/sluice.h     the embedded form; include/sluice/ROOM/HEADER are the headers it stands on
#   include/sluice/Executor.h   and its neighbours: the runtime of generated executors
#   lib/libsluice*.a, lib/cmake/Sluice/
#
# Sluice::Sluice builds, verifies, simulates and emits schedules; Sluice::Driver adds schedule files (and
# with them ANTLR); Sluice::Runtime is header-only and needs neither LLVM nor fmt.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)

get_property(libraries GLOBAL PROPERTY SLUICE_LIBRARIES)
foreach(library ${libraries})
  string(REGEX REPLACE "^sluice" "" room ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${room})
endforeach()
add_library(sluice_embedded INTERFACE)
set_target_properties(sluice_embedded PROPERTIES EXPORT_NAME Sluice)
target_link_libraries(sluice_embedded INTERFACE sluiceEmit sluiceVerify sluiceTimeline sluicePasses sluiceIR)
set_target_properties(sluice_options PROPERTIES EXPORT_NAME Options)
set_target_properties(sluiceGrammar PROPERTIES EXPORT_NAME Grammar)
set_target_properties(sluice_runtime PROPERTIES EXPORT_NAME Runtime)

install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${libraries} sluiceGrammar sluice_options sluice_embedded EXPORT Sluice
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sluice_runtime EXPORT SluiceRuntime)
install(EXPORT Sluice NAMESPACE Sluice:: DESTINATION ${package} FILE SluiceTargets.cmake)
install(EXPORT SluiceRuntime NAMESPACE Sluice:: DESTINATION ${package} FILE SluiceRuntimeTargets.cmake)

get_property(headers GLOBAL PROPERTY SLUICE_PUBLIC_HEADERS)
foreach(header sluice/sluice.h ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  string(REGEX REPLACE "^sluice$" "." folder ${folder})
  install(FILES ${PROJECT_SOURCE_DIR}/lib/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/${folder})
endforeach()
get_property(runtimeFolder GLOBAL PROPERTY SLUICE_RUNTIME_FOLDER)
get_property(runtimeHeaders GLOBAL PROPERTY SLUICE_RUNTIME_HEADERS)
list(TRANSFORM runtimeHeaders PREPEND ${runtimeFolder}/)
install(FILES ${runtimeHeaders} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/SluiceConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SluiceConfig.cmake ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake
        DESTINATION ${package})
