// SPDX-License-Identifier: Apache-2.0
#include <engine/model.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/aligned_buffer.hpp>
#include <engine/attention.hpp>
#include <engine/draft_head.hpp>
#include <engine/features.hpp>
#include <engine/kv_cache.hpp>
#include <engine/multiply.hpp>
#include <engine/pointwise.hpp>
#include <engine/rope.hpp>
#include <engine/sequences.hpp>
#include <engine/thread_pool.hpp>
#include <engine/weights.hpp>

namespace engine {

/// What a pass leaves behind for its caller.
struct pass_result {
  pass_plan plan;
  int hidden_size = 0;
  int hidden_stride = 0;
  int vocab_size = 0;
  int logits_stride = 0;
  bool has_logits = false;
  aligned_buffer<float> hidden;  ///< [outputs, hidden_stride]
  aligned_buffer<float> logits;  ///< [outputs, logits_stride]
  int context_stride = 0;
  aligned_buffer<float> contexts;  ///< [rows, context_stride]

  /// The output of a row of the pass. \throws std::out_of_range if it has none.
  std::size_t output(std::int32_t row) const {
    const int index = row >= 0 && static_cast<std::size_t>(row) < plan.rows.size()
                          ? plan.rows[static_cast<std::size_t>(row)].output
                          : -1;
    if (index < 0) {
      throw std::out_of_range("engine::model: row " + std::to_string(row) + " has no output");
    }
    return static_cast<std::size_t>(index);
  }
};

std::int32_t hidden_states::size() const {
  return static_cast<std::int32_t>(result_->plan.rows.size());
}

hunch::status hidden_states::status(std::int32_t row) const {
  return result_->plan.rows[static_cast<std::size_t>(row)].status;
}

hunch::row_view<const float> hidden_states::hidden(std::int32_t row) const {
  return {result_->hidden.data() +
              result_->output(row) * static_cast<std::size_t>(result_->hidden_stride),
          result_->hidden_size};
}

const float* hidden_states::context(std::int32_t row) const {
  return result_->contexts.data() +
         static_cast<std::size_t>(row) * static_cast<std::size_t>(result_->context_stride);
}

hunch::row_view<float> evaluation::logits(std::int32_t row) const {
  auto* const logits = const_cast<float*>(result_->logits.data());
  return {logits + result_->output(row) * static_cast<std::size_t>(result_->logits_stride),
          result_->vocab_size};
}

namespace {

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
  /// What only one thread uses.
  struct per_thread {
    aligned_buffer<float> normed;           ///< [rows, hidden]
    aligned_buffer<std::byte> activations;  ///< [rows, the widest input]
    aligned_buffer<float> query;            ///< [heads per key-value head, head_dim]
    aligned_buffer<float> scores;
  };
  std::vector<per_thread> threads;
};

int checked_context(const config& shape, int wanted) {
  if (wanted < 0) { throw std::invalid_argument("engine::model: context must not be negative"); }
  if (wanted > shape.context) {
    throw std::invalid_argument("engine::model: a context of " + std::to_string(wanted) +
                                " is longer than the model's " + std::to_string(shape.context));
  }
  return wanted == 0 ? std::min(shape.context, 4096) : wanted;
}

const config& checked(const config& shape, const model_options& options) {
  shape.check();
  if (options.max_batch < 1) {
    throw std::invalid_argument("engine::model: max_batch must be positive");
  }
  if (options.kind == arithmetic::bf16_dot && !has_bf16_dot()) {
    throw std::invalid_argument("engine::model: this build has no bf16 dot product");
  }
  return shape;
}

/// \throws std::invalid_argument when a shortlist does not fit its output or the head.
void check_shortlist(std::int32_t i, const hunch::shortlist& list, std::int32_t room, int rows) {
  const auto refuse = [i](const std::string& why) {
    throw std::invalid_argument("engine::model: head row " + std::to_string(i) + " has " + why);
  };
  std::int64_t size = 0;
  for (std::int32_t r = 0; r < list.range_count; ++r) {
    const hunch::row_range range = list.ranges[r];
    if (range.begin < 0 || range.end < range.begin || range.end > rows) {
      refuse("a range outside the head of " + std::to_string(rows) + " rows");
    }
    size += range.end - range.begin;
  }
  if (size != list.size || list.size != room) {
    refuse("a list of " + std::to_string(size) + " rows and room for " + std::to_string(room));
  }
}

}  // namespace

