// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/model/branch_plan.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>

#include "handles.hpp"

namespace llama_cpp {

/// What the context of a model is made for.
struct model_options {
  std::int32_t max_batch = 1;     ///< of the decoder
  std::int32_t cells = 1024;      ///< tokens that each sequence has room for, drafted ones included
  std::int32_t max_rows = 320;    ///< of a pass: max_batch * (chunk + nodes of a draft) or more
  std::int32_t max_wanted = 320;  ///< of these with logits: max_batch * nodes of a draft or more
  std::int32_t threads = 1;
};

/// hunch's rows in a `llama_context`: stages them, decodes them, and edits the cache before the
/// next pass, see `hunch::branch_plan`. Each sequence has cells of its own, so that one without
/// room takes none of another's.
/// \tparam Branches `hunch::max_branches` of the tree that is drafted; 1 for a chain.
template <std::int32_t Branches>
class passes {
 public:
  /// \param observe what llama.cpp calls for the nodes of its graph, see `llama_context_params`.
  /// \throws std::invalid_argument for more sequence ids than llama.cpp has, or a model with an
  ///         encoder, which `llama_decode` does not run; std::runtime_error if it makes no context.
  passes(weights from, const model_options& o, ggml_backend_sched_eval_callback observe = nullptr,
         void* observer = nullptr)
      : weights_(std::move(from)),
        plan_(o.max_batch, o.max_rows, o.max_rows),
        cells_(o.cells),
        max_outputs_(std::max(o.max_wanted, plan_.sequence_count())),  // llama.cpp has one for each
        row_of_(size(o.max_rows)),
        index_(size(o.max_rows)),
        statuses_(size(o.max_rows)),
        tokens_(size(o.max_rows)),
        positions_(size(o.max_rows)),
        id_counts_(size(o.max_rows)),
        ids_(size(o.max_rows)),
        outputs_(size(o.max_rows)) {
    if (size(plan_.sequence_count()) > llama_max_parallel_sequences()) {
      throw std::invalid_argument("llama_cpp: " + std::to_string(plan_.sequence_count()) +
                                  " sequence ids, and llama.cpp has " +
                                  std::to_string(llama_max_parallel_sequences()) +
                                  ": lower the batch, or draft chains");
    }
    if (llama_model_has_encoder(weights_.get())) {
      throw std::invalid_argument(weights_.path() + ": a model with an encoder");
    }
    llama_context_params p = llama_context_default_params();
    p.n_ctx = static_cast<std::uint32_t>(o.max_batch * o.cells);
    p.n_batch = p.n_ubatch = static_cast<std::uint32_t>(o.max_rows);  // a pass is computed at once
    p.n_outputs_max = static_cast<std::uint32_t>(max_outputs_);
    p.n_seq_max = static_cast<std::uint32_t>(plan_.sequence_count());
    p.kv_unified = true;  // branches share the cells of what is above them
    p.n_threads = p.n_threads_batch = o.threads;
    p.cb_eval = observe;
    p.cb_eval_user_data = observer;
    p.no_perf = true;
    context_.reset(llama_init_from_model(weights_.get(), p));
    if (context_ == nullptr) {
      throw std::runtime_error(weights_.path() + ": llama.cpp makes no context for it");
    }
  }

  const weights& of() const { return weights_; }
  llama_context* context() const { return context_.get(); }
  hunch::status status(std::int32_t row) const { return statuses_[size(row)]; }
  /// Where a row of the last pass is in llama.cpp's batch, and back.
  std::int32_t index(std::int32_t row) const { return index_[size(row)]; }
  std::int32_t row_of(std::int32_t index) const { return row_of_[size(index)]; }
  bool has_output(std::int32_t index) const { return outputs_[size(index)] != 0; }
  std::int32_t count() const { return count_; }  ///< rows of the last pass that were computed
  std::int32_t outputs() const { return output_count_; }  ///< and of these, with an output
  double seconds() const { return seconds_; }             ///< in `llama_decode`, of all passes

