// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/decoder/generation.hpp>
#include <hunch/decoder/ring.hpp>
#include <hunch/decoder/sequence.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/owned_arrays.hpp>
#include <hunch/sampler/sampler.hpp>
#include <hunch/team/team.hpp>

/// \file
/// How requests come into a step: the host writes each into the message of a free slot, and a body
/// takes it from there, at once or while a loop goes on.

namespace hunch {

/// A request as the host has written it.
struct arrival {
  sequence begins;                   ///< with the addresses of its slot
  const token* prompt = nullptr;     ///< [begins.length]
  const logit_bias* bias = nullptr;  ///< [begins.parameters.bias_count]
  const token* stops = nullptr;      ///< [begins.stop_count]
};

/// The messages of all slots, as bodies see them. A trivially copyable view.
struct inbox_view {
  sequence* all = nullptr;       ///< [max_batch] where requests go
  arrival* arrivals = nullptr;   ///< [max_batch] by the host
  std::int64_t* sent = nullptr;  ///< [max_batch] requests so far, by the host, which writes it last
  std::int64_t* cancel = nullptr;  ///< [max_batch] the request that is to end, by the host
  std::int64_t* seen = nullptr;    ///< [max_batch] `sent` when the step last looked
  std::int64_t* ended = nullptr;   ///< [max_batch] `cancel`, likewise
  std::int64_t* taken = nullptr;   ///< [max_batch] requests that became sequences
  std::int32_t vocab_size = 0;

  /// What the host has said to a slot.
  struct words {
    std::int64_t sent;
    std::int64_t cancel;
  };
  /// Asks for it: what it stands for is there after `kernel::order_shared`.
  HUNCH_HOST_DEVICE words said(std::int32_t slot) const {
    return {kernel::load_shared(sent + slot), kernel::load_shared(cancel + slot)};
  }
  /// Notes it. By one rank.
  HUNCH_HOST_DEVICE void note(std::int32_t slot, const words& w) const {
    seen[slot] = w.sent;
    ended[slot] = w.cancel;
  }
  /// Whether a request was seen that is no sequence yet.
  HUNCH_HOST_DEVICE bool waits(std::int32_t slot) const { return seen[slot] != taken[slot]; }
  HUNCH_HOST_DEVICE bool is_cancelled(std::int32_t slot) const {
    return all[slot].runs() && static_cast<std::int64_t>(all[slot].id) == ended[slot];
  }

  /// Makes a sequence of the request that waits for a slot, if one does. Collective.
  /// \tparam Counts false where no sampler asks which tokens occur.
  template <bool Counts = true, Team T>
  HUNCH_HOST_DEVICE void admit(T& team, std::int32_t slot) const {
    const bool here = waits(slot);
    team.sync();  // all ranks have seen it
    if (!here) { return; }
    const arrival a = arrivals[slot];
    sequence s = a.begins;
    auto* const bias = const_cast<logit_bias*>(s.parameters.bias);
    auto* const stops = const_cast<token*>(s.stops);
    team.for_each(s.length, [=](std::int64_t i) { s.text[i] = a.prompt[i]; });
    team.for_each(s.parameters.bias_count, [=](std::int64_t i) { bias[i] = a.bias[i]; });
    team.for_each(s.stop_count, [=](std::int64_t i) { stops[i] = a.stops[i]; });
    if constexpr (Counts) { s.census.begin(team, vocab_size, a.prompt, s.length); }
    if (team.rank() != 0) { return; }
    all[slot] = s;
    taken[slot] = seen[slot];
  }
};

/// Looks at the messages of slot `slot` and takes what is there.
struct take_arrivals {
  inbox_view from;
  std::int32_t first = 0;  ///< slot of index 0

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t slot = first + index;
    if (team.rank() == 0) {
      const inbox_view::words said = from.said(slot);
      kernel::order_shared();
      from.note(slot, said);
    }
    team.sync();
    from.admit(team, slot);
  }
};

/// Bounds the drafts of slot `slot`.
struct bound_drafts {
  sequence* all;
  std::int32_t slot;
  std::int32_t length;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t) const {
    if (team.rank() == 0) { all[slot].draft_length = length; }
  }
};

/// What a slot has room for.
struct sequence_room {
  std::size_t tokens = 0;  ///< prompt and answer
  std::size_t bias = 0;
  std::size_t stops = 0;
};

