# SPDX-License-Identifier: Apache-2.0
# Builds and runs the consumer from scratch, in the way that WAY says.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${out}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
if(WAY STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
  set(where -DCMAKE_PREFIX_PATH=${WORK}/installed)
else()
  set(where -DHUNCH_SOURCE_DIR=${SOURCE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/test/package/${WAY} -B ${WORK}/build ${where}
  -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
