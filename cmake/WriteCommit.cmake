# SPDX-License-Identifier: Apache-2.0
# Run at every build (cmake -DSOURCE=… -DOUTPUT=… -P): writes the commit the sources are at, if it has changed since.
set(commit "unknown")
find_package(Git QUIET)
# Sources unpacked inside somebody else's repository are not at that one's commit.
if(GIT_FOUND AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${described})
  endif()
endif()
set(text "#include \"apps/cli/version.hpp\"\n\nconst char* const lockstep::cli::build::commit = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
