// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include <hunch/core/message.hpp>
#include <hunch/drafter/drafter.hpp>

namespace hunch::drafter {

/// Compares the model that a drafter drafts with, target and selector.
/// \param where the name of the drafter; \param what the name of its model.
/// \throws std::invalid_argument naming the two things that do not fit.
template <class Model>
void check_model(std::string_view where, std::string_view what, Model& model,
                 const drafter_setup& setup) {
  const refusal refuse{where};
  const auto own = static_cast<std::int32_t>(model.vocab_size());
  if (own != setup.vocab_size) {
    refuse({what, " has a vocabulary of ", own, ", the target of ", setup.vocab_size});
  }
  if (setup.layout->vocab_size() != setup.vocab_size) {
    refuse({"the selector's layout is for a vocabulary of ", setup.layout->vocab_size(),
            ", the target's has ", setup.vocab_size});
  }
  if (model.head_order() != setup.layout->order()) {
    refuse({what, "'s head is not stored in the order of the selector's layout"});
  }
  std::int32_t context = 0;
  if constexpr (requires { model.context_width(); }) { context = model.context_width(); }
  if (setup.context_width != 0 && setup.context_width != context) {
    refuse({"the selector's router reads contexts of ", setup.context_width, " numbers, those of ",
            what, " have ", context});
  }
}

}  // namespace hunch::drafter
