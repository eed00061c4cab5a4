# What a target that uses hunch needs from the machine at hand: C++20, threads, and Thrust for
# set-up work. Decided where the library is used, so the installed package runs this again.
function(hunch_add_requirements target)
  target_compile_features(${target} INTERFACE cxx_std_20)

  # CMake 3.25 does not know C++20 for nvcc 13, and would silently fall back to an older standard.
  if(CMAKE_CUDA_COMPILER_LOADED AND NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
    target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
  endif()

  # Thrust comes with a CUDA toolkit, or as a package of its own; plain C++ files use its serial
  # back end, so that they need no CUDA headers.
  find_path(HUNCH_THRUST_INCLUDE_DIR thrust/sort.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda /usr/local/cuda-13.0 /usr/local/cuda-12.9
    PATH_SUFFIXES include/cccl include
    DOC "Where the headers of Thrust are")
  if(NOT HUNCH_THRUST_INCLUDE_DIR)
    message(FATAL_ERROR "hunch: the headers of Thrust were not found. Install them (Debian: "
      "libthrust-dev) or set HUNCH_THRUST_INCLUDE_DIR.")
  endif()
  target_include_directories(${target} SYSTEM INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${HUNCH_THRUST_INCLUDE_DIR}>)
  target_compile_definitions(${target} INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP>)
endfunction()