struct model::implementation {
  implementation(const config& c, const checkpoint& source, const model_options& options,
                 implementation* features_of = nullptr)
      : shape{checked(c, options)},
        kind{options.kind},
        context{checked_context(c, options.context)},
        pool{options.threads},
        weights{c, source, options.kind},
        rotary{c.rope, c.head_dim, context},
        slots{options.max_batch, context, c.vocab_size},
        cache{c, options.max_batch, context},
        own_features{
            options.keep_features || features_of != nullptr ? round_up(c.hidden, lanes) : 0,
            options.max_batch, context},
        target{features_of},
        query_size{c.heads * c.head_dim},
        key_value_size{c.kv_heads * c.head_dim},
        hidden_stride{round_up(c.hidden, lanes)},
        projection_stride{round_up(query_size + 2 * key_value_size, lanes)},
        mixed_stride{round_up(query_size, lanes)},
        product_stride{round_up(c.intermediate, lanes)} {
    result.hidden_size = c.hidden;
    result.hidden_stride = hidden_stride;
    result.vocab_size = c.vocab_size;
    result.logits_stride = round_up(c.vocab_size, lanes);
    result.context_stride = own_features.kept() ? round_up(2 * c.hidden, lanes) : 0;
    space.threads.resize(static_cast<std::size_t>(options.threads));
    for (auto& own : space.threads) {
      own.query.grow(static_cast<std::size_t>(query_size));
      own.scores.grow(2 *
                      static_cast<std::size_t>(round_up(context, lanes) + cache.padded_head_dim()));
    }
  }

  void run(const hunch::rows& rows, bool with_head);
  void reserve(int rows, int outputs, bool with_head);
  void pass(int thread);

  const float* feature_before(const planned_row& row);
  void join(int thread);
  void embed(int thread);
  void put_contexts(int thread);
  void normalise(const std::vector<float>& weight, const float* from, int rows, int thread);
  activation_view activations(const float* from, int stride, int inputs, int rows, int thread);
  void attend_all(int layer, int thread);
  void attend_group(int layer, int head, const row_group& group, int thread);
  void apply(const packed_matrix& w, activation_view x, float* y, int stride, into mode,
             int thread);
  void feed_forward(const layer_weights& layer, int thread);
  void finish(int thread);

  int row_count() const { return static_cast<int>(result.plan.rows.size()); }
  int output_count() const { return static_cast<int>(result.plan.output_rows.size()); }
  workspace::per_thread& own(int thread) { return space.threads[static_cast<std::size_t>(thread)]; }

  const config shape;
  const arithmetic kind;
  const int context;
  thread_pool pool;
  model_weights weights;
  rope rotary;
  sequences slots;
  kv_cache cache;
  features own_features;
  implementation* const target;  ///< of an EAGLE head, else nullptr
  const int query_size;
  const int key_value_size;
  const int hidden_stride;
  const int projection_stride;
  const int mixed_stride;
  const int product_stride;
  std::optional<draft_head> shortlist_head;
  std::vector<std::int32_t> head_outputs;  ///< of the rows that a head is asked for
  workspace space;
  pass_result result;
};