/// Owns the sequences of a step, their texts, and the messages that they come by.
/// \tparam M the memory of a step, see `step_memory`.
template <class M>
class inbox {
 public:
  /// \param counts whether the sampler asks which tokens occur.
  inbox(M& memory, std::int32_t max_batch, std::int32_t vocab_size, bool counts)
      : counts_(counts), owned_(memory), slots_(index(max_batch)) {
    view_.vocab_size = vocab_size;
    owned_.give(max_batch, view_.all, view_.seen, view_.ended, view_.taken);
    owned_.give_host_written(max_batch, view_.arrivals, view_.sent, view_.cancel);
    std::fill_n(view_.sent, max_batch, 0);
    std::fill_n(view_.cancel, max_batch, 0);
    memory.launch(max_batch, clear_slots{view_.all});
    for (std::int64_t* of : {view_.seen, view_.ended, view_.taken}) {
      memory.launch(max_batch, clear_slots{of});
    }
  }

  /// Gives a slot as much room, if it has less. Allocates; not while bodies may use the slot.
  void reserve(M& memory, std::int32_t slot, const sequence_room& room) {
    places& of = slots_[index(slot)];
    of.text.reserve(memory, room.tokens);
    of.bias.reserve(memory, room.bias);
    of.stops.reserve(memory, room.stops);
    if (!counts_) { return; }
    const std::size_t different = std::min(room.tokens, index(view_.vocab_size));
    of.occurring.reserve(memory, different);
    of.emitted.reserve(memory, different);
    of.index.reserve(memory, index(view_.vocab_size));
  }

  /// Writes a request that has room to a slot that no step uses. Allocates nothing, does not wait:
  /// a step that looks from now on takes it.
  void put(std::int32_t slot, request_id id, std::span<const token> prompt,
           const generation_options& options) {
    places& of = slots_[index(slot)];
    arrival a;
    a.prompt = of.text.write(prompt);
    a.bias = of.bias.write(options.bias);
    a.stops = of.stops.write(options.stop_tokens);
    sequence& s = a.begins;
    s.id = id;
    s.length = static_cast<std::int32_t>(prompt.size());
    s.remaining = options.max_new_tokens;
    s.log_probabilities = options.log_probabilities.value_or(-1);
    s.seed = options.seed;
    s.parameters = options.sampling();
    s.parameters.bias = options.bias.empty() ? nullptr : of.bias.body();
    s.text = of.text.body();
    s.stops = of.stops.body();
    s.stop_count = static_cast<std::int32_t>(options.stop_tokens.size());
    s.census = {.size = 0,
                .tokens = of.occurring.body(),
                .emitted = of.emitted.body(),
                .index = of.index.body()};
    view_.arrivals[slot] = a;
    kernel::store_release(view_.sent + slot, view_.sent[slot] + 1);
  }

  /// Asks the step that looks next to end a request.
  void cancel(std::int32_t slot, request_id id) {
    kernel::store_release(view_.cancel + slot, static_cast<std::int64_t>(id));
  }

  const inbox_view& view() const { return view_; }

 private:
  template <class T>
  using buffer = typename M::template buffer<T>;

  /// An array that bodies use, and what the host writes of it: both grow between requests.
  template <class T, bool Written>
  class room {
   public:
    void reserve(M& memory, std::size_t n) {
      if (n <= size_) { return; }
      size_ = 0;  // an allocation may fail
      body_ = std::make_unique<buffer<T>>(memory, n);
      if constexpr (Written) { message_ = std::make_unique<host_written<M, T>>(memory, n); }
      size_ = n;
    }
    T* body() const { return body_ == nullptr ? nullptr : body_->data(); }
    const T* write(std::span<const T> values) requires(Written) {
      if (values.empty()) { return nullptr; }
      std::ranges::copy(values, message_->data());
      return message_->data();
    }

   private:
    std::size_t size_ = 0;
    std::unique_ptr<buffer<T>> body_;
    std::unique_ptr<host_written<M, T>> message_;
  };

  struct places {
    room<token, true> text;
    room<logit_bias, true> bias;
    room<token, true> stops;
    room<token, false> occurring;
    room<std::int32_t, false> emitted;
    room<std::int32_t, false> index;
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

  bool counts_;
  owned_arrays<M> owned_;
  inbox_view view_;
  std::vector<places> slots_;
};

}  // namespace hunch
