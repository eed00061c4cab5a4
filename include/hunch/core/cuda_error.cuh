// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime.h>

namespace hunch {

/// An error of the CUDA runtime.
class cuda_error : public std::runtime_error {
 public:
  cuda_error(cudaError_t code, const char* what)
      : std::runtime_error(std::string("hunch: CUDA: ") + what + ": " + cudaGetErrorString(code)),
        code_(code) {}
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {

inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) { throw cuda_error(code, what); }
}

}  // namespace detail

}  // namespace hunch