  /// One `llama_decode`. \throws std::runtime_error if that fails; std::length_error for more rows
  /// with an output than the context is made for, at which llama.cpp would end the process.
  void evaluate(const hunch::rows& asked) {
    plan_.stage(asked);
    settle();
    count_ = output_count_ = 0;
    for (std::int32_t i = 0; i < asked.size; ++i) {
      // Staged rows have the cells behind those of the committed text, whatever their positions.
      const bool fits = plan_.length(asked.slot[i]) + asked.id[i] < cells_;
      statuses_[size(i)] = fits ? hunch::status::ok : hunch::status::cache_full;
      if (fits) { push(asked, i); }
    }
    if (count_ == 0) { return; }
    const auto begin = std::chrono::steady_clock::now();
    const std::int32_t failed =
        llama_decode(context_.get(), {count_, tokens_.data(), nullptr, positions_.data(),
                                      id_counts_.data(), ids_.data(), outputs_.data()});
    if (failed == 0) { llama_synchronize(context_.get()); }
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (failed == 1) {  // no room, and nothing was changed
      statuses_.assign(statuses_.size(), hunch::status::cache_full);
    } else if (failed != 0) {
      throw std::runtime_error(weights_.path() + ": llama_decode: " + std::to_string(failed));
    }
  }

  void commit(const hunch::kept_rows& kept) noexcept { plan_.keep(kept); }

  /// Makes the edits that `commit` has noted: before a pass, or for who wants to look at the cache.
  void settle() {
    const llama_memory_t memory = llama_get_memory(context_.get());
    for (const hunch::cache_edit& e : plan_.edits()) {
      if (!e.removes()) {
        llama_memory_seq_cp(memory, e.source, e.sequence, e.first, e.last);
      } else if (!llama_memory_seq_rm(memory, e.sequence, e.first, -1)) {
        throw std::runtime_error(
            weights_.path() +
            ": its cache cannot drop the end of a sequence, such as a recurrent model's");
      }
    }
    plan_.edited();
  }

 private:
  static std::size_t size(std::int32_t n) { return static_cast<std::size_t>(n); }

  void push(const hunch::rows& asked, std::int32_t row) {
    const auto sequences = plan_.sequences(row);
    const std::size_t i = size(count_);
    index_[size(row)] = count_++;
    row_of_[i] = row;
    tokens_[i] = asked.tokens[row];
    positions_[i] = asked.position[row];
    id_counts_[i] = static_cast<std::int32_t>(sequences.size());
    ids_[i] = const_cast<llama_seq_id*>(sequences.data());  // llama_batch has no const; it is read
    outputs_[i] = static_cast<std::int8_t>(asked.wanted[row]);
    output_count_ += outputs_[i] != 0 ? 1 : 0;
    if (output_count_ > max_outputs_) {
      throw std::length_error("llama_cpp: more than " + std::to_string(max_outputs_) +
                              " rows of a pass are wanted, see max_wanted");
    }
  }

  weights weights_;
  hunch::branch_plan<Branches> plan_;
  std::unique_ptr<llama_context, detail::free_context> context_;
  std::int32_t cells_;
  std::int32_t max_outputs_;
  std::int32_t count_ = 0;
  std::int32_t output_count_ = 0;
  double seconds_ = 0.0;
  std::vector<std::int32_t> row_of_;
  std::vector<std::int32_t> index_;
  std::vector<hunch::status> statuses_;
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> id_counts_;
  std::vector<llama_seq_id*> ids_;
  std::vector<std::int8_t> outputs_;
};

/// A model of llama.cpp as a target. llama.cpp writes the logits of a pass over those of the pass
/// before, so that it does not say `keeps_logits`. As a draft model: `hunch::full_logits{model}`.
template <std::int32_t Branches = 1>
class model {
 public:
  model(weights from, const model_options& options) : passes_(std::move(from), options) {}

  struct evaluation {
    const passes<Branches>* of;
    hunch::status status(std::int32_t i) const { return of->status(i); }
    hunch::row_view<float> logits(std::int32_t i) const {
      return {llama_get_logits_ith(of->context(), of->index(i)), of->of().vocab_size()};
    }
  };

  std::int32_t vocab_size() const { return passes_.of().vocab_size(); }
  evaluation evaluate(const hunch::rows& asked) {
    passes_.evaluate(asked);
    return {&passes_};
  }
  void commit(const hunch::kept_rows& kept) noexcept { passes_.commit(kept); }

  passes<Branches>& rows() { return passes_; }

 private:
  passes<Branches> passes_;
};

static_assert(hunch::TargetModel<model<>>);

}  // namespace llama_cpp
