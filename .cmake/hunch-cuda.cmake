# SPDX-License-Identifier: Apache-2.0
# Enables CUDA where there is a compiler for it, for the directory that asks; HUNCH_HAS_CUDA says
# whether. Neither the compiler of the host code nor its sanitizers change what nvcc sees, so one
# build of several is enough.
macro(hunch_find_cuda)
  set(HUNCH_HAS_CUDA OFF)
  if(HUNCH_BUILD_CUDA AND NOT HUNCH_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      if(NOT CMAKE_CUDA_ARCHITECTURES)
        set(CMAKE_CUDA_ARCHITECTURES 90)
      endif()
      enable_language(CUDA)
      set(HUNCH_HAS_CUDA ON)
      if(HUNCH_QUICK_BUILD AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
        string(APPEND CMAKE_CUDA_FLAGS " -Ofc=max")
      endif()
    endif()
  endif()
endmacro()
