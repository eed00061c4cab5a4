// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hunch/core/cuda_error.cuh>

namespace hunch::executor {

using hunch::cuda_error;

namespace detail {

using hunch::detail::check;

}  // namespace detail

}  // namespace hunch::executor
