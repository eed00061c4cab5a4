// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/draft_head.hpp>
#include <engine/features.hpp>
#include <engine/kv_cache.hpp>
#include <engine/model.hpp>
#include <engine/multiply.hpp>
#include <engine/named_model.hpp>
#include <engine/rope.hpp>
#include <engine/sequences.hpp>
#include <engine/stream_weights.hpp>
#include <engine/thread_pool.hpp>
#include <engine/weights.hpp>
#include <engine/work_shares.hpp>

/// \file
/// What is after a `model`, for the model itself and for those that draft with parts of it.

namespace engine {

/// What a pass leaves for its caller.
struct pass_result {
  pass_plan plan;
  int hidden_size = 0;
  int hidden_stride = 0;
  int first_logit = 0;
  int end_of_logits = 0;
  int logits_stride = 0;
  aligned_buffer<float> hidden;   ///< [outputs, hidden_stride]
  aligned_buffer<float> logits;   ///< [outputs, logits_stride]
  aligned_buffer<float> streams;  ///< [outputs, streams, hidden_stride]

  /// The output of a row of the pass. \throws std::out_of_range if it has none.
  std::size_t output(std::int32_t row) const {
    const int index =
        row >= 0 && row < plan.tokens() ? plan.rows[static_cast<std::size_t>(row)].output : -1;
    if (index < 0) {
      throw std::out_of_range("engine::model: row " + std::to_string(row) + " has no output");
    }
    return static_cast<std::size_t>(index);
  }
};

/// The part of [0, count) that is thread `thread`'s.
struct share {
  int begin;
  int end;

  share(int count, int thread, int threads)
      : begin{count * thread / threads}, end{count * (thread + 1) / threads} {}
};

/// Buffers of a pass; they grow to the largest pass and stay.
struct workspace {
  aligned_buffer<float> residual;     ///< [rows, hidden]
  aligned_buffer<float> projections;  ///< [rows, query, key, value]
  aligned_buffer<float> mixed;        ///< [rows, heads * head_dim]
  aligned_buffer<float> gates;        ///< [rows, 2 * intermediate]
  aligned_buffer<float> products;     ///< [rows, intermediate]
  aligned_buffer<float> joined;       ///< [rows, 2 * hidden] what a head's layers begin with
  aligned_buffer<float> before;       ///< likewise, of rows that are not staged yet
  aligned_buffer<float> features;     ///< [rows, feature_width] of an EAGLE-3 head: the target's
  aligned_buffer<float> kept;         ///< [rows, hidden] residuals before layer `kept_before`
  /// [rows] of a head over canvases: what a row begins with instead of what `joined` makes, or
  /// nullptr.
  std::vector<const float*> given;
  /// What only one thread uses.
  struct per_thread {
    aligned_buffer<float> normed;           ///< [rows, hidden]
    aligned_buffer<std::byte> activations;  ///< [rows, the widest input]
    aligned_buffer<float> query;            ///< [attention_queries, head_dim]
    aligned_buffer<float> scores;
  };
  std::vector<per_thread> threads;
};

/// The cache of another model, whose keys and values a head's layers read before those of their own
/// rows. The latter go to its free positions.
struct lent_cache {
  kv_cache* of = nullptr;
  std::vector<int> layers;  ///< of the other model: the one that each layer reads
};

struct model::implementation : named_model {
  /// \param features_of the target of an EAGLE head.
  /// \param copied the model of which this is a copy, in whose cache it stages its rows.
  /// \param from the cache that a head over canvases reads; its rows begin with what the caller
  /// puts
  ///        into `space.joined` and `space.given`.
  implementation(const config& c, const checkpoint& source, const model_options& options,
                 implementation* features_of = nullptr, kv_layers own = {}, lent_cache from = {},
                 implementation* copied = nullptr);

  /// Runs layers [0, last) over rows that are staged for them, then finish(thread) on every thread:
  /// row i of the plan is row i of the residual then. Rows whose first layers a view has computed
  /// begin after them.
  template <class Finish>
  void run(const pass_plan& plan, int last, const Finish& finish);

