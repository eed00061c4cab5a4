// SPDX-License-Identifier: Apache-2.0
#include <engine/model.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/attention.hpp>
#include <engine/eagle_files.hpp>
#include <engine/implementation.hpp>
#include <engine/tensors.hpp>
#include <hunch/tools/fingerprints.hpp>
#include <hunch/vocab/layouts.hpp>

namespace engine {

std::int32_t hidden_states::size() const {
  return static_cast<std::int32_t>(result_->plan.tokens());
}

hunch::status hidden_states::status(std::int32_t row) const {
  return result_->plan.rows[static_cast<std::size_t>(row)].status;
}

hunch::row_view<const float> hidden_states::hidden(std::int32_t row) const {
  return {result_->hidden.data() +
              result_->output(row) * static_cast<std::size_t>(result_->hidden_stride),
          result_->hidden_size};
}

hunch::row_view<float> evaluation::logits(std::int32_t row) const {
  auto* const logits = const_cast<float*>(result_->logits.data());
  return {logits + result_->output(row) * static_cast<std::size_t>(result_->logits_stride) +
              result_->first_logit,
          result_->end_of_logits - result_->first_logit};
}

hunch::row_view<const float> evaluation::stream(std::int32_t row, std::int32_t j) const {
  if (j < 0 || j >= result_->plan.streams) {
    throw std::out_of_range("engine::model: stream " + std::to_string(j) + " was not asked for");
  }
  const std::size_t at = result_->output(row) * static_cast<std::size_t>(result_->plan.streams) +
                         static_cast<std::size_t>(j);
  return {result_->streams.data() + at * static_cast<std::size_t>(result_->hidden_stride),
          result_->hidden_size};
}

namespace {

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
  for (const int layer : options.feature_layers) {
    if (layer < 0 || layer > shape.layers) {
      throw std::invalid_argument("engine::model: features of layer " + std::to_string(layer) +
                                  " are asked for, and there are " + std::to_string(shape.layers));
    }
  }
  if (options.kind == arithmetic::bf16_dot && !has_bf16_dot()) {
    throw std::invalid_argument("engine::model: this build has no bf16 dot product");
  }
  return shape;
}

/// Of a position: its last state, or those before several layers, one after the other.
int width_of_features(const config& shape, const model_options& options, bool is_head) {
  const int width = round_up(shape.hidden, lanes);
  if (!options.feature_layers.empty()) {
    return static_cast<int>(options.feature_layers.size()) * width;
  }
  return options.keep_features || is_head ? width : 0;
}

}  // namespace

model::implementation::implementation(const config& c, const checkpoint& source,
                                      const model_options& options, implementation* features_of,
                                      kv_layers own, lent_cache from, implementation* copied)
    : named_model{source.origin()},
      shape{checked(c, options)},
      kind{options.kind},
      context{checked_context(c, options.context)},
      pool{options.threads},
      shares{options.threads},
      weights{c, source, options.kind},
      rotary{c.rope, c.head_dim, context},
      own_slots{copied == nullptr ? options.max_batch : 0, context, c.vocab_size},
      own_cache{c, from.of == nullptr && copied == nullptr ? options.max_batch : 0,
                context + max_streams, own},
      slots{copied == nullptr ? own_slots : copied->slots},
      cache{copied == nullptr ? own_cache : copied->cache},
      is_copy{copied != nullptr},
      lent{std::move(from)},
      own_features{width_of_features(c, options, features_of != nullptr), options.max_batch,
                   context},
      partial{round_up(c.hidden, lanes), options.max_batch, 0},
      target{features_of},
      query_size{c.heads * c.head_dim},
      key_value_size{c.kv_heads * c.head_dim},
      hidden_stride{round_up(c.hidden, lanes)},
      projection_stride{round_up(query_size + 2 * key_value_size, lanes)},
      mixed_stride{round_up(query_size, lanes)},
      product_stride{round_up(c.intermediate, lanes)},
      joined_stride{lent.of != nullptr || features_of != nullptr ? round_up(2 * c.hidden, lanes)
                                                                 : 0},
      feature_layers{options.feature_layers} {
  result.hidden_size = c.hidden;
  result.hidden_stride = hidden_stride;
  result.end_of_logits = c.rows_of_head();
  result.logits_stride = round_up(c.rows_of_head(), lanes);
  space.threads.resize(static_cast<std::size_t>(options.threads));
  for (auto& each : space.threads) {
    each.query.grow(static_cast<std::size_t>(attention_queries * c.head_dim));
    each.scores.grow(attention_scratch(context + max_streams, cache.padded_head_dim()));
  }
}

