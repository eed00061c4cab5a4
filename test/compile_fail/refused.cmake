# SPDX-License-Identifier: Apache-2.0
# Runs COMMAND; passes if it fails and prints EXPECTED.
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(result EQUAL 0)
  message(FATAL_ERROR "it compiled, and should not have")
endif()
string(FIND "${out}${err}" "${EXPECTED}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the message does not contain: ${EXPECTED}\n${out}${err}")
endif()
