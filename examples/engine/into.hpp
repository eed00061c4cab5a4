// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace engine {

/// What becomes of a matrix product.
enum class into { overwrite, add };

}  // namespace engine
