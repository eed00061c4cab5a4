// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace generate {

/// Becomes `mpirun`, which starts so many processes of generate_ranks, beside this program, with
/// the same flags. \throws usage_error if there is no such program, or no mpirun.
void start_ranks(const std::vector<std::string>& words, std::int32_t ranks);

}  // namespace generate
