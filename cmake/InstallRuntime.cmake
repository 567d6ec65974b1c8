# The parts of the package that need no compiler of Sluice: the runtime's headers and sluice_generate. The same
# package, beside the tool that is built here, is also found in the build folder: CMAKE_PREFIX_PATH=build.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
set(built ${PROJECT_BINARY_DIR})

get_property(runtimeFolder GLOBAL PROPERTY SLUICE_RUNTIME_FOLDER)
get_property(runtimeHeaders GLOBAL PROPERTY SLUICE_RUNTIME_HEADERS)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in ${built}/SluiceConfig.cmake
                              INSTALL_DESTINATION ${package})
# Headers serve machines of every kind; SluiceConfig.cmake asks about libraries where it gives some.
write_basic_package_version_file(${built}/SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
configure_file(${PROJECT_SOURCE_DIR}/cmake/SluiceTool.cmake ${built}/SluiceTool.cmake COPYONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/SluiceGenerate.cmake ${built}/SluiceGenerate.cmake COPYONLY)
export(TARGETS sluice_runtime NAMESPACE Sluice:: FILE ${built}/SluiceRuntimeTargets.cmake)
if(TARGET sluice)
  export(TARGETS sluice NAMESPACE Sluice:: FILE ${built}/SluiceToolTargets.cmake)
endif()

if(SLUICE_INSTALL)
  install(TARGETS sluice_runtime EXPORT SluiceRuntime)
  install(EXPORT SluiceRuntime NAMESPACE Sluice:: DESTINATION ${package} FILE SluiceRuntimeTargets.cmake
          COMPONENT Runtime)
  foreach(header ${runtimeHeaders})
    install(FILES ${runtimeFolder}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT Runtime)
  endforeach()
  install(FILES ${built}/SluiceConfig.cmake ${built}/SluiceConfigVersion.cmake ${built}/SluiceTool.cmake
                ${built}/SluiceGenerate.cmake
          DESTINATION ${package} COMPONENT Runtime)
  if(TARGET sluice)
    install(TARGETS sluice EXPORT SluiceTool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT Tool)
    install(EXPORT SluiceTool NAMESPACE Sluice:: DESTINATION ${package} FILE SluiceToolTargets.cmake COMPONENT Tool)
  endif()
endif()