  /// Runs the rows of `span` through its layers, then finish(thread) on every thread. There is room
  /// for them: of `reserve_rows`, and of their staged keys and values.
  template <class Finish>
  void run_span(const pass_plan& plan, const Finish& finish);

  /// Room for a pass of `rows` rows.
  void reserve_rows(std::size_t rows);

  /// Of an EAGLE head: what its layers will begin with, before a pass over these rows.
  hunch::context_rows inputs_of(const hunch::rows& rows);

  /// Stages rows and runs all layers, to `result`.
  void run(const hunch::rows& rows, bool with_head);

  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;
  /// The tokens of the head's rows as they are in the checkpoint.
  hunch::vocab_layout own_order() const;
  /// That of its weights; computed when it is first asked for.
  std::uint64_t head_fingerprint();
  /// What `load` checks of a head that drafts with the embedding and the head of this model.
  /// \throws std::runtime_error if its config is of another target, or its head another one.
  void check_head(const std::filesystem::path& config_file, implementation& head);
  /// The head over shortlists; in token order if it was given no layout.
  draft_head& listed_head();
  /// `listed_head` over outputs of a pass.
  void head(const pass_result& of, const hunch::head_rows<float>& rows);

  /// Room for hidden states and logits of `outputs` outputs.
  void reserve_outputs(std::size_t outputs);
  /// The logits of so many hidden states of `result`, as far as they are `thread`'s.
  void write_logits(int outputs, int thread);

  /// Room for `activations` of `rows` rows.
  void reserve_activations(int rows, int inputs);
  /// Rows of floats as inputs of a product: as they are, or in the form that the arithmetic reads.
  activation_view activations(const float* from, int stride, int inputs, int rows, int thread);
  /// The outputs of a product that are `thread`'s.
  void apply(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t stride, int rows,
             into mode, int thread);
  /// All outputs of a product, as `shares` divides them. Calls then(first, last) for the outputs
  /// that this thread has made.
  template <class Then>
  void apply_shared(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t stride,
                    int rows, into mode, int thread, const Then& then) {
    apply_blocks(0, w.blocks(), w, x, y, stride, rows, mode, thread, then);
  }
  /// The same of the blocks [begin, end).
  template <class Then>
  void apply_blocks(int begin, int end, const packed_matrix& w, activation_view x, float* y,
                    std::ptrdiff_t stride, int rows, into mode, int thread, const Then& then) {
    shares.take(thread, end - begin, [&](int first, int last) {
      multiply(w, x, y, stride, rows, mode, begin + first, begin + last);
      then((begin + first) * outputs_per_block, (begin + last) * outputs_per_block);
    });
  }
  void apply_shared(const packed_matrix& w, activation_view x, float* y, std::ptrdiff_t stride,
                    int rows, into mode, int thread) {
    apply_shared(w, x, y, stride, rows, mode, thread, [](int, int) {});
  }

  workspace::per_thread& own(int thread) { return space.threads[static_cast<std::size_t>(thread)]; }
  float* residual(int row) {
    return space.residual.data() + static_cast<std::ptrdiff_t>(row) * hidden_stride;
  }
  share part(int count, int thread) const { return {count, thread, pool.size()}; }

