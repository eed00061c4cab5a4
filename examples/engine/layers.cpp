// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/attention.hpp>
#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

/// \file
/// Rows through the layers of a model.

namespace engine {

void model::implementation::reserve_activations(int rows, int inputs) {
  if (!converts_activations(kind)) { return; }
  for (auto& own : space.threads) {
    own.activations.grow(static_cast<std::size_t>(rows) * activation_bytes(kind, inputs));
  }
}

void model::implementation::reserve_rows(std::size_t rows) {
  const auto grow = [rows](aligned_buffer<float>& buffer, int stride) {
    buffer.grow(rows * static_cast<std::size_t>(stride));
  };
  grow(space.residual, hidden_stride);
  grow(space.projections, projection_stride);
  grow(space.mixed, mixed_stride);
  grow(space.gates, 2 * product_stride);
  grow(space.products, product_stride);
  for (auto& own : space.threads) {
    grow(own.normed, shape.eagle.reads_both ? joined_stride : hidden_stride);
  }
  grow(space.joined, joined_stride);
  if (shape.eagle.reads_both) { grow(space.features, shape.eagle.feature_width); }
  if (kept_before >= 0) { grow(space.kept, hidden_stride); }
  reserve_activations(static_cast<int>(rows), std::max({hidden_stride, mixed_stride, product_stride,
                                                        joined_stride, shape.eagle.feature_width}));
}

void model::implementation::reserve(const pass_plan& plan, int last) {
  reserve_rows(plan.rows.size());
  const bool parts = last < shape.layers || std::any_of(plan.rows.begin(), plan.rows.end(),
                                                        [](auto& row) { return row.layers > 0; });
  for (const planned_row& row : plan.rows) {
    const int staged = slots.staged_count(row.slot);
    cache.reserve_staged(row.slot, staged);
    own_features.reserve_staged(row.slot, staged);
    if (parts) { partial.reserve_staged(row.slot, staged); }
  }
}

void model::implementation::run(const hunch::rows& rows, bool with_head) {
  const int asked = with_head ? rows.streams : 0;
  if (asked > (streams == nullptr ? 0 : streams->shape.streams)) {
    throw std::invalid_argument("engine::model: " + std::to_string(asked) +
                                " streams are asked for, and the model has " +
                                std::to_string(streams == nullptr ? 0 : streams->shape.streams));
  }
  // A row that went through no layer of the model is computed anew when the model evaluates it.
  slots.stage(rows, is_copy ? 0 : shape.layers, result.plan);
  if (asked > 0) { stage_streams(asked); }
  const auto grow = [](aligned_buffer<float>& buffer, std::size_t count, int stride) {
    buffer.grow(count * static_cast<std::size_t>(stride));
  };
  grow(result.hidden, result.plan.output_rows.size(), hidden_stride);
  if (with_head) { grow(result.logits, result.plan.output_rows.size(), result.logits_stride); }
  run(result.plan, shape.layers, [this, with_head](int thread) { finish(with_head, thread); });
}

/// Streams beside the outputs of the pass, and room for them.
void model::implementation::stage_streams(int asked) {
  const int first = shape.layers - streams->shape.layers;
  for (const planned_row& row : result.plan.rows) {
    if (row.layers > first) {
      throw std::invalid_argument("engine::model: streams begin after layer " +
                                  std::to_string(first) + ", and a view has read rows through " +
                                  std::to_string(row.layers));
    }
  }
  slots.stage_streams(asked, first, result.plan);
  const std::size_t outputs = result.plan.output_rows.size();
  const std::size_t rows = outputs * static_cast<std::size_t>(asked);
  const auto grow = [](aligned_buffer<float>& buffer, std::size_t count, int stride) {
    buffer.grow(count * static_cast<std::size_t>(stride));
  };
  grow(result.streams, rows, hidden_stride);
  grow(streams->normed, outputs, hidden_stride);
  grow(streams->inner, std::max(rows, outputs), streams->rank_stride);
  grow(streams->begun, outputs, streams->up.packed.outputs());
  reserve_activations(static_cast<int>(rows), streams->rank_stride);
}

/// The rows of `span` through its layers, on every thread. Each owns its outputs of every product
/// and its key-value heads; norms are cheap, so that every thread computes all of them and needs no
/// barrier.
void model::implementation::go_through(const pass_plan& plan, int thread) {
  const int rows = row_count();
  begin(plan, thread);
  pool.barrier();
  for (int l = span.first; l < span.last; ++l) {
    const layer_weights& layer = weights.layers()[static_cast<std::size_t>(l)];
    if (l == kept_before) { keep_residuals(thread); }
    for (std::size_t k = 0; k < feature_layers.size(); ++k) {
      if (l == feature_layers[k]) { keep_layer_inputs(plan, static_cast<int>(k), thread); }
    }
    apply_shared(layer.query_key_value, attention_inputs(layer, thread), space.projections.data(),
                 projection_stride, rows, into::overwrite, thread, [&](int first, int last) {
                   add_bias(layer.query_key_value_bias, space.projections.data(), projection_stride,
                            first, last);
                 });
    const stream_weights::layer* const more = adapters(l);
    if (more != nullptr) {
      adapt(more->query_key_value, own(thread).normed.data(), hidden_stride,
            space.projections.data(), projection_stride, thread);
    }
    pool.barrier();
    if (shape.eagle.keeps_norm) { keep_norm(layer, thread); }
    attend_all(plan, l, thread);
    pool.barrier();
    apply_shared(layer.output,
                 activations(space.mixed.data(), mixed_stride, query_size, rows, thread),
                 space.residual.data(), hidden_stride, rows, into::add, thread);
    if (more != nullptr) {
      adapt(more->output, space.mixed.data(), mixed_stride, space.residual.data(), hidden_stride,
            thread);
    }
    pool.barrier();
    feed_forward(layer, more, thread);
    pool.barrier();
  }
  if (span.last < shape.layers) { leave(plan, thread); }
}

/// What the rows bring to the first layer of `span`.
void model::implementation::begin(const pass_plan& plan, int thread) {
  if (shape.eagle.reads_both) { return put_features(thread); }
  if (span.first == 0 && joined_stride > 0) {
    if (target != nullptr) {
      put_joined(thread);
      pool.barrier();
    }
    join(space.joined.data(), joined_stride, thread);
    if (!space.given.empty()) {
      pool.barrier();
      put_given(thread);
    }
    return;
  }
  const bool streams_begin = row_count() > span.tokens && plan.rows.back().layers == span.first;
  const int loaded = streams_begin ? span.tokens : row_count();
  const share mine = part(loaded, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = planned(plan, i);
    if (span.first == 0) {
      weights.embed(row.token, residual(i));
    } else {
      std::copy_n(partial.staged(row.slot, row.staged), shape.hidden, residual(i));
    }
  }
  if (streams_begin) {
    pool.barrier();
    begin_streams(plan, thread);
  }
}

/// Keeps the residuals, for the layers after `span`.
void model::implementation::leave(const pass_plan& plan, int thread) {
  const share mine = part(row_count(), thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = planned(plan, i);
    std::copy_n(residual(i), shape.hidden, partial.staged(row.slot, row.staged));
  }
}

/// Of an EAGLE head: the last hidden state of the token before a row, or nullptr if there is none:
/// the target's where it has read that token, else the head's own. \param parent the staged index
/// of the row of that token, or -1.
model::implementation::feature model::implementation::feature_before(int slot, int position,
                                                                     int parent) {
  const int before = position - 1;
  if (before < 0) { return {}; }
  if (before < target->slots.length(slot)) {
    return {target->own_features.cached(slot, before), false};
  }
  return parent < 0 ? feature{} : feature{own_features.staged(slot, parent), true};
}

model::implementation::feature model::implementation::feature_of(const planned_row& row) {
  if (row.status != hunch::status::ok) { return {}; }
  return feature_before(row.slot, row.position, slots.parent(row.slot, row.staged));
}

/// What a row of an EAGLE head begins with: its embedding, and the feature before it.
void model::implementation::put_input(hunch::token token, const float* feature, float* out) const {
  weights.embed(token, out);
  if (feature == nullptr) {
    std::fill_n(out + shape.hidden, shape.hidden, 0.0f);
  } else {
    std::copy_n(feature, shape.hidden, out + shape.hidden);
  }
  if (!shape.eagle.norms_inputs) { return; }
  for (const auto& [part, norm] :
       {std::pair{out, &weights.embedding_norm()}, {out + shape.hidden, &weights.state_norm()}}) {
    rms_norm(part, norm->data(), shape.hidden, shape.norm_epsilon, part);
  }
}

hunch::context_rows model::implementation::inputs_of(const hunch::rows& rows) {
  if (shape.eagle.reads_both) {
    throw std::invalid_argument("engine::eagle_model: " + origin +
                                " is an EAGLE-3 head, whose rows begin with a product: it has no "
                                "contexts for routers before its pass");
  }
  slots.check(rows, shape.layers);
  const auto stride = static_cast<std::size_t>(joined_stride);
  space.before.grow(static_cast<std::size_t>(rows.size) * stride);
  int first = 0;
  for (int i = 0; i < rows.size; ++i) {
    const int slot = rows.slot[i];
    if (slot != rows.slot[first]) { first = i; }
    // Ids ascend: a parent from the first one on is of the same pass, and has no feature yet.
    const bool was_staged = rows.parent[i] < rows.id[first];
    const int parent = was_staged ? slots.staged_index(slot, rows.parent[i], shape.layers) : -1;
    put_input(rows.tokens[i], feature_before(slot, rows.position[i], parent).state,
              space.before.data() + static_cast<std::size_t>(i) * stride);
  }
  return {space.before.data(), joined_stride};
}

void model::implementation::put_joined(int thread) {
  const share mine = part(static_cast<int>(result.plan.rows.size()), thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = result.plan.rows[static_cast<std::size_t>(i)];
    put_input(row.token, feature_of(row).state,
              space.joined.data() + static_cast<std::ptrdiff_t>(i) * joined_stride);
  }
}

/// Of an EAGLE-3 head: the norms of what it reads of its target, where it has some.
void model::implementation::norm_features(float* features) const {
  const int norms = shape.eagle.feature_norms;
  const int size = norms == 0 ? 0 : shape.eagle.feature_width / norms;
  for (int at = 0; at < norms * size; at += size) {
    rms_norm(features + at, weights.feature_norms().data() + at, size, shape.norm_epsilon,
             features + at);
  }
}

/// Of an EAGLE-3 head: the embeddings, for the attention, and the states that rows begin with.
void model::implementation::put_features(int thread) {
  const int rows = row_count();
  const int width = shape.eagle.feature_width;
  const share mine = part(rows, thread);
  const auto own_state = [&](int i) {
    const feature before = feature_of(planned(result.plan, i));
    return before.is_own ? before.state : nullptr;
  };
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = planned(result.plan, i);
    weights.embed(row.token, space.joined.data() + static_cast<std::ptrdiff_t>(i) * joined_stride);
    float* const out = space.features.data() + static_cast<std::ptrdiff_t>(i) * width;
    const feature before = feature_of(row);
    if (before.state != nullptr && !before.is_own) {
      std::copy_n(before.state, width, out);
      norm_features(out);
    } else {
      std::fill_n(out, width, 0.0f);
    }
  }
  pool.barrier();
  join(space.features.data(), width, thread);
  pool.barrier();
  for (int i = mine.begin; i < mine.end; ++i) {
    if (const float* const state = own_state(i)) { std::copy_n(state, shape.hidden, residual(i)); }
  }
}