void model::implementation::reserve(int row_total, int output_total, bool with_head) {
  const auto rows = static_cast<std::size_t>(row_total);
  const auto outputs = static_cast<std::size_t>(output_total);
  const auto grow = [](aligned_buffer<float>& buffer, std::size_t count, int stride) {
    buffer.grow(count * static_cast<std::size_t>(stride));
  };
  grow(space.residual, rows, hidden_stride);
  grow(space.projections, rows, projection_stride);
  grow(space.mixed, rows, mixed_stride);
  grow(space.gates, rows, 2 * product_stride);
  grow(space.products, rows, product_stride);
  grow(result.contexts, rows, result.context_stride);
  const int widest = std::max({hidden_stride, mixed_stride, product_stride, result.context_stride});
  for (auto& own : space.threads) {
    grow(own.normed, rows, hidden_stride);
    if (kind == arithmetic::bf16_dot) {
      own.activations.grow(rows * activation_bytes(kind, widest));
    }
  }
  grow(result.hidden, outputs, hidden_stride);
  if (with_head) { grow(result.logits, outputs, result.logits_stride); }
}

void model::implementation::run(const hunch::rows& rows, bool with_head) {
  slots.stage(rows, result.plan);
  reserve(row_count(), output_count(), with_head);
  for (const row_group& group : result.plan.groups) {
    cache.reserve_staged(group.slot, slots.staged_count(group.slot));
    own_features.reserve_staged(group.slot, slots.staged_count(group.slot));
  }
  result.has_logits = with_head;
  if (row_count() == 0) { return; }
  auto body = [this](int thread) { pass(thread); };
  pool.run(body);
}

/// The whole pass, on every thread. Each owns its outputs of every product and its key-value
/// heads; norms are cheap, so that every thread computes all of them and needs no barrier.
void model::implementation::pass(int thread) {
  const int rows = row_count();
  if (target != nullptr) {
    put_contexts(thread);
    pool.barrier();
    join(thread);
  } else {
    embed(thread);
  }
  pool.barrier();
  for (int l = 0; l < shape.layers; ++l) {
    const layer_weights& layer = weights.layers()[static_cast<std::size_t>(l)];
    normalise(layer.attention_norm, space.residual.data(), rows, thread);
    apply(layer.query_key_value,
          activations(own(thread).normed.data(), hidden_stride, shape.hidden, rows, thread),
          space.projections.data(), projection_stride, into::overwrite, thread);
    pool.barrier();
    attend_all(l, thread);
    pool.barrier();
    apply(layer.output, activations(space.mixed.data(), mixed_stride, query_size, rows, thread),
          space.residual.data(), hidden_stride, into::add, thread);
    pool.barrier();
    feed_forward(layer, thread);
    pool.barrier();
  }
  finish(thread);
}

