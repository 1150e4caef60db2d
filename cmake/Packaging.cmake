# SPDX-License-Identifier: Apache-2.0
# cmake --install, and find_package(lockstep) for whoever has it installed: lockstep::<room>, or lockstep::lockstep for all.
include(CMakePackageConfigHelpers)
set(lockstep_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
get_property(lockstep_rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)

add_library(lockstep INTERFACE)
add_library(lockstep::lockstep ALIAS lockstep)
target_link_libraries(lockstep INTERFACE ${lockstep_rooms})

install(TARGETS lockstep lockstep_mpi ${lockstep_rooms} EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${lockstep_config_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${lockstep_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindDNNL.cmake ${CMAKE_CURRENT_LIST_DIR}/FindNCCL.cmake DESTINATION ${lockstep_config_dir})