void model::implementation::join(const float* from, int stride, int thread) {
  const int rows = row_count();
  apply_shared(weights.joint(), activations(from, stride, shape.joint_inputs(), rows, thread),
               space.residual.data(), hidden_stride, rows, into::overwrite, thread,
               [&](int first, int last) {
                 add_bias(weights.joint_bias(), space.residual.data(), hidden_stride, first, last);
               });
}

void model::implementation::put_given(int thread) {
  const share mine = part(row_count(), thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const float* const begins = space.given[static_cast<std::size_t>(i)];
    if (begins != nullptr) { std::copy_n(begins, shape.hidden, residual(i)); }
  }
}

void model::implementation::keep_residuals(int thread) {
  const share mine = part(row_count(), thread);
  std::copy(residual(mine.begin), residual(mine.end),
            space.kept.data() + static_cast<std::ptrdiff_t>(mine.begin) * hidden_stride);
}

void model::implementation::keep_layer_inputs(const pass_plan& plan, int which, int thread) {
  const share mine = part(std::min(span.tokens, row_count()), thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = planned(plan, i);
    if (row.status != hunch::status::ok) { continue; }
    std::copy_n(residual(i), hidden_stride,
                own_features.staged(row.slot, row.staged) + which * hidden_stride);
  }
}