void model::implementation::embed(int thread) {
  const share mine(row_count(), thread, pool.size());
  for (int i = mine.begin; i < mine.end; ++i) {
    weights.embed(result.plan.rows[static_cast<std::size_t>(i)].token,
                  space.residual.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
}

/// The last hidden state of the token before a row, or nullptr if there is none: the target's where
/// it has read that token, else the model's own.
const float* model::implementation::feature_before(const planned_row& row) {
  const int position = row.position - 1;
  if (position < 0) { return nullptr; }
  if (target != nullptr && position < target->slots.length(row.slot)) {
    return target->own_features.cached(row.slot, position);
  }
  const int parent = slots.parent(row.slot, row.staged);
  if (parent >= 0) { return own_features.staged(row.slot, parent); }
  return target == nullptr ? own_features.cached(row.slot, position) : nullptr;
}

/// What a router reads, and what the layers of an EAGLE head begin with.
void model::implementation::put_contexts(int thread) {
  const share mine(row_count(), thread, pool.size());
  for (int i = mine.begin; i < mine.end; ++i) {
    const planned_row& row = result.plan.rows[static_cast<std::size_t>(i)];
    float* const out =
        result.contexts.data() + static_cast<std::ptrdiff_t>(i) * result.context_stride;
    weights.embed(row.token, out);
    const float* const before = row.status == hunch::status::ok ? feature_before(row) : nullptr;
    if (before == nullptr) {
      std::fill_n(out + shape.hidden, shape.hidden, 0.0f);
    } else {
      std::copy_n(before, shape.hidden, out + shape.hidden);
    }
  }
}

void model::implementation::join(int thread) {
  apply(weights.joint(),
        activations(result.contexts.data(), result.context_stride, 2 * shape.hidden, row_count(),
                    thread),
        space.residual.data(), hidden_stride, into::overwrite, thread);
}

void model::implementation::normalise(const std::vector<float>& weight, const float* from, int rows,
                                      int thread) {
  for (int i = 0; i < rows; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * hidden_stride;
    rms_norm(from + at, weight.data(), shape.hidden, shape.norm_epsilon,
             own(thread).normed.data() + at);
  }
}

/// Rows of floats as inputs of a product: as they are, or rounded to bf16.
activation_view model::implementation::activations(const float* from, int stride, int inputs,
                                                   int rows, int thread) {
  if (kind != arithmetic::bf16_dot) {
    auto* const bytes = reinterpret_cast<std::byte*>(const_cast<float*>(from));
    return {bytes, static_cast<std::size_t>(stride) * sizeof(float)};
  }
  const activation_view out{own(thread).activations.data(), activation_bytes(kind, inputs)};
  for (int i = 0; i < rows; ++i) {
    store_activations(kind, from + static_cast<std::ptrdiff_t>(i) * stride, stride, out.row(i));
  }
  return out;
}

void model::implementation::apply(const packed_matrix& w, activation_view x, float* y, int stride,
                                  into mode, int thread) {
  const share mine(w.blocks(), thread, pool.size());
  multiply(w, x, y, stride, row_count(), mode, mine.begin, mine.end);
}

void model::implementation::attend_all(int layer, int thread) {
  const auto& groups = result.plan.groups;
  const int units = static_cast<int>(groups.size()) * shape.kv_heads;
  for (int unit = thread; unit < units; unit += pool.size()) {
    attend_group(layer, unit % shape.kv_heads,
                 groups[static_cast<std::size_t>(unit / shape.kv_heads)], thread);
  }
}

/// Stages keys and values of one key-value head for the rows of a sequence, and attends.
void model::implementation::attend_group(int layer, int head, const row_group& group, int thread) {
  const int head_dim = shape.head_dim;
  const int shared = shape.heads / shape.kv_heads;
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  for (int i = group.begin; i < group.end; ++i) {
    const planned_row& row = result.plan.rows[static_cast<std::size_t>(i)];
    float* const out = space.mixed.data() + static_cast<std::ptrdiff_t>(i) * mixed_stride +
                       head * shared * head_dim;
    if (row.status != hunch::status::ok) {
      std::fill_n(out, shared * head_dim, 0.0f);
      continue;
    }
    const float* const query =
        space.projections.data() + static_cast<std::ptrdiff_t>(i) * projection_stride;
    const float* const key = query + query_size;
    const float* const value = key + key_value_size;
    rotary.rotate(key + head * head_dim, row.position, 1.0f,
                  cache.staged_keys(group.slot, layer, row.staged) + head * head_dim);
    std::copy_n(value + head * head_dim, head_dim,
                cache.staged_values(group.slot, layer, row.staged) + head * head_dim);
    int position = slots.length(group.slot) + row.shared;
    for (int p = row.path_begin; p < row.path_end; ++p, ++position) {
      cache.place(group.slot, layer, head, position, result.plan.path[static_cast<std::size_t>(p)]);
    }
    for (int h = 0; h < shared; ++h) {
      rotary.rotate(query + (head * shared + h) * head_dim, row.position, query_scale,
                    own(thread).query.data() + h * head_dim);
    }
    attend({cache.keys(group.slot, layer, head), cache.values(group.slot, layer, head), head_dim,
            cache.padded_head_dim(), row.length},
           shared, own(thread).query.data(), out, own(thread).scores.data());
  }
}

void model::implementation::feed_forward(const layer_weights& layer, int thread) {
  const int rows = row_count();
  normalise(layer.mlp_norm, space.residual.data(), rows, thread);
  apply(layer.gate_up,
        activations(own(thread).normed.data(), hidden_stride, shape.hidden, rows, thread),
        space.gates.data(), 2 * product_stride, into::overwrite, thread);
  // A block holds 32 gates and their 32 ups, so that a thread finds both among its own outputs.
  const share blocks(layer.gate_up.blocks(), thread, pool.size());
  const int first = blocks.begin * outputs_per_block / 2;
  const int last = std::min(blocks.end * outputs_per_block / 2, product_stride);
  for (int i = 0; i < rows; ++i) {
    swiglu(space.gates.data() + static_cast<std::ptrdiff_t>(i) * 2 * product_stride, first, last,
           space.products.data() + static_cast<std::ptrdiff_t>(i) * product_stride);
  }
  pool.barrier();
  apply(layer.down,
        activations(space.products.data(), product_stride, shape.intermediate, rows, thread),
        space.residual.data(), hidden_stride, into::add, thread);
}

void model::implementation::finish(int thread) {
  const share mine(output_count(), thread, pool.size());
  for (int i = mine.begin; i < mine.end; ++i) {
    const int row = result.plan.output_rows[static_cast<std::size_t>(i)];
    rms_norm(space.residual.data() + static_cast<std::ptrdiff_t>(row) * hidden_stride,
             weights.final_norm().data(), shape.hidden, shape.norm_epsilon,
             result.hidden.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
  if (own_features.kept()) {
    const share all(row_count(), thread, pool.size());
    for (int i = all.begin; i < all.end; ++i) {
      const planned_row& row = result.plan.rows[static_cast<std::size_t>(i)];
      if (row.status != hunch::status::ok) { continue; }
      rms_norm(space.residual.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride,
               weights.final_norm().data(), shape.hidden, shape.norm_epsilon,
               own_features.staged(row.slot, row.staged));
    }
    if (target == nullptr) {
      pool.barrier();
      put_contexts(thread);
    }
  }
  if (!result.has_logits) { return; }
  pool.barrier();
  const packed_matrix& head = weights.head();
  const share blocks(head.blocks(), thread, pool.size());
  multiply(head,
           activations(result.hidden.data(), hidden_stride, shape.hidden, output_count(), thread),
           result.logits.data(), result.logits_stride, output_count(), into::overwrite,
           blocks.begin, blocks.end);
}

model::model(const config& shape, const checkpoint& weights, const model_options& options)
    : self_{std::make_unique<implementation>(shape, weights, options)} {}
model::model(std::unique_ptr<implementation> self) : self_{std::move(self)} {}
model::model(model&&) noexcept = default;
model& model::operator=(model&&) noexcept = default;
model::~model() = default;

model model::load(const std::filesystem::path& directory, const model_options& options) {
  const config shape = read_config(directory / "config.json");
  return {shape, checkpoint::open(directory), options};
}

const config& model::shape() const { return self_->shape; }
std::int32_t model::vocab_size() const { return self_->shape.vocab_size; }
std::int32_t model::context_width() const {
  return self_->own_features.kept() ? 2 * self_->shape.hidden : 0;
}
int model::context() const { return self_->context; }
int model::max_batch() const { return self_->slots.slots(); }
int model::length(int slot) const { return self_->slots.length(slot); }
std::size_t model::weight_bytes() const { return self_->weights.bytes(); }

evaluation model::evaluate(const hunch::rows& rows) {
  self_->run(rows, true);
  return evaluation{self_->result};
}

hidden_states model::forward(const hunch::rows& rows) {
  self_->run(rows, false);
  return hidden_states{self_->result};
}

void model::set_head_layout(const hunch::vocab_layout& layout) {
  if (layout.vocab_size() != vocab_size()) {
    throw std::invalid_argument(
        "engine::model: a head layout of " + std::to_string(layout.vocab_size()) +
        " tokens does not fit the model's vocabulary of " + std::to_string(vocab_size()));
  }
  self_->shortlist_head.emplace(self_->weights.head(), layout, self_->pool);
}

std::uint64_t model::head_fingerprint() const {
  return self_->shortlist_head ? self_->shortlist_head->fingerprint()
                               : hunch::vocab_layout::identity(vocab_size()).fingerprint();
}

void model::head(const hidden_states&, const hunch::head_rows<float>& rows) {
  if (!self_->shortlist_head) { set_head_layout(hunch::vocab_layout::identity(vocab_size())); }
  draft_head& weights = *self_->shortlist_head;
  std::vector<std::int32_t>& outputs = self_->head_outputs;
  outputs.clear();
  for (std::int32_t i = 0; i < rows.size; ++i) {
    // Throws if there is none.
    outputs.push_back(static_cast<std::int32_t>(self_->result.output(rows.row[i])));
    check_shortlist(i, rows.lists[i], rows.logits[i].size, weights.rows());
  }
  weights.multiply(self_->result.hidden.data(), self_->hidden_stride,
                   {rows.size, outputs.data(), rows.lists, rows.logits});
}

void model::commit(const hunch::kept_rows& kept) noexcept {
  implementation& m = *self_;
  for (std::int32_t i = 0; i < kept.size; ++i) {
    const int slot = kept.sequence[i];
    const int staged = m.slots.staged_index(slot, kept.id[i]);
    const int position = staged < 0 ? -1 : m.slots.append(slot);
    if (position >= 0) {
      for (int layer = 0; layer < m.shape.layers; ++layer) {
        for (int head = 0; head < m.shape.kv_heads; ++head) {
          m.cache.place(slot, layer, head, position, staged);
        }
      }
      if (m.own_features.kept()) { m.own_features.keep(slot, position, staged); }
    }
    const bool last = i + 1 == kept.size || kept.sequence[i + 1] != slot;
    if (last && slot >= 0 && slot < m.slots.slots()) { m.slots.discard_staged(slot); }
  }
  for (std::int32_t i = 0; i < kept.release_count; ++i) {
    const int slot = kept.released[i];
    if (slot >= 0 && slot < m.slots.slots()) { m.slots.release(slot); }
  }
}

namespace {

/// \throws std::invalid_argument unless an EAGLE head of `shape` fits the target.
void check_eagle(const config& shape, const config& target, bool kept) {
  const auto refuse = [](const char* why) {
    throw std::invalid_argument(std::string("engine::eagle_model: ") + why);
  };
  if (!kept) { refuse("the target keeps no features: set model_options::keep_features"); }
  if (shape.hidden != target.hidden) { refuse("its hidden size is not the target's"); }
  if (shape.vocab_size != target.vocab_size) { refuse("its vocabulary is not the target's"); }
}

}  // namespace

eagle_model::eagle_model(const config& shape, const checkpoint& weights, model& target,
                         const model_options& options)
    : model([&] {
        implementation& of = *target.self_;
        check_eagle(shape, of.shape, of.own_features.kept());
        if (!weights.has("model.fc.weight")) {
          throw std::runtime_error(weights.origin() + ": tensor \"model.fc.weight\" is missing");
        }
        return std::make_unique<implementation>(shape, weights, options, &of);
      }()) {}

eagle_model eagle_model::load(const std::filesystem::path& directory,
                              const std::filesystem::path& target_directory, model& target,
                              const model_options& options) {
  checkpoint weights = checkpoint::open(directory);
  weights.add_missing(checkpoint::open(target_directory));
  return {read_config(directory / "config.json"), weights, target, options};
}

}  // namespace engine
