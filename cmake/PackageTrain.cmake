# SPDX-License-Identifier: Apache-2.0
# lockstep::train as it is installed: one library, static or shared as the rest. It has a set of targets and a file for
# pkg-config of its own, because the static one needs Boost, OpenSSL and the decoders of pictures, which who links lockstep::lockstep alone may not have.
set(lockstep_train_target lockstep_train)
if(LOCKSTEP_SHARED)
  set(lockstep_train_target lockstep_train_shared)
  add_library(lockstep_train_shared SHARED $<TARGET_OBJECTS:lockstep_train> $<TARGET_OBJECTS:lockstep_cli>
    $<TARGET_OBJECTS:lockstep_vision> $<TARGET_OBJECTS:lockstep_workloads>)
  target_link_libraries(lockstep_train_shared PUBLIC lockstep lockstep_mpi_shared PRIVATE $<BUILD_INTERFACE:Boost::program_options> $<BUILD_INTERFACE:OpenSSL::Crypto>
    $<BUILD_INTERFACE:${LOCKSTEP_PICTURE_LIBRARIES}>)
  target_link_options(lockstep_train_shared PRIVATE -Wl,--version-script=${lockstep_symbols})
  # $ORIGIN: a program that calls nothing else may name this library only, and whoever loads it must find the other one.
  set_target_properties(lockstep_train_shared PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
    SOVERSION ${lockstep_soversion} OUTPUT_NAME lockstep_train EXPORT_NAME train INSTALL_RPATH "$ORIGIN")
endif()
install(TARGETS ${lockstep_train_target} EXPORT lockstepTrainTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(PROGRAMS ${PROJECT_SOURCE_DIR}/mpi-scripts/launch/main.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME lockstep-launch)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/mpi-scripts/convert_weights.py DESTINATION ${CMAKE_INSTALL_BINDIR}
  RENAME lockstep-convert-weights)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/mpi-scripts/convert_yolov5.py DESTINATION ${CMAKE_INSTALL_BINDIR}
  RENAME lockstep-convert-yolov5)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/mpi-scripts/convert_paddleseg.py DESTINATION ${CMAKE_INSTALL_BINDIR}
  RENAME lockstep-convert-paddleseg)
install(FILES ${PROJECT_SOURCE_DIR}/mpi-scripts/parity/lockstep_models.py DESTINATION share/lockstep/python)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/mpi-scripts/train.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/mpi-scripts/launch DESTINATION share/lockstep FILES_MATCHING PATTERN "*.py"
  PATTERN main.py EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/apps/train/options/foreign_options.txt DESTINATION share/lockstep/launch)
install(EXPORT lockstepTrainTargets NAMESPACE lockstep:: DESTINATION ${lockstep_config_dir})

set(lockstep_train_pc_libraries -llockstep_train)
if(NOT LOCKSTEP_SHARED)
  get_target_property(boost_library Boost::program_options LOCATION)
  list(APPEND lockstep_train_pc_libraries ${boost_library} ${OPENSSL_CRYPTO_LIBRARY}
    ${TURBOJPEG_LINK_LIBRARIES} ${SPNG_LINK_LIBRARIES} ${PUGIXML_LINK_LIBRARIES} ${YAMLCPP_LINK_LIBRARIES} ${LMDB_LINK_LIBRARIES})
endif()
lockstep_pc_flags(lockstep_train_pc_libraries ${lockstep_train_pc_libraries})
configure_file(${CMAKE_CURRENT_LIST_DIR}/lockstep-train.pc.in ${PROJECT_BINARY_DIR}/lockstep-train.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-train.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
