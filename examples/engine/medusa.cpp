// SPDX-License-Identifier: Apache-2.0
#include <engine/medusa.hpp>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>
#include <engine/published_format.hpp>

namespace engine {
namespace {

stored_matrix pack_heads(const medusa_config& shape, const checkpoint& weights, arithmetic kind) {
  std::vector<matrix_view> matrices;
  for (int j = 0; j < shape.heads; ++j) {
    matrices.push_back(
        weights.matrix("medusa." + std::to_string(j) + ".weight", shape.hidden, shape.hidden));
  }
  std::vector<weight_row> rows;
  for (const matrix_view& matrix : matrices) {
    append_rows(rows, matrix);
    rows.resize(static_cast<std::size_t>(round_up(static_cast<int>(rows.size()), lanes)));
  }
  return {kind, rows, shape.hidden};
}

std::vector<float> read_biases(const medusa_config& shape, const checkpoint& weights) {
  std::vector<float> out;
  if (!weights.has("medusa.0.bias")) { return out; }
  for (int j = 0; j < shape.heads; ++j) {
    const std::vector<float> bias =
        padded(weights.vector("medusa." + std::to_string(j) + ".bias", shape.hidden));
    out.insert(out.end(), bias.begin(), bias.end());
  }
  return out;
}

/// Heads as others publish them, with the names that this project has for their tensors.
void rename(checkpoint& weights) {
  weights.rename_prefix("medusa_head.", "");
  for (int j = 0; weights.has(std::to_string(j) + ".0.linear.weight"); ++j) {
    const std::string head = std::to_string(j);
    if (weights.has(head + ".1.linear.weight")) {
      throw std::runtime_error(weights.origin() + ": tensor \"" + head +
                               ".1.linear.weight\" is that of a second layer of a head; supported "
                               "is one (\"medusa_num_layers\")");
    }
    weights.rename_prefix(head + ".0.linear.", "medusa." + head + ".");
    weights.rename_prefix(head + ".1.", "heads." + head + ".");
  }
}

/// How many heads have tensors.
int heads_in(const checkpoint& weights) {
  int heads = 0;
  while (weights.has("medusa." + std::to_string(heads) + ".weight")) { ++heads; }
  return heads;
}

/// What is read of heads as others publish them.
std::set<std::string> names_of_read(const medusa_config& shape, const checkpoint& weights) {
  std::set<std::string> out;
  for (int j = 0; j < shape.heads; ++j) {
    const std::string head = std::to_string(j);
    out.insert("medusa." + head + ".weight");
    if (weights.has("medusa.0.bias")) { out.insert("medusa." + head + ".bias"); }
    if (shape.own_heads) { out.insert("heads." + head + ".weight"); }
  }
  return out;
}

/// \tparam Target a `model::implementation`.
template <class Target>
const medusa_config& checked(const medusa_config& shape, const checkpoint& weights,
                             const Target& target) {
  if (shape.heads < 1) {
    throw std::invalid_argument("engine::medusa_heads: there must be at least one head");
  }
  target.must_have("hidden size", target.shape.hidden, weights.origin(), shape.hidden);
  target.must_have("vocabulary size", target.shape.vocab_size, weights.origin(), shape.vocab_size);
  return shape;
}

/// In token order.
std::vector<own_head> read_own_heads(const medusa_config& shape, const checkpoint& weights,
                                     arithmetic kind, thread_pool& pool) {
  std::vector<own_head> out;
  for (int j = 0; j < (shape.own_heads ? shape.heads : 0); ++j) {
    out.emplace_back(weights, "heads." + std::to_string(j) + ".weight", shape.vocab_size,
                     shape.hidden, kind);
    out.back().set_layout(hunch::vocab_layout::identity(shape.vocab_size), pool);
  }
  return out;
}

}  // namespace

medusa_heads::medusa_heads(const medusa_config& shape, const checkpoint& weights, model& target)
    : shape_{checked(shape, weights, *target.self_)},
      of_{target.self_.get()},
      own_{read_own_heads(shape, weights, of_->kind, of_->pool)},
      stride_{of_->hidden_stride},
      weights_{pack_heads(shape, weights, of_->kind)},
      biases_{read_biases(shape, weights)} {}

medusa_heads medusa_heads::load(const std::filesystem::path& directory, model& target) {
  const auto config_file = directory / "config.json";
  checkpoint weights = checkpoint::open(directory);
  const auto format = format_of(weights);
  medusa_config shape;
  if (format == published_format::medusa) {
    rename(weights);
    shape = {heads_in(weights), target.shape().hidden, target.shape().vocab_size,
             weights.has("heads.0.weight")};
    refuse_unread(weights, names_of_read(shape, weights), *format);
  } else if (weights.has("medusa.0.weight")) {
    shape = read_medusa_config(config_file);
  } else {
    throw std::runtime_error(directory.string() +
                             ": has no Medusa heads, whose tensors are \"medusa.0.weight\" or "
                             "\"0.0.linear.weight\": it " +
                             words_for(format));
  }
  check_target(config_file, target.head_fingerprint(), target.origin());
  return {shape, weights, target};
}

drafted_states medusa_heads::forward(const hunch::head_inputs& inputs) {
  check_roots("engine::medusa_heads", inputs, shape_.vocab_size);
  const auto size = static_cast<std::size_t>(inputs.size);
  inputs_.grow(size * static_cast<std::size_t>(stride_));
  states_.grow(size * static_cast<std::size_t>(shape_.heads * stride_));
  of_->reserve_activations(inputs.size, shape_.hidden);
  auto body = [&](int thread) { compute(inputs, thread); };
  of_->pool.run(body);
  return {.size = inputs.size * shape_.heads,
          .heads = shape_.heads,
          .states = states_.data(),
          .hidden_size = shape_.hidden,
          .stride = stride_};
}

void medusa_heads::compute(const hunch::head_inputs& inputs, int thread) {
  const share mine = of_->part(inputs.size, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    std::copy_n(inputs.hidden[i], shape_.hidden,
                inputs_.data() + static_cast<std::ptrdiff_t>(i) * stride_);
  }
  of_->pool.barrier();
  const packed_matrix& w = weights_.packed;
  const int outputs = shape_.heads * stride_;
  of_->apply(w, of_->activations(inputs_.data(), stride_, shape_.hidden, inputs.size, thread),
             states_.data(), outputs, inputs.size, into::overwrite, thread);
  const share blocks = of_->part(w.blocks(), thread);
  const int last = std::min(blocks.end * outputs_per_block, outputs);
  for (int i = 0; i < inputs.size && !biases_.empty(); ++i) {
    add_to(states_.data() + static_cast<std::ptrdiff_t>(i) * outputs, biases_.data(),
           blocks.begin * outputs_per_block, last);
  }
  for (int i = 0; i < inputs.size; ++i) {
    const float* const hidden = inputs_.data() + static_cast<std::ptrdiff_t>(i) * stride_;
    float* const states = states_.data() + static_cast<std::ptrdiff_t>(i) * outputs;
    for (int o = blocks.begin * outputs_per_block; o < last; o += lanes) {
      store(states + o, engine::load(hidden + o % stride_) + silu(engine::load(states + o)));
    }
  }
}

void medusa_heads::set_head_layout(const hunch::vocab_layout& layout) {
  if (own_.empty()) { return of_->set_head_layout(layout); }
  for (own_head& head : own_) { head.set_layout(layout, of_->pool); }
}
std::uint64_t medusa_heads::head_order() const {
  return own_.empty() ? of_->head_order() : own_.front().order();
}

void medusa_heads::head(const drafted_states& states, const hunch::head_rows<float>& rows) {
  check_rows("engine::medusa_heads", states, rows);
  if (own_.empty()) { return of_->listed_head().multiply(states.states, states.stride, rows); }
  for (std::size_t j = 0; j < own_.size(); ++j) {
    own_[j].multiply(states.states, states.stride, rows, shape_.heads,
                     static_cast<std::int32_t>(j));
  }
}

}  // namespace engine
