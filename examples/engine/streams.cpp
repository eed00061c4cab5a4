// SPDX-License-Identifier: Apache-2.0
#include <engine/streams.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>
#include <engine/stream_weights.hpp>

namespace engine {
namespace {

/// \tparam Target a `model::implementation`.
template <class Target>
void check(const stream_config& shape, const std::string& origin, const Target& target) {
  const std::string does = "has streams in the last " + std::to_string(shape.layers) + " layers";
  if (target.target != nullptr) { target.refuse_head(origin, does, "is a head of another model"); }
  if (target.streams != nullptr) { target.refuse_head(origin, does, "has streams already"); }
  if (shape.streams < 1 || shape.streams > max_streams) {
    throw std::invalid_argument("engine: " + origin + " has " + std::to_string(shape.streams) +
                                " streams, and there may be 1 to " + std::to_string(max_streams));
  }
  if (shape.layers < 1 || shape.layers >= target.shape.layers) {
    target.refuse_head(origin, does, "has " + std::to_string(target.shape.layers));
  }
  target.must_have("hidden size", target.shape.hidden, origin, shape.hidden);
  target.must_have("vocabulary size", target.shape.vocab_size, origin, shape.vocab_size);
}

/// Packs one layer's adapters.
class layer_reader {
 public:
  layer_reader(const checkpoint& weights, int layer, arithmetic kind, int& rank_stride)
      : weights_(weights),
        name_("streams.layers." + std::to_string(layer) + "."),
        kind_(kind),
        rank_stride_(rank_stride) {}

  adapter plain(const std::string& part, int inputs, int outputs) const {
    const int rank = parsed_rank(part);
    const matrix_view a = matrix(part + ".a", rank, inputs);
    const matrix_view b = matrix(part + ".b", outputs, rank);
    return {{kind_, all_rows(a), inputs}, {kind_, all_rows(b), rank}};
  }
  /// That of gates and ups, which have one a.
  adapter joint(int inputs, int outputs) const {
    const int rank = parsed_rank("gate");
    const matrix_view a = matrix("gate.a", rank, inputs);
    const matrix_view gate = matrix("gate.b", outputs, rank);
    const matrix_view up = matrix("up.b", outputs, rank);
    return {{kind_, all_rows(a), inputs}, {kind_, interleave(gate, up), rank}};
  }

 private:
  int parsed_rank(const std::string& part) const {
    const int rank = weights_.rows_of(name_ + part + ".a.weight");
    rank_stride_ = std::max(rank_stride_, round_up(rank, lanes));
    return rank;
  }
  matrix_view matrix(const std::string& part, int rows, int columns) const {
    return weights_.matrix(name_ + part + ".weight", rows, columns);
  }

