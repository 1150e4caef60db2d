# SPDX-License-Identifier: Apache-2.0
# What users link: lockstep::lockstep, which is all rooms, as static libraries, a target each, or as one shared library; and
# lockstep::mpi, likewise the rooms that need MPI. And
# cmake --install, with which find_package(lockstep) and pkg-config find it. docs/versions.md says what its soname promises.
include(CMakePackageConfigHelpers)
get_property(lockstep_rooms GLOBAL PROPERTY LOCKSTEP_ROOMS)
get_property(lockstep_mpi_rooms GLOBAL PROPERTY LOCKSTEP_MPI_ROOMS)

if(LOCKSTEP_SHARED)
  get_property(lockstep_links GLOBAL PROPERTY LOCKSTEP_LINKS)
  list(FILTER lockstep_links EXCLUDE REGEX "BUILD_INTERFACE|nlohmann_json")  # only headers
  list(REMOVE_DUPLICATES lockstep_links)
  set(lockstep_objects ${lockstep_rooms})
  if(LOCKSTEP_HAS_CUDA)  # CUDA's runtime is in that library, not in its objects
    list(REMOVE_ITEM lockstep_objects lockstep_platform_gpu)
    list(APPEND lockstep_links lockstep_platform_gpu)
  endif()
  list(TRANSFORM lockstep_objects REPLACE ".+" "$<TARGET_OBJECTS:\\0>")
  add_library(lockstep SHARED ${lockstep_objects})
  target_include_directories(lockstep PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(lockstep PUBLIC cxx_std_20)
  target_link_libraries(lockstep PRIVATE $<BUILD_INTERFACE:${lockstep_links}>)
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(lockstep_soversion 0.${PROJECT_VERSION_MINOR})
  else()
    set(lockstep_soversion ${PROJECT_VERSION_MAJOR})
  endif()
  # Only symbols of the namespace lockstep are exported: instances of the standard library's templates, and what CUDA's runtime
  # brings along, would otherwise meet those of the program.
  set(lockstep_symbols ${CMAKE_CURRENT_LIST_DIR}/lockstep.map)
  target_link_options(lockstep PRIVATE -Wl,--version-script=${lockstep_symbols})
  set_target_properties(lockstep PROPERTIES LINK_DEPENDS ${lockstep_symbols} LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${lockstep_soversion})
  if(LOCKSTEP_MPI)
    set(lockstep_mpi_objects ${lockstep_mpi_rooms})
    list(TRANSFORM lockstep_mpi_objects REPLACE ".+" "$<TARGET_OBJECTS:\\0>")
    add_library(lockstep_mpi_shared SHARED ${lockstep_mpi_objects})
    target_link_libraries(lockstep_mpi_shared PUBLIC lockstep PRIVATE $<BUILD_INTERFACE:MPI::MPI_CXX> $<BUILD_INTERFACE:Threads::Threads> ${CMAKE_DL_LIBS})
    target_link_options(lockstep_mpi_shared PRIVATE -Wl,--version-script=${lockstep_symbols})
    # $ORIGIN, as in PackageTrain.cmake.
    set_target_properties(lockstep_mpi_shared PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION ${lockstep_soversion}
      OUTPUT_NAME lockstep_mpi EXPORT_NAME mpi_library INSTALL_RPATH "$ORIGIN")
  endif()
else()
  add_library(lockstep INTERFACE)
  target_link_libraries(lockstep INTERFACE ${lockstep_rooms})
endif()
add_library(lockstep::lockstep ALIAS lockstep)

if(NOT LOCKSTEP_INSTALL)
  return()
endif()

set(lockstep_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(NOT LOCKSTEP_SHARED)
  install(TARGETS ${lockstep_rooms} ${lockstep_mpi_rooms} EXPORT lockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
elseif(LOCKSTEP_MPI)
  install(TARGETS lockstep_mpi_shared EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${lockstep_config_dir})
# Turns /where/libx.so into -L/where -lx: who asks pkg-config for libraries may get those only that are written so, and CMake
# puts all else in front of what needs it.
function(lockstep_pc_flags result)
  set(flags "")
  foreach(library ${ARGN})
    if(library MATCHES "^(/.+)/lib([^/]+)\\.(so|a)[.0-9]*$")
      list(APPEND flags -L${CMAKE_MATCH_1} -l${CMAKE_MATCH_2})
    else()
      list(APPEND flags ${library})
    endif()
  endforeach()
  list(JOIN flags " " flags)
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

set(lockstep_has_train FALSE)
set(lockstep_header_without_library "")
if(TARGET lockstep_train)
  set(lockstep_has_train TRUE)
  include(PackageTrain)
else()
  set(lockstep_header_without_library REGEX "/lockstep/train\\.hpp$" EXCLUDE)
endif()
if(NOT LOCKSTEP_MPI)
  list(APPEND lockstep_header_without_library REGEX "/lockstep/mpi(\\.hpp)?$" EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  ${lockstep_header_without_library})

# Names for pkg-config, which resolves nothing later.
if(LOCKSTEP_SHARED)
  set(lockstep_pc_libraries -llockstep)
  set(lockstep_mpi_pc_libraries -llockstep_mpi)
else()
  # Users first, as linkers want it; CMake's own use of pkg-config keeps no --start-group in its place.
  set(lockstep_pc_rooms ${lockstep_rooms})
  list(REVERSE lockstep_pc_rooms)
  list(TRANSFORM lockstep_pc_rooms PREPEND -l)
  set(lockstep_pc_libraries ${lockstep_pc_rooms}
    ${DNNL_LIBRARY} ${ZLIB_LIBRARIES} ${HWLOC_LINK_LIBRARIES} -lgomp -lpthread -ldl -lrt)
endif()
lockstep_pc_flags(lockstep_pc_libraries ${lockstep_pc_libraries})
if(LOCKSTEP_MPI)
  if(NOT LOCKSTEP_SHARED)
    set(lockstep_mpi_pc_libraries ${lockstep_mpi_rooms})
    list(REVERSE lockstep_mpi_pc_libraries)
    list(TRANSFORM lockstep_mpi_pc_libraries PREPEND -l)
  endif()
  # MPI's libraries stand in the file itself where they are needed: those of lockstep_mpi come before lockstep's.
  lockstep_pc_flags(lockstep_mpi_pc_libraries ${lockstep_mpi_pc_libraries} ${MPI_CXX_LIBRARIES})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/lockstep-mpi.pc.in ${PROJECT_BINARY_DIR}/lockstep-mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/lockstep-mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
# What a C++ compiler links by itself, for who links with another one: pkg-config --static.
set(lockstep_pc_private ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER lockstep_pc_private INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
list(REMOVE_DUPLICATES lockstep_pc_private)
list(TRANSFORM lockstep_pc_private PREPEND -l)
list(JOIN lockstep_pc_private " " lockstep_pc_private)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lockstep.pc.in ${PROJECT_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

math(EXPR lockstep_dnnl_end "${DNNL_VERSION_MAJOR} + 1")
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake.in
  ${PROJECT_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${lockstep_config_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstepConfig.cmake ${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindDNNL.cmake DESTINATION ${lockstep_config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
