// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <engine/model.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace engine {

/// An EAGLE head whose routers read what its layers begin with, [embedding of the row's token;
/// hidden state at the token before it], and so need not wait for its pass (Zhang et al. 2025,
/// arXiv:2510.13847). Of the head itself they read states, which the pass makes. Which of the two a
/// router reads is a matter of its training; when a decoder asks for contexts, one of the type.
///
/// A view: the head outlives it.
/// \tparam Eagle `eagle_model` or `device_eagle`.
template <class Eagle>
class early_contexts {
 public:
  static constexpr bool lends_for_a_pass = hunch::lends_for_a_pass<Eagle>;
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Eagle>;

  explicit early_contexts(Eagle& of) : of_(&of) {}

  std::int32_t vocab_size() const { return of_->vocab_size(); }
  std::int32_t context_width() const { return of_->input_width(); }
  hunch::context_rows contexts(const hunch::rows& rows) { return of_->inputs(rows); }

  auto forward(const hunch::rows& rows) { return of_->forward(rows); }
  template <class States>
  void head(const States& states, const hunch::head_rows<float>& rows) {
    of_->head(states, rows);
  }
  std::uint64_t head_order() const { return of_->head_order(); }
  void set_head_layout(const hunch::vocab_layout& layout) { of_->set_head_layout(layout); }
  void commit(const hunch::kept_rows& kept) noexcept { of_->commit(kept); }

 private:
  Eagle* of_;
};

static_assert(hunch::DraftModel<early_contexts<eagle_model>, float>);
static_assert(hunch::RoutedModel<early_contexts<eagle_model>>);
static_assert(hunch::rereads_accepted<early_contexts<eagle_model>>);

}  // namespace engine
