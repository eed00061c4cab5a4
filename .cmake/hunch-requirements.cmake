# SPDX-License-Identifier: Apache-2.0
# Thrust comes with a CUDA toolkit, or as a package of its own. `result` is the folder to search for
# its headers; empty if the compiler searches it unasked, or if there is none. To name that one again would move it: the
# C++ headers reach those of C by looking past themselves, and find nothing there any more.
function(hunch_find_thrust result)
  # The toolkit of the nvcc that compiles, wherever it is.
  set(toolkits)
  find_program(HUNCH_NVCC nvcc DOC "The nvcc on PATH")
  mark_as_advanced(HUNCH_NVCC)
  foreach(nvcc IN ITEMS "${CMAKE_CUDA_COMPILER}" "$ENV{CUDACXX}" "${HUNCH_NVCC}")
    if(nvcc AND EXISTS "${nvcc}")
      file(REAL_PATH "${nvcc}" nvcc)
      cmake_path(GET nvcc PARENT_PATH folder)
      cmake_path(GET folder PARENT_PATH folder)
      list(APPEND toolkits "${folder}")
    endif()
  endforeach()
  find_path(HUNCH_THRUST_INCLUDE_DIR thrust/sort.h
    HINTS ${toolkits} ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /usr/local/cuda-13.0 /usr/local/cuda-12.9
    PATH_SUFFIXES include/cccl include
    DOC "Where the headers of Thrust are")
  if(NOT HUNCH_THRUST_INCLUDE_DIR)
    message(STATUS "hunch: the headers of Thrust were not found; without them all can be used but "
      "hunch/tools/spherical_kmeans.hpp (Debian: libthrust-dev, or set HUNCH_THRUST_INCLUDE_DIR)")
    set(${result} "" PARENT_SCOPE)
    return()
  endif()
  set(unasked)
  foreach(folder IN LISTS HUNCH_THRUST_INCLUDE_DIR CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    file(REAL_PATH "${folder}" folder)
    list(APPEND unasked "${folder}")
  endforeach()
  list(POP_FRONT unasked folder)
  if(folder IN_LIST unasked)
    set(${result} "" PARENT_SCOPE)
  else()
    set(${result} "${HUNCH_THRUST_INCLUDE_DIR}" PARENT_SCOPE)
  endif()
endfunction()

# What a target that uses hunch needs from the machine at hand: C++20, and Thrust if it clusters heads. Decided where the library is used, so the installed package runs this again.
function(hunch_add_requirements target)
  target_compile_features(${target} INTERFACE cxx_std_20)

  # CMake 3.25 does not know C++20 for nvcc 13, and would silently fall back to an older standard.
  if(CMAKE_CUDA_COMPILER_LOADED AND NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()

  hunch_find_thrust(thrust)
  if(thrust)
    target_include_directories(${target} SYSTEM INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${thrust}>)
  endif()
endfunction()