  const config shape;
  const arithmetic kind;
  const int context;
  thread_pool pool;
  work_shares shares;
  model_weights weights;
  rope rotary;
  sequences own_slots;
  kv_cache own_cache;
  sequences& slots;  ///< those of the model that this is a copy of, or its own
  kv_cache& cache;
  const bool is_copy;  ///< nothing that it computes of a row is the model's
  const lent_cache lent;
  features own_features;
  features partial;              ///< residuals of staged rows that did not go through all layers
  implementation* const target;  ///< of an EAGLE head, else nullptr
  const int query_size;
  const int key_value_size;
  const int hidden_stride;
  const int projection_stride;
  const int mixed_stride;
  const int product_stride;
  const int joined_stride;                ///< 0 unless its layers begin with features
  const std::vector<int> feature_layers;  ///< whose inputs are kept; none: the last state is
  std::uint64_t layer_rows = 0;
  int kept_before = -1;  ///< the layer before which the residuals of a pass are kept; -1: none
  int kept_for = 0;      ///< heads that read them
  std::optional<draft_head> shortlist_head;
  std::optional<hunch::vocab_layout> head_tokens;  ///< of a head over a part of the vocabulary
  std::uint64_t fingerprint = 0;                   ///< of the head's weights; 0: not computed yet
  std::vector<std::int32_t> head_outputs;          ///< of the rows that a head is asked for
  stream_weights* streams = nullptr;               ///< while there are any
  workspace space;
  layer_span span;
  pass_result result;

 private:
  void reserve(const pass_plan& plan, int last);
  void go_through(const pass_plan& plan, int thread);
  void begin(const pass_plan& plan, int thread);
  void leave(const pass_plan& plan, int thread);
  void stage_streams(int asked);
  void begin_streams(const pass_plan& plan, int thread);
  /// Adds what an adapter makes of the rows of streams, from `x` [rows, stride] to `y`.
  void adapt(const adapter& of, const float* x, int stride, float* y, std::ptrdiff_t y_stride,
             int thread);
  const stream_weights::layer* adapters(int layer) const;
  /// What a row of an EAGLE head knows of the token before it: nothing, what the target has made of
  /// it, or the head.
  struct feature {
    const float* state = nullptr;
    bool is_own = false;
  };
  feature feature_before(int slot, int position, int parent);
  feature feature_of(const planned_row& row);
  void put_features(int thread);
  void norm_features(float* features) const;
  void keep_layer_inputs(const pass_plan& plan, int which, int thread);
  void keep_last_states(int thread);
  void keep_norm(const layer_weights& layer, int thread);
  /// The state of a row after the last layer, and its norm if there is one.
  void last_state(const float* residual, float* out) const;
  void put_input(hunch::token token, const float* feature, float* out) const;
  /// Makes rows of an EAGLE head of what they begin with, `stride` floats a row.
  void join(const float* from, int stride, int thread);
  void put_given(int thread);
  void keep_residuals(int thread);
  void put_joined(int thread);
  void normalise(const std::vector<float>& weight, int thread);
  /// What the attention of a layer reads of the rows.
  activation_view attention_inputs(const layer_weights& layer, int thread);
  void add_bias(const std::vector<float>& bias, float* y, int stride, int first, int last);
  void attend_all(const pass_plan& plan, int layer, int thread);
  void attend_groups(const pass_plan& plan, int layer, int first, int last, int thread);
  void attend_group(const pass_plan& plan, int layer, int head, const row_group& group, int thread);
  void feed_forward(const layer_weights& layer, const stream_weights::layer* more, int thread);
  void finish(bool with_head, int thread);

  const planned_row& planned(const pass_plan& plan, int i) const {
    return plan.rows[static_cast<std::size_t>(span.rows[static_cast<std::size_t>(i)].row)];
  }
  int row_count() const { return static_cast<int>(span.rows.size()); }
};

template <class Finish>
void model::implementation::run(const pass_plan& plan, int last, const Finish& finish) {
  if (plan.rows.empty()) { return; }
  reserve(plan, last);
  for (int first = 0; first < last; first = span.last) {
    slots.plan_layers(plan, first, last, span);
    if (span.rows.empty()) { continue; }
    run_span(plan, [&](int thread) {
      if (span.last == last) { finish(thread); }
    });
    if (!is_copy) { slots.went_through(plan, span); }
  }
}

template <class Finish>
void model::implementation::run_span(const pass_plan& plan, const Finish& finish) {
  auto body = [&](int thread) {
    go_through(plan, thread);
    finish(thread);
  };
  pool.run(body);
  layer_rows += span.rows.size() * static_cast<std::size_t>(span.last - span.first);
}

}  // namespace engine