void model::implementation::set_head_layout(const hunch::vocab_layout& layout) {
  if (layout.vocab_size() != shape.vocab_size) {
    throw std::invalid_argument(
        "engine::model: a head layout of " + std::to_string(layout.vocab_size()) +
        " tokens does not fit the model's vocabulary of " + std::to_string(shape.vocab_size));
  }
  if (shortlist_head && shortlist_head->order() == layout.order()) { return; }
  shortlist_head.emplace(weights.listed_head(), layout, pool,
                         head_tokens ? &*head_tokens : nullptr);
}

hunch::vocab_layout model::implementation::own_order() const {
  return head_tokens ? *head_tokens : hunch::vocab_layout::identity(shape.vocab_size);
}

std::uint64_t model::implementation::head_order() const {
  return shortlist_head ? shortlist_head->order() : own_order().order();
}

std::uint64_t model::implementation::head_fingerprint() {
  if (fingerprint == 0) {
    fingerprint = engine::head_fingerprint(weights.known_head(), shape.rows_of_head(),
                                           head_tokens ? &*head_tokens : nullptr);
  }
  return fingerprint;
}

void model::implementation::check_head(const std::filesystem::path& config_file,
                                       implementation& head) {
  check_target(config_file, head_fingerprint(), origin);
  must_share_head(head_fingerprint(), head, head.head_fingerprint());
}

draft_head& model::implementation::listed_head() {
  if (!shortlist_head) { set_head_layout(own_order()); }
  return *shortlist_head;
}

