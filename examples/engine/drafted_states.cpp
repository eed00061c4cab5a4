// SPDX-License-Identifier: Apache-2.0
#include <engine/drafted_states.hpp>

#include <stdexcept>
#include <string>

namespace engine {

void check_rows(const char* who, const drafted_states& states,
                const hunch::head_rows<float>& rows) {
  for (std::int32_t i = 0; i < rows.size; ++i) {
    if (rows.row[i] < 0 || rows.row[i] >= states.size) {
      throw std::out_of_range(std::string(who) + ": row " + std::to_string(rows.row[i]) +
                              " was not computed");
    }
  }
}

void check_roots(const char* who, const hunch::head_inputs& inputs, std::int32_t vocab_size) {
  for (std::int32_t i = 0; i < inputs.size; ++i) {
    if (inputs.tokens[i] < 0 || inputs.tokens[i] >= vocab_size) {
      throw std::out_of_range(std::string(who) + ": input " + std::to_string(i) + " has token " +
                              std::to_string(inputs.tokens[i]) + ", outside the vocabulary of " +
                              std::to_string(vocab_size));
    }
  }
}

}  // namespace engine
