// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <hunch/model/rows.hpp>

/// \file
/// Driving a model by hand, without a decoder: rows of a forward pass, and what is kept of them.

namespace engine {

/// The owner of the arrays after a `hunch::rows`.
class row_batch {
 public:
  row_batch& add(int slot, int id, int parent, int position, hunch::token token,
                 bool wanted = true) {
    slot_.push_back(slot);
    id_.push_back(id);
    parent_.push_back(parent);
    position_.push_back(position);
    token_.push_back(token);
    wanted_.push_back(wanted ? 1 : 0);
    return *this;
  }

  /// A chain from the end of the cache, with ids from 0.
  row_batch& add_chain(int slot, int position, const std::vector<hunch::token>& tokens,
                       bool wanted = true) {
    for (int i = 0; i < static_cast<int>(tokens.size()); ++i) {
      add(slot, i, i == 0 ? hunch::end_of_cache : i - 1, position + i,
          tokens[static_cast<std::size_t>(i)], wanted);
    }
    return *this;
  }

  hunch::rows view() const {
    return {.size = static_cast<std::int32_t>(id_.size()),
            .slot = slot_.data(),
            .id = id_.data(),
            .parent = parent_.data(),
            .position = position_.data(),
            .tokens = token_.data(),
            .wanted = wanted_.data()};
  }

 private:
  std::vector<std::int32_t> slot_, id_, parent_, position_;
  std::vector<hunch::token> token_;
  std::vector<std::uint8_t> wanted_;
};

/// Keeps the given staged ids of one slot. \tparam Model `model`, or one like it.
template <class Model>
void keep(Model& m, int slot, const std::vector<std::int32_t>& ids) {
  const std::vector<std::int32_t> slots(ids.size(), slot);
  hunch::kept_rows kept;
  kept.size = static_cast<std::int32_t>(ids.size());
  kept.slot = slots.data();
  kept.id = ids.data();
  m.commit(kept);
}

template <class Model>
void release(Model& m, std::int32_t slot) {
  hunch::kept_rows kept;
  kept.release_count = 1;
  kept.released = &slot;
  m.commit(kept);
}

/// Reads tokens into the cache of a slot, in pieces of `piece` rows.
template <class Model>
void read(Model& m, int slot, const std::vector<hunch::token>& tokens, int piece) {
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(piece)) {
    const std::size_t end = std::min(tokens.size(), begin + static_cast<std::size_t>(piece));
    const std::vector<hunch::token> part(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                         tokens.begin() + static_cast<std::ptrdiff_t>(end));
    row_batch rows;
    rows.add_chain(slot, m.length(slot), part, false);
    m.evaluate(rows.view());
    std::vector<std::int32_t> ids(part.size());
    for (std::size_t i = 0; i < ids.size(); ++i) { ids[i] = static_cast<std::int32_t>(i); }
    keep(m, slot, ids);
  }
}

}  // namespace engine