/// Of an EAGLE-3 head: the residual is the state after its norm.
void model::implementation::keep_norm(const layer_weights& layer, int thread) {
  const share mine = part(row_count(), thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    rms_norm(residual(i), layer.attention_norm.data(), shape.hidden, shape.norm_epsilon,
             residual(i));
  }
}

activation_view model::implementation::attention_inputs(const layer_weights& layer, int thread) {
  float* const normed = own(thread).normed.data();
  if (shape.eagle.reads_both) {
    for (int i = 0; i < row_count(); ++i) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * joined_stride;
      rms_norm(space.joined.data() + at, weights.embedding_norm().data(), shape.hidden,
               shape.norm_epsilon, normed + at);
      rms_norm(residual(i), layer.attention_norm.data(), shape.hidden, shape.norm_epsilon,
               normed + at + shape.hidden);
    }
    return activations(normed, joined_stride, 2 * shape.hidden, row_count(), thread);
  }
  if (layer.attention_norm.empty()) {
    return activations(space.residual.data(), hidden_stride, shape.hidden, row_count(), thread);
  }
  normalise(layer.attention_norm, thread);
  return activations(normed, hidden_stride, shape.hidden, row_count(), thread);
}

void model::implementation::normalise(const std::vector<float>& weight, int thread) {
  for (int i = 0; i < row_count(); ++i) {
    rms_norm(residual(i), weight.data(), shape.hidden, shape.norm_epsilon,
             own(thread).normed.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
}

activation_view model::implementation::activations(const float* from, int stride, int inputs,
                                                   int rows, int thread) {
  if (!converts_activations(kind)) {
    auto* const bytes = reinterpret_cast<std::byte*>(const_cast<float*>(from));
    return {bytes, static_cast<std::size_t>(stride) * sizeof(float)};
  }
  const activation_view out{own(thread).activations.data(), activation_bytes(kind, inputs)};
  for (int i = 0; i < rows; ++i) {
    store_activations(kind, from + static_cast<std::ptrdiff_t>(i) * stride, stride, out.row(i));
  }
  return out;
}

void model::implementation::apply(const packed_matrix& w, activation_view x, float* y,
                                  std::ptrdiff_t stride, int rows, into mode, int thread) {
  const share mine = part(w.blocks(), thread);
  multiply(w, x, y, stride, rows, mode, mine.begin, mine.end);
}

/// Adds a bias, if there is one, to the outputs [first, last) of all rows.
void model::implementation::add_bias(const std::vector<float>& bias, float* y, int stride,
                                     int first, int last) {
  if (bias.empty()) { return; }
  last = std::min(last, stride);
  for (int i = 0; i < row_count(); ++i) {
    add_to(y + static_cast<std::ptrdiff_t>(i) * stride, bias.data(), first, last);
  }
}

void model::implementation::attend_all(const pass_plan& plan, int layer, int thread) {
  const auto groups = static_cast<int>(span.groups.size());
  attend_groups(plan, layer, 0, span.token_groups, thread);
  if (groups == span.token_groups) { return; }
  pool.barrier();  // streams read the rows beside them, and use the same free positions
  attend_groups(plan, layer, span.token_groups, groups, thread);
}

void model::implementation::attend_groups(const pass_plan& plan, int layer, int first, int last,
                                          int thread) {
  const int units = (last - first) * shape.kv_heads;
  for (int unit = thread; unit < units; unit += pool.size()) {
    attend_group(plan, layer, unit % shape.kv_heads,
                 span.groups[static_cast<std::size_t>(first + unit / shape.kv_heads)], thread);
  }
}

/// Stages keys and values of one key-value head for the rows of a sequence, all of them before any
/// row attends: what a row sees may come after it.
void model::implementation::attend_group(const pass_plan& plan, int layer, int head,
                                         const row_group& group, int thread) {
  kv_cache& kv = lent.of == nullptr ? cache : *lent.of;
  const int at = lent.of == nullptr ? layer : lent.layers[static_cast<std::size_t>(layer)];
  const int head_dim = shape.head_dim;
  const int shared = shape.heads / shape.kv_heads;
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  const layer_weights& of = weights.layers()[static_cast<std::size_t>(layer)];
  const auto projected = [&](int i) {
    return space.projections.data() + static_cast<std::ptrdiff_t>(i) * projection_stride;
  };
  for (int i = group.begin; i < group.end; ++i) {
    const planned_row& row = planned(plan, i);
    if (row.status != hunch::status::ok) { continue; }
    float* const key = projected(i) + query_size + head * head_dim;
    if (shape.qk_norm) { rms_norm_in_place(key, of.key_norm.data(), head_dim, shape.norm_epsilon); }
    rotary.rotate(key, row.position, 1.0f,
                  kv.staged_keys(group.slot, at, row.staged) + head * head_dim);
    std::copy_n(key + key_value_size, head_dim,
                kv.staged_values(group.slot, at, row.staged) + head * head_dim);
  }
  const attention_run run{kv.keys(group.slot, at, head), kv.values(group.slot, at, head), head_dim,
                          kv.padded_head_dim()};
  attention_query waiting[attention_queries];  // for more that read the same positions
  int count = 0;
  const auto attend_waiting = [&] {
    attend(run, {waiting, static_cast<std::size_t>(count)}, own(thread).scores.data());
    count = 0;
  };
  const int* placed = nullptr;  // what the last row's path has left at free positions
  int placed_size = 0;
  int placed_at = -1;
  for (int i = group.begin; i < group.end; ++i) {
    const planned_row& row = planned(plan, i);
    const layer_row& path = span.rows[static_cast<std::size_t>(i)];
    float* const out = space.mixed.data() + static_cast<std::ptrdiff_t>(i) * mixed_stride +
                       head * shared * head_dim;
    if (row.status != hunch::status::ok) {
      std::fill_n(out, shared * head_dim, 0.0f);
      continue;
    }
    const int* const staged = span.path.data() + path.path_begin;
    const int size = path.path_end - path.path_begin;
    const int begin = row.length - size;
    const int common = begin == placed_at ? std::min(size, placed_size) : 0;
    const int same =
        static_cast<int>(std::mismatch(staged, staged + common, placed).first - staged);
    if (begin != placed_at || same < placed_size) { attend_waiting(); }
    for (int p = same; p < size; ++p) { kv.place(group.slot, at, head, begin + p, staged[p]); }
    placed = staged;
    placed_size = size;
    placed_at = begin;
    for (int h = 0; h < shared; ++h) {
      float* const query = projected(i) + (head * shared + h) * head_dim;
      if (shape.qk_norm) {
        rms_norm_in_place(query, of.query_norm.data(), head_dim, shape.norm_epsilon);
      }
      float* const rotated = own(thread).query.data() + count * head_dim;
      rotary.rotate(query, row.position, query_scale, rotated);
      waiting[count++] = {.query = rotated,
                          .out = out + h * head_dim,
                          .length = row.length,
                          .first = shape.eagle.skips_first && row.length > 1 ? 1 : 0};
      if (count == attention_queries) { attend_waiting(); }
    }
  }
  attend_waiting();
}

void model::implementation::feed_forward(const layer_weights& layer,
                                         const stream_weights::layer* more, int thread) {
  const int rows = row_count();
  normalise(layer.mlp_norm, thread);
  // A block holds 32 gates and their 32 ups, so that a thread finds both among the outputs that it
  // has made.
  const auto make_products = [&](int first, int last) {
    for (int i = 0; i < rows; ++i) {
      swiglu(space.gates.data() + static_cast<std::ptrdiff_t>(i) * 2 * product_stride, first / 2,
             std::min(last / 2, product_stride),
             space.products.data() + static_cast<std::ptrdiff_t>(i) * product_stride);
    }
  };
  const activation_view normed =
      activations(own(thread).normed.data(), hidden_stride, shape.hidden, rows, thread);
  if (more == nullptr) {
    apply_shared(layer.gate_up, normed, space.gates.data(), 2 * product_stride, rows,
                 into::overwrite, thread, make_products);
  } else {
    apply(layer.gate_up, normed, space.gates.data(), 2 * product_stride, rows, into::overwrite,
          thread);
    adapt(more->gate_up, own(thread).normed.data(), hidden_stride, space.gates.data(),
          2 * product_stride, thread);
    const share blocks = part(layer.gate_up.blocks(), thread);
    make_products(blocks.begin * outputs_per_block, blocks.end * outputs_per_block);
  }
  pool.barrier();
  apply_shared(layer.down,
               activations(space.products.data(), product_stride, shape.intermediate, rows, thread),
               space.residual.data(), hidden_stride, rows, into::add, thread);
  if (more != nullptr) {
    adapt(more->down, space.products.data(), product_stride, space.residual.data(), hidden_stride,
          thread);
  }
}

void model::implementation::last_state(const float* residual, float* out) const {
  if (weights.final_norm().empty()) {
    std::copy_n(residual, hidden_stride, out);
  } else {
    rms_norm(residual, weights.final_norm().data(), shape.hidden, shape.norm_epsilon, out);
  }
}

/// What heads read of rows that went through all layers.
void model::implementation::keep_last_states(int thread) {
  const share mine = part(span.tokens, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = planned(result.plan, i);
    if (row.status != hunch::status::ok) { continue; }
    float* const to = own_features.staged(row.slot, row.staged);
    if (shape.eagle.reads_both && !shape.eagle.norms_own) {
      std::copy_n(residual(i), hidden_stride, to);
    } else if (feature_layers.empty()) {
      last_state(residual(i), to);
    }
    for (std::size_t k = 0; k < feature_layers.size(); ++k) {
      if (feature_layers[k] == shape.layers) {
        std::copy_n(residual(i), hidden_stride,
                    to + static_cast<std::ptrdiff_t>(k) * hidden_stride);
      }
    }
  }
}

/// Hidden states, features, streams and logits of a pass through all layers.
void model::implementation::finish(bool with_head, int thread) {
  const auto outputs = static_cast<int>(result.plan.output_rows.size());
  const share mine = part(outputs, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    last_state(residual(result.plan.output_rows[static_cast<std::size_t>(i)]),
               result.hidden.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
  if (own_features.kept()) { keep_last_states(thread); }
  const share rest = part(row_count() - span.tokens, thread);
  for (int i = rest.begin; i < rest.end; ++i) {
    rms_norm(residual(span.tokens + i), weights.final_norm().data(), shape.hidden,
             shape.norm_epsilon,
             result.streams.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
  if (!with_head) { return; }
  pool.barrier();
  write_logits(outputs, thread);
}

void model::implementation::reserve_outputs(std::size_t outputs) {
  reserve_activations(static_cast<int>(outputs), hidden_stride);
  result.hidden.grow(outputs * static_cast<std::size_t>(hidden_stride));
  result.logits.grow(outputs * static_cast<std::size_t>(result.logits_stride));
}

void model::implementation::write_logits(int outputs, int thread) {
  const int begin = result.first_logit / outputs_per_block;
  const int end = (result.end_of_logits + outputs_per_block - 1) / outputs_per_block;
  apply_blocks(begin, end, weights.head(),
               activations(result.hidden.data(), hidden_stride, shape.hidden, outputs, thread),
               result.logits.data(), result.logits_stride, outputs, into::overwrite, thread,
               [](int, int) {});
}

}  // namespace engine
