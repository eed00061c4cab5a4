// SPDX-License-Identifier: Apache-2.0
#include <engine/early_exit.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

#include <engine/implementation.hpp>
#include <engine/pointwise.hpp>

namespace engine {
namespace {

/// \throws std::invalid_argument unless the target has more layers, and begins with embeddings.
/// \tparam Target a `model::implementation`.
template <class Target>
int checked(const exit_config& shape, const checkpoint& weights, const Target& target) {
  const std::string does = "is an exit after layer " + std::to_string(shape.layer);
  if (target.target != nullptr) {
    target.refuse_head(weights.origin(), does, "is a head of another model");
  }
  if (shape.layer < 1 || shape.layer >= target.shape.layers) {
    target.refuse_head(weights.origin(), does,
                       "has " + std::to_string(target.shape.layers) + " layers");
  }
  return shape.layer;
}

stored_matrix pack(const checkpoint& weights, const char* name, int outputs, int inputs,
                   arithmetic kind) {
  const matrix_view matrix = weights.matrix(name, outputs, inputs);
  return {kind, all_rows(matrix), inputs};
}

}  // namespace

early_exit::early_exit(const exit_config& shape, const checkpoint& weights, model& target)
    : layers_{checked(shape, weights, *target.self_)},
      of_{target.self_.get()},
      norm_{padded(weights.vector("exit.norm.weight", of_->shape.hidden))},
      down_{pack(weights, "exit.down.weight", weights.rows_of("exit.down.weight"),
                 of_->shape.hidden, of_->kind)},
      up_{pack(weights, "exit.up.weight", of_->shape.hidden, weights.rows_of("exit.down.weight"),
               of_->kind)},
      inner_stride_{round_up(down_.packed.outputs(), lanes)},
      result_{std::make_unique<pass_result>()} {
  result_->hidden_size = of_->shape.hidden;
  result_->hidden_stride = of_->hidden_stride;
}
early_exit::early_exit(early_exit&&) noexcept = default;
early_exit& early_exit::operator=(early_exit&&) noexcept = default;
early_exit::~early_exit() = default;

early_exit early_exit::load(const std::filesystem::path& directory, model& target) {
  const auto config_file = directory / "config.json";
  const exit_config shape = read_exit_config(config_file);
  check_target(config_file, target.head_fingerprint(), target.origin());
  return {shape, checkpoint::open(directory), target};
}

std::int32_t early_exit::vocab_size() const { return of_->shape.vocab_size; }

std::int32_t early_exit::context_width() const { return of_->shape.hidden; }

hidden_states early_exit::forward(const hunch::rows& rows) {
  pass_plan& plan = result_->plan;
  of_->slots.stage(rows, layers_, plan);
  // The small map is cheap: it is made of all rows, and those that are wanted are shown.
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    int& output = plan.rows[i].output;
    output = output < 0 ? output : static_cast<int>(i);
  }
  const std::size_t size = plan.rows.size();
  result_->hidden.grow(size * static_cast<std::size_t>(result_->hidden_stride));
  inner_.grow(size * static_cast<std::size_t>(inner_stride_));
  of_->reserve_activations(static_cast<int>(size), inner_stride_);
  of_->run(plan, layers_, [this](int thread) { finish(thread); });
  return hidden_states{*result_};
}

void early_exit::finish(int thread) {
  const auto rows = static_cast<int>(result_->plan.rows.size());
  const int hidden = of_->shape.hidden;
  const int stride = result_->hidden_stride;
  const share mine = of_->part(rows, thread);
  for (int i = mine.begin; i < mine.end; ++i) {
    rms_norm(of_->residual(i), norm_.data(), hidden, of_->shape.norm_epsilon,
             result_->hidden.data() + static_cast<std::ptrdiff_t>(i) * stride);
  }
  of_->pool.barrier();
  const packed_matrix& down = down_.packed;
  of_->apply(down, of_->activations(result_->hidden.data(), stride, hidden, rows, thread),
             inner_.data(), inner_stride_, rows, into::overwrite, thread);
  const share blocks = of_->part(down.blocks(), thread);
  const int last = std::min(blocks.end * outputs_per_block, inner_stride_);
  for (int i = 0; i < rows; ++i) {
    silu(inner_.data() + static_cast<std::ptrdiff_t>(i) * inner_stride_,
         blocks.begin * outputs_per_block, last);
  }
  of_->pool.barrier();
  of_->apply(up_.packed,
             of_->activations(inner_.data(), inner_stride_, down.outputs(), rows, thread),
             result_->hidden.data(), stride, rows, into::add, thread);
}

void early_exit::set_head_layout(const hunch::vocab_layout& layout) {
  of_->set_head_layout(layout);
}
std::uint64_t early_exit::head_order() const { return of_->head_order(); }

void early_exit::head(const hidden_states&, const hunch::head_rows<float>& rows) {
  of_->head(*result_, rows);
}

}  // namespace engine