  const checkpoint& weights_;
  std::string name_;
  arithmetic kind_;
  int& rank_stride_;
};

/// What tells streams the root, if the checkpoint has it.
void read_roots(const checkpoint& weights, const config& c, arithmetic kind, stream_weights& w) {
  w.joined_stride = round_up(2 * c.hidden, lanes);
  if (!weights.has("streams.root.down.weight")) { return; }
  const int rank = weights.rows_of("streams.root.down.weight");
  w.root_stride = round_up(rank, lanes);
  const int streams = w.shape.streams;
  const matrix_view down = weights.matrix("streams.root.down.weight", rank, 2 * c.hidden);
  const matrix_view up = weights.matrix("streams.root.up.weight", streams * c.hidden, rank);
  w.root_down = {kind, all_rows(down), 2 * c.hidden};
  for (int j = 0; j < streams; ++j) {
    std::vector<weight_row> rows;
    for (int i = 0; i < c.hidden; ++i) { rows.push_back({&up, j * c.hidden + i}); }
    w.root_up.emplace_back(kind, rows, rank);
  }
}

}  // namespace

speculative_streams::speculative_streams(const stream_config& shape, const checkpoint& weights,
                                         model& target)
    : of_{target.self_.get()}, weights_{std::make_unique<stream_weights>()} {
  check(shape, weights.origin(), *of_);
  const config& c = of_->shape;
  const auto stride = static_cast<std::size_t>(of_->hidden_stride);
  stream_weights& w = *weights_;
  w.shape = shape;
  w.ones.assign(stride, 1.0f);

  const int rank = weights.rows_of("streams.down.weight");
  w.rank_stride = round_up(rank, lanes);
  const matrix_view down = weights.matrix("streams.down.weight", rank, c.hidden);
  const bool one_map = weights.rows_of("streams.up.weight") == c.hidden;
  const int maps = one_map ? 1 : shape.streams;
  const matrix_view up = weights.matrix("streams.up.weight", maps * c.hidden, rank);
  const matrix_view embedding = weights.matrix("streams.embedding.weight", shape.streams, c.hidden);
  w.down = {of_->kind, all_rows(down), c.hidden};
  std::vector<weight_row> ups;
  for (int j = 0; j < shape.streams; ++j) {
    const int first = one_map ? 0 : j * c.hidden;
    for (int i = 0; i < c.hidden; ++i) { ups.push_back({&up, first + i}); }
    ups.resize(static_cast<std::size_t>(j + 1) * stride);
  }
  w.up = {of_->kind, ups, rank};
  w.embeddings.resize(static_cast<std::size_t>(shape.streams) * stride);
  for (int j = 0; j < shape.streams; ++j) {
    float* const out = w.embeddings.data() + static_cast<std::size_t>(j) * stride;
    embedding.read_row(j, out);
    for (int i = 0; i < c.hidden; ++i) { out[i] *= embedding.scale_of(j); }
  }
  const int query = c.heads * c.head_dim;
  for (int l = 0; l < shape.layers; ++l) {
    const layer_reader read{weights, l, of_->kind, w.rank_stride};
    w.layers.push_back(
        {read.plain("query_key_value", c.hidden, query + 2 * c.kv_heads * c.head_dim),
         read.plain("output", query, c.hidden), read.joint(c.hidden, c.intermediate),
         read.plain("down", c.intermediate, c.hidden)});
  }
  read_roots(weights, c, of_->kind, w);
  of_->streams = weights_.get();
}

speculative_streams::speculative_streams(speculative_streams&&) noexcept = default;

speculative_streams::~speculative_streams() {
  if (weights_ != nullptr) { of_->streams = nullptr; }
}

speculative_streams speculative_streams::load(const std::filesystem::path& directory,
                                              model& target) {
  const auto config_file = directory / "config.json";
  const stream_config shape = read_stream_config(config_file);
  check_target(config_file, target.head_fingerprint(), target.origin());
  return {shape, checkpoint::open(directory), target};
}

std::int32_t speculative_streams::vocab_size() const { return of_->shape.vocab_size; }
std::int32_t speculative_streams::hidden_size() const { return of_->shape.hidden; }
std::int32_t speculative_streams::heads() const { return weights_->shape.streams; }
int speculative_streams::layers() const { return weights_->shape.layers; }

std::size_t speculative_streams::weight_bytes() const {
  const auto of = [](const adapter& a) { return a.a.bytes.size() + a.b.bytes.size(); };
  std::size_t bytes = weights_->down.bytes.size() + weights_->up.bytes.size() +
                      weights_->embeddings.size() * sizeof(float);
  for (const stream_weights::layer& l : weights_->layers) {
    bytes += of(l.query_key_value) + of(l.output) + of(l.gate_up) + of(l.down);
  }
  bytes += weights_->root_down.bytes.size();
  for (const stored_matrix& up : weights_->root_up) { bytes += up.bytes.size(); }
  return bytes;
}

void speculative_streams::set_head_layout(const hunch::vocab_layout& layout) {
  of_->set_head_layout(layout);
}
std::uint64_t speculative_streams::head_order() const { return of_->head_order(); }

drafted_states speculative_streams::forward(const hunch::head_inputs& inputs) {
  stream_weights& w = *weights_;
  const int streams = w.shape.streams;
  if (inputs.states > streams) {
    throw std::invalid_argument("engine::speculative_streams: " + std::to_string(inputs.states) +
                                " states of an input, and there are " + std::to_string(streams) +
                                " streams");
  }
  check_roots("engine::speculative_streams", inputs, of_->shape.vocab_size);
  const auto size = static_cast<std::size_t>(inputs.size);
  const std::size_t rows = size * static_cast<std::size_t>(inputs.states);
  w.states.grow(size * static_cast<std::size_t>(streams * of_->hidden_stride));
  w.joined.grow(rows * static_cast<std::size_t>(w.joined_stride));
  w.reduced.grow(rows * static_cast<std::size_t>(w.root_stride));
  of_->reserve_activations(static_cast<int>(rows), std::max(w.joined_stride, w.root_stride));
  auto body = [&](int thread) { compute(inputs, thread); };
  of_->pool.run(body);
  return {.size = inputs.size * streams,
          .heads = streams,
          .states = w.states.data(),
          .hidden_size = of_->shape.hidden,
          .stride = of_->hidden_stride};
}

void speculative_streams::compute(const hunch::head_inputs& inputs, int thread) {
  stream_weights& w = *weights_;
  const int hidden = of_->shape.hidden;
  const int stride = of_->hidden_stride;
  const int each = inputs.states;
  const int rows = inputs.size * each;
  const share mine = of_->part(rows, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    const int j = i / inputs.size;
    const int of = i % inputs.size;
    const float* const state = inputs.hidden[of] + static_cast<std::ptrdiff_t>(j) * hidden;
    const int row = of * w.shape.streams + j;
    std::copy_n(state, hidden, w.states.data() + static_cast<std::ptrdiff_t>(row) * stride);
    if (!w.know_roots()) { continue; }
    float* const joined = w.joined.data() + static_cast<std::ptrdiff_t>(i) * w.joined_stride;
    std::copy_n(state, hidden, joined);
    of_->weights.embed(inputs.tokens[of], joined + hidden);
  }
  if (!w.know_roots()) { return; }
  of_->pool.barrier();
  const packed_matrix& down = w.root_down.packed;
  of_->apply(down, of_->activations(w.joined.data(), w.joined_stride, 2 * hidden, rows, thread),
             w.reduced.data(), w.root_stride, rows, into::overwrite, thread);
  const share blocks = of_->part(down.blocks(), thread);
  const int last = std::min(blocks.end * outputs_per_block, w.root_stride);
  for (int i = 0; i < rows; ++i) {
    silu(w.reduced.data() + static_cast<std::ptrdiff_t>(i) * w.root_stride,
         blocks.begin * outputs_per_block, last);
  }
  of_->pool.barrier();
  for (int j = 0; j < each; ++j) {
    const packed_matrix& up = w.root_up[static_cast<std::size_t>(j)].packed;
    const float* const from =
        w.reduced.data() + static_cast<std::ptrdiff_t>(j) * inputs.size * w.root_stride;
    of_->apply(up, of_->activations(from, w.root_stride, up.inputs(), inputs.size, thread),
               w.states.data() + static_cast<std::ptrdiff_t>(j) * stride, w.shape.streams * stride,
               inputs.size, into::add, thread);
  }
}

void speculative_streams::head(const drafted_states& states, const hunch::head_rows<float>& rows) {
  check_rows("engine::speculative_streams", states, rows);
  of_->listed_head().multiply(states.states, states.stride, rows);
}

const stream_weights::layer* model::implementation::adapters(int layer) const {
  if (row_count() == span.tokens) { return nullptr; }
  const int first = shape.layers - streams->shape.layers;
  return &streams->layers[static_cast<std::size_t>(layer - first)];
}

void model::implementation::adapt(const adapter& of, const float* x, int stride, float* y,
                                  std::ptrdiff_t y_stride, int thread) {
  const int rows = row_count() - span.tokens;
  const packed_matrix& a = of.a.packed;
  const packed_matrix& b = of.b.packed;
  float* const inner = streams->inner.data();
  const int between = streams->rank_stride;
  apply(a,
        activations(x + static_cast<std::ptrdiff_t>(span.tokens) * stride, stride, a.inputs(), rows,
                    thread),
        inner, between, rows, into::overwrite, thread);
  pool.barrier();
  apply(b, activations(inner, between, b.inputs(), rows, thread), y + span.tokens * y_stride,
        y_stride, rows, into::add, thread);
}

/// What streams begin with: a small map of the residuals of their rows, which are there.
void model::implementation::begin_streams(const pass_plan& plan, int thread) {
  stream_weights& w = *streams;
  const auto outputs = static_cast<int>(plan.output_rows.size());
  const share mine = part(outputs, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    rms_norm(residual(plan.output_rows[static_cast<std::size_t>(i)]), w.ones.data(), shape.hidden,
             shape.norm_epsilon, w.normed.data() + static_cast<std::ptrdiff_t>(i) * hidden_stride);
  }
  pool.barrier();
  const packed_matrix& down = w.down.packed;
  apply(down, activations(w.normed.data(), hidden_stride, shape.hidden, outputs, thread),
        w.inner.data(), w.rank_stride, outputs, into::overwrite, thread);
  const share blocks = part(down.blocks(), thread);
  const int last = std::min(blocks.end * outputs_per_block, round_up(down.outputs(), lanes));
  for (int i = 0; i < (w.shape.linear_map ? 0 : outputs); ++i) {
    silu(w.inner.data() + static_cast<std::ptrdiff_t>(i) * w.rank_stride,
         blocks.begin * outputs_per_block, last);
  }
  pool.barrier();
  const packed_matrix& up = w.up.packed;
  apply(up, activations(w.inner.data(), w.rank_stride, up.inputs(), outputs, thread),
        w.begun.data(), up.outputs(), outputs, into::overwrite, thread);
  pool.barrier();
  const share all = part(static_cast<int>(plan.rows.size()) - plan.tokens(), thread);
  for (int i = all.begin; i < all.end; ++i) {
    const planned_row& row = plan.rows[static_cast<std::size_t>(plan.tokens() + i)];
    const float* const from = residual(row.main_row);
    const float* const begun = w.begun.data() +
                               static_cast<std::ptrdiff_t>(i / plan.streams) * up.outputs() +
                               row.stream * hidden_stride;
    const float* const embedding = w.embeddings.data() + row.stream * hidden_stride;
    float* const out = residual(plan.tokens() + i);
    for (int d = 0; d < hidden_stride; d += lanes) {
      store(out + d,
            engine::load(from + d) + engine::load(begun + d) + engine::load(embedding + d));
    }
  }
}

}  // namespace engine