void model::implementation::head(const pass_result& of, const hunch::head_rows<float>& rows) {
  head_outputs.clear();
  for (std::int32_t i = 0; i < rows.size; ++i) {
    head_outputs.push_back(static_cast<std::int32_t>(of.output(rows.row[i])));
  }
  listed_head().multiply(of.hidden.data(), of.hidden_stride,
                         {rows.size, head_outputs.data(), rows.lists, rows.logits});
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
std::int32_t model::context_width() const { return self_->shape.hidden; }
int model::context() const { return self_->context; }
int model::max_batch() const { return self_->slots.slots(); }
int model::length(int slot) const { return self_->slots.length(slot); }
std::size_t model::weight_bytes() const { return self_->weights.bytes(); }
std::uint64_t model::layer_rows() const { return self_->layer_rows; }

evaluation model::evaluate(const hunch::rows& rows) {
  self_->run(rows, true);
  return evaluation{self_->result};
}

hidden_states model::forward(const hunch::rows& rows) {
  self_->run(rows, false);
  return hidden_states{self_->result};
}

const std::string& model::origin() const { return self_->origin; }
std::uint64_t model::head_fingerprint() const { return self_->head_fingerprint(); }
hunch::made_for model::made_for() const {
  return {.vocab_size = vocab_size(),
          .vocabulary = shape().vocabulary,
          .head = head_fingerprint(),
          .name = origin()};
}

void model::set_logit_range(std::int32_t first, std::int32_t end) {
  if (first < 0 || end < first || end > self_->shape.rows_of_head()) {
    throw std::invalid_argument("engine::model: there are no logits of the tokens from " +
                                std::to_string(first) + " to " + std::to_string(end));
  }
  self_->result.first_logit = first;
  self_->result.end_of_logits = end;
}
void model::set_head_layout(const hunch::vocab_layout& layout) { self_->set_head_layout(layout); }
std::uint64_t model::head_order() const { return self_->head_order(); }
void model::head(const hidden_states&, const hunch::head_rows<float>& rows) {
  self_->head(self_->result, rows);
}

void model::commit(const hunch::kept_rows& kept) noexcept {
  implementation& m = *self_;
  for (std::int32_t i = 0; i < kept.size; ++i) {
    const int slot = kept.slot[i];
    const int staged = m.slots.staged_index(slot, kept.id[i], m.shape.layers);
    const int position = staged < 0 ? -1 : m.slots.append(slot);
    if (position >= 0) {
      for (int layer = 0; layer < m.shape.layers; ++layer) {
        for (int head = 0; head < m.shape.kv_heads; ++head) {
          m.cache.place(slot, layer, head, position, staged);
        }
      }
      if (m.own_features.kept()) { m.own_features.keep(slot, position, staged); }
    }
    const bool last = i + 1 == kept.size || kept.slot[i + 1] != slot;
    if (last && slot >= 0 && slot < m.slots.slots()) { m.slots.discard_staged(slot); }
  }
  for (std::int32_t i = 0; i < kept.release_count; ++i) {
    const int slot = kept.released[i];
    if (slot >= 0 && slot < m.slots.slots()) { m.slots.release(slot); }
  }
}

namespace {

constexpr const char* head_without_target =
    "engine::eagle_model: the target keeps no features: set model_options::keep_features";

}  // namespace

checkpoint head_of_target(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, config::naming names) {
  const tensor_names& shared = names_of(names);
  checkpoint out = checkpoint::open(directory);
  out.add_missing(checkpoint::open(target_directory), {std::string(shared.embedding) + ".weight",
                                                       std::string(shared.head) + ".weight"});
  return out;
}

namespace {

/// \throws std::invalid_argument unless a head fits its target. \tparam Target its implementation.
template <class Target>
void check_eagle(const config& shape, const checkpoint& weights, const Target& of) {
  const std::string& head = weights.origin();
  of.must_have("vocabulary size", of.shape.vocab_size, head, shape.vocab_size);
  if (!weights.has("model.fc.weight")) {
    throw std::runtime_error(head + ": tensor \"model.fc.weight\" is missing");
  }
  if (!of.own_features.kept()) { throw std::invalid_argument(head_without_target); }
  if (shape.eagle.reads_both) {
    const int kept = of.feature_layers.empty() ? 0 : of.own_features.width();
    of.must_have("width of what model_options::feature_layers keeps", kept, head,
                 shape.eagle.feature_width);
  } else {
    of.must_have("hidden size", of.shape.hidden, head, shape.hidden);
    if (!of.feature_layers.empty()) {
      of.refuse_head(head, "reads the last state",
                     "keeps others: leave model_options::feature_layers empty");
    }
  }
  if (shape.tied_head) {
    const auto head_of = [](const config& c) {
      return std::string(c.tied_head ? "its embedding" : "a matrix of its own");
    };
    of.must_have("head", head_of(of.shape), head, head_of(shape));
  }
}

}  // namespace

eagle_model::eagle_model(const config& shape, const checkpoint& weights, model& target,
                         const model_options& options)
    : model([&] {
        implementation& of = *target.self_;
        check_eagle(shape, weights, of);
        model_options own = options;
        own.feature_layers.clear();
        auto out = std::make_unique<implementation>(shape, weights, own, &of);
        if (shape.eagle.head_rows != 0 && weights.has("d2t")) {
          out->head_tokens = hunch::from_d2t(weights.integers("d2t"), shape.vocab_size);
        }
        of.must_have("number of rows of the head that \"d2t\" names", shape.rows_of_head(),
                     weights.origin(), out->own_order().head_rows());
        return out;
      }()) {}

eagle_model eagle_model::load(const std::filesystem::path& directory,
                              const std::filesystem::path& target_directory, model& target,
                              const model_options& options) {
  const eagle_files files = eagle_files::open(directory, target_directory, target.shape());
  eagle_model out(files.shape, files.weights, target, options);
  const auto config_file = directory / "config.json";
  if (files.shape.eagle.head_rows == 0) {
    target.self_->check_head(config_file, *out.self_);
  } else {
    check_target(config_file, target.head_fingerprint(), target.origin());
  }
  return out;
}

const hunch::vocab_layout* eagle_model::head_tokens() const {
  return self_->head_tokens ? &*self_->head_tokens : nullptr;
}

hunch::context_rows eagle_model::inputs(const hunch::rows& rows) { return self_->inputs_of(rows); }
std::int32_t eagle_model::input_width() const { return 2 * self_->shape.hidden; }

}  // namespace engine
