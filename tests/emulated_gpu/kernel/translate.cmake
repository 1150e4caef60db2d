# SPDX-License-Identifier: Apache-2.0
# emulated_cuda_sources(kernels a.cu b.cu … [HEADERS c.cuh …]) translates the files for g++. A target compiles ${kernels}
# instead of them, and links emulated_gpu. The headers are found in place of the original ones, by their path below the
# project's src. It is called where that target is made.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(emulated_gpu_translator ${CMAKE_CURRENT_LIST_DIR}/translate.py)

function(emulated_cuda_sources result)
  cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
  set(translated "")
  set(headers "")
  foreach(from ${ARG_HEADERS})
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/src ${from})
    set(to ${CMAKE_CURRENT_BINARY_DIR}/translated/${name})
    add_custom_command(OUTPUT ${to} DEPENDS ${from} ${emulated_gpu_translator}
      COMMAND Python3::Interpreter ${emulated_gpu_translator} ${from} ${to} COMMENT "Translating ${from}" VERBATIM)
    list(APPEND headers ${to})
  endforeach()
  set(folders "")
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    get_filename_component(from ${source} ABSOLUTE)
    get_filename_component(folder ${from} DIRECTORY)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${from})
    string(MAKE_C_IDENTIFIER ${name} name)
    set(to ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
    add_custom_command(OUTPUT ${to} DEPENDS ${from} ${emulated_gpu_translator}
      COMMAND Python3::Interpreter ${emulated_gpu_translator} ${from} ${to} COMMENT "Translating ${source}" VERBATIM)
    list(APPEND translated ${to})
    list(APPEND folders ${folder})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  list(LENGTH translated count)
  set(units ${translated})
  if(count GREATER 2)
    lockstep_unite(units cpp ${translated})
    list(APPEND headers ${translated})
  endif()
  # The thread sanitizer's instrumentation calls the emulation at each access; the sanitizer's library is not linked.
  set_source_files_properties(${units} PROPERTIES OBJECT_DEPENDS "${headers}" INCLUDE_DIRECTORIES
    "${CMAKE_CURRENT_BINARY_DIR}/translated;${folders}" SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
    "-fsanitize=thread;-O1;-g1;$<$<CXX_COMPILER_ID:GNU>:--param=tsan-instrument-func-entry-exit=0>")
  set(${result} ${units} PARENT_SCOPE)
endfunction()
