# SPDX-License-Identifier: Apache-2.0
# One target per room: lockstep_room(base SOURCES error.cpp DEPENDS … LINKS …) makes lockstep::base.
#   DEPENDS  rooms of lower floors, visible to whoever uses this one
#   LINKS    vendor libraries; private, no public header includes theirs
#   INTERNAL  no part of lockstep::lockstep, nor installed with it
#   OF_MPI    a part of lockstep::mpi
include(GNUInstallDirs)

add_library(lockstep_flags INTERFACE)
target_compile_features(lockstep_flags INTERFACE cxx_std_20)
# -ffp-contract=off: a vector body and its scalar tail must round alike, so that sums do not depend on where they are cut.
# -fno-math-errno: loops with a square root are vectorized only where it need not set errno. It changes no result.
set(lockstep_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers)
# A whole room in one compilation needs a gigabyte, and gcc searches what it holds for garbage several times: a tenth of its time.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(lockstep_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=4000000>)
endif()
target_compile_options(lockstep_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${lockstep_warnings};-ffp-contract=off;-fno-math-errno>"
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>  # gcc 12 and 13 mistake "text" + std::string for an overlap when they optimize
  # Files that are compiled together are not each other's surroundings, as these warnings take them to be.
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<OR:$<BOOL:${CMAKE_UNITY_BUILD}>,$<BOOL:${LOCKSTEP_MERGE_TESTS}>>>:-Wno-shadow;$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror>
  # Fewer warnings: the host compiler gets to see what nvcc makes of the source. --fmad: as -ffp-contract.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;--fmad=false>"
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror=all-warnings>)
# Linking is a minute of a whole build, and a few seconds of it with a linker that uses all cores. (mold is still faster, but
# Debian 12's sometimes spins for ever, and may lay out thread-local variables so that a program does not start: rui314/mold#1151.)
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=lld LOCKSTEP_LINKS_WITH_LLD)
if(LOCKSTEP_LINKS_WITH_LLD)
  target_link_options(lockstep_flags INTERFACE "$<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>")
endif()
# By the build ID ranks notice that they run different programs.
check_linker_flag(CXX -Wl,--build-id=sha1 LOCKSTEP_LINKS_WITH_BUILD_ID)
if(LOCKSTEP_LINKS_WITH_BUILD_ID)
  target_link_options(lockstep_flags INTERFACE "$<$<LINK_LANGUAGE:CXX>:-Wl,--build-id=sha1>")
endif()
if(LOCKSTEP_SANITIZE)
  # gcc's macros, which older clangs do not define.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND LOCKSTEP_SANITIZE MATCHES "address")
    target_compile_definitions(lockstep_flags INTERFACE __SANITIZE_ADDRESS__=1)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES Clang AND LOCKSTEP_SANITIZE MATCHES "thread")
    target_compile_definitions(lockstep_flags INTERFACE __SANITIZE_THREAD__=1)
  endif()
  target_compile_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()

# lockstep_unite(units cu a.cu b.cu …) makes two files that include the others, one for each of two cores, where the build is of
# files together: CMake itself does that for CUDA from 3.31 on only, and not for files with flags of their own.
function(lockstep_unite result extension)
  set(${result} ${ARGN} PARENT_SCOPE)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set(lines_0 "")
  set(lines_1 "")
  set(number 0)
  foreach(source ${ARGN})
    string(APPEND lines_${number} "#include \"${source}\"\n")
    math(EXPR number "1 - ${number}")
  endforeach()
  set(units "")
  foreach(number 0 1)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/Unity/unit_${number}.${extension})
    file(CONFIGURE OUTPUT ${unit} CONTENT "${lines_${number}}" @ONLY)
    list(APPEND units ${unit})
  endforeach()
  set(${result} ${units} PARENT_SCOPE)
endfunction()

# Of rooms that are compiled as files together, headers of the standard library are parsed once, for all of them. Other builds do
# not do that: they reveal missing includes. (gcc 12 crashes where a header is precompiled at another level of optimization.)
option(LOCKSTEP_PRECOMPILE "Precompile the standard library's headers for rooms" OFF)
function(lockstep_precompile_standard_headers target)
  if(NOT LOCKSTEP_PRECOMPILE OR target STREQUAL lockstep_kernels)  # whose files have flags of their own
    return()
  endif()
  if(target STREQUAL lockstep_base)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstring> <filesystem>
      <fstream> <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <variant> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM lockstep_base)
  endif()
  target_compile_options(${target} PRIVATE -pthread)  # as some MPI libraries' own flags have it
endfunction()

function(lockstep_room name)
  cmake_parse_arguments(ARG "INTERNAL;OF_MPI" "" "SOURCES;DEPENDS;LINKS" ${ARGN})
  add_library(lockstep_${name} STATIC ${ARG_SOURCES})
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lockstep_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(lockstep_${name} PUBLIC cxx_std_20)
  foreach(room ${ARG_DEPENDS})
    target_link_libraries(lockstep_${name} PUBLIC lockstep::${room})
  endforeach()
  # Of a library that is only headers nothing is left to link for those who use an installed room.
  list(TRANSFORM ARG_LINKS REPLACE "^nlohmann_json::.*" "$<BUILD_INTERFACE:\\0>")
  target_link_libraries(lockstep_${name} PRIVATE $<BUILD_INTERFACE:lockstep_flags> ${ARG_LINKS})
  lockstep_precompile_standard_headers(lockstep_${name})
  if(ARG_INTERNAL)
    return()
  endif()
  if(ARG_OF_MPI)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_MPI_ROOMS lockstep_${name})
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_ROOMS lockstep_${name})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_LINKS ${ARG_LINKS})
endfunction()

# The program writes both by --help=man and --help=completion. Not where this machine cannot run it, or where its sanitizer
# might speak. Both shells complete by one file, whose first line is for zsh.
function(lockstep_man_page name)
  if(CMAKE_CROSSCOMPILING OR LOCKSTEP_SANITIZE)
    return()
  endif()
  set(page ${PROJECT_BINARY_DIR}/man/${name}.1)
  set(completion ${PROJECT_BINARY_DIR}/completion/${name})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man ${PROJECT_BINARY_DIR}/completion)
  add_custom_command(OUTPUT ${page} ${completion} DEPENDS ${name}
    COMMAND ${name} --help=man > ${page}
    COMMAND ${name} --help=completion > ${completion}
    COMMENT "Writing man page and shell completion of ${name}" VERBATIM)
  add_custom_target(man-${name} ALL DEPENDS ${page} ${completion})
  # Missing where only some targets were built.
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(FILES ${completion} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _${name} OPTIONAL)
endfunction()

function(lockstep_app name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)  # so that stacks have the names of functions
  foreach(room ${ARG_DEPENDS})
    target_link_libraries(${name} PRIVATE lockstep::${room})
  endforeach()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE lockstep_flags ${ARG_LINKS})
  if(LOCKSTEP_INSTALL)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    lockstep_man_page(${name})
  endif()
endfunction()
