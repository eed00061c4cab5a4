// SPDX-License-Identifier: Apache-2.0
#include <engine/quantised_target.hpp>

#include <memory>

#include <engine/implementation.hpp>

namespace engine {

quantised_target::quantised_target(const checkpoint& weights, model& target, arithmetic kind,
                                   int threads)
    : copy_{[&] {
        model::implementation& of = *target.self_;
        if (of.target != nullptr) {
          of.refuse_head(weights.origin(), "is a copy of a whole model",
                         "is a head of another model");
        }
        model_options options;
        options.kind = kind;
        options.threads = threads;
        options.context = of.context;
        options.max_batch = of.slots.slots();
        auto copy = std::make_unique<model::implementation>(of.shape, weights, options, nullptr,
                                                            kv_layers{}, lent_cache{}, &of);
        of.must_share_head(of.head_fingerprint(), *copy, copy->head_fingerprint());
        return copy;
      }()} {}
quantised_target::quantised_target(quantised_target&&) noexcept = default;
quantised_target& quantised_target::operator=(quantised_target&&) noexcept = default;
quantised_target::~quantised_target() = default;

quantised_target quantised_target::load(const std::filesystem::path& directory, model& target,
                                        arithmetic kind, int threads) {
  return {checkpoint::open(directory), target, kind, threads};
}

std::int32_t quantised_target::vocab_size() const { return copy_.vocab_size(); }
std::int32_t quantised_target::context_width() const { return copy_.context_width(); }
std::size_t quantised_target::weight_bytes() const { return copy_.weight_bytes(); }

hidden_states quantised_target::forward(const hunch::rows& rows) { return copy_.forward(rows); }

void quantised_target::set_head_layout(const hunch::vocab_layout& layout) {
  copy_.set_head_layout(layout);
}
std::uint64_t quantised_target::head_order() const { return copy_.head_order(); }

void quantised_target::head(const hidden_states& states, const hunch::head_rows<float>& rows) {
  copy_.head(states, rows);
}

}  // namespace engine
