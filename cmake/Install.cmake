# Each component has an export set of its own: a machine without a component's dependencies still gets the others.
set(partita_package_directory ${CMAKE_INSTALL_DATADIR}/cmake/partita)

install(DIRECTORY include/partita DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(TARGETS partita EXPORT partita_targets)
install(EXPORT partita_targets FILE partita-targets.cmake NAMESPACE partita::
  DESTINATION ${partita_package_directory})
if(TARGET partita_cpu)
  install(TARGETS partita_cpu EXPORT partita_cpu_targets)
  install(EXPORT partita_cpu_targets FILE partita-cpu-targets.cmake NAMESPACE partita::
    DESTINATION ${partita_package_directory})
endif()
if(TARGET partita_mpi)
  install(TARGETS partita_mpi EXPORT partita_mpi_targets)
  install(EXPORT partita_mpi_targets FILE partita-mpi-targets.cmake NAMESPACE partita::
    DESTINATION ${partita_package_directory})
endif()
if(TARGET partita_cuda)
  install(TARGETS partita_cuda EXPORT partita_cuda_targets)
  install(EXPORT partita_cuda_targets FILE partita-cuda-targets.cmake NAMESPACE partita::
    DESTINATION ${partita_package_directory})
endif()

configure_package_config_file(cmake/partita-config.cmake.in partita-config.cmake
  INSTALL_DESTINATION ${partita_package_directory}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(partita-config-version.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/partita-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/partita-config-version.cmake
  cmake/FindNCCL.cmake
  cmake/FindOpenBLAS.cmake
  DESTINATION ${partita_package_directory})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
