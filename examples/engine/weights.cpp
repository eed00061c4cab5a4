// SPDX-License-Identifier: Apache-2.0
#include <engine/weights.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <engine/pointwise.hpp>

namespace engine {
namespace {

constexpr const char* joint_name = "model.fc.weight";
constexpr const char* joint_bias_name = "model.fc.bias";
constexpr const char* embedding_norm_name = "model.embedding_norm";
constexpr const char* state_norm_name = "model.state_norm";
constexpr const char* feature_norm_names = "model.feature_norm.";  // and a number

/// That the checkpoint has what the config says: before memory of that size is asked for.
const checkpoint& checked(const config& c, const checkpoint& source) {
  for (const tensor_shape& t : tensors_of(c)) {
    if (t.is_vector()) {
      source.vector(t.name, static_cast<int>(t.shape[0]));
    } else {
      source.matrix(t.name, static_cast<int>(t.shape[0]), static_cast<int>(t.shape[1]));
    }
  }
  return source;
}

std::size_t arena_bytes(const config& c, arithmetic kind, bool has_joint) {
  const auto bytes = [&](int outputs, int inputs) {
    return packed_matrix::bytes(kind, outputs, inputs);
  };
  const int query = c.heads * c.head_dim;
  const std::size_t layer =
      bytes(query + 2 * c.kv_heads * c.head_dim, c.attention_inputs()) + bytes(c.hidden, query) +
      bytes(2 * round_up(c.intermediate, lanes), c.hidden) + bytes(c.hidden, c.intermediate);
  return static_cast<std::size_t>(c.layers) * layer + bytes(c.rows_of_head(), c.hidden) +
         (has_joint ? bytes(c.hidden, c.joint_inputs()) : 0);
}

}  // namespace

std::vector<float> read_biases(const checkpoint& source, const std::string& layer,
                               const tensor_names& names, const config& c) {
  std::vector<float> out;
  const auto append = [&](const char* part, int heads) {
    const std::vector<float> bias = source.vector(layer + part + ".bias", heads * c.head_dim);
    out.insert(out.end(), bias.begin(), bias.end());
  };
  append(names.query, c.heads);
  append(names.key, c.kv_heads);
  append(names.value, c.kv_heads);
  return out;
}

std::vector<weight_row> interleave(const matrix_view& gate, const matrix_view& up) {
  std::vector<weight_row> out;
  for (int first = 0; first < gate.rows; first += lanes) {
    for (const matrix_view* from : {&gate, &up}) {
      for (int row = first; row < first + lanes; ++row) {
        out.push_back(row < from->rows ? weight_row{from, row} : weight_row{});
      }
    }
  }
  return out;
}

const tensor_names& names_of(config::naming names) {
  static constexpr tensor_names llama{"model.embed_tokens",
                                      "model.layers.",
                                      "input_layernorm",
                                      "self_attn.q_proj",
                                      "self_attn.k_proj",
                                      "self_attn.v_proj",
                                      "self_attn.q_norm",
                                      "self_attn.k_norm",
                                      "self_attn.o_proj",
                                      "post_attention_layernorm",
                                      "mlp.gate_proj",
                                      "mlp.up_proj",
                                      "mlp.down_proj",
                                      "model.norm",
                                      "lm_head"};
  static constexpr tensor_names llada{"model.transformer.wte",
                                      "model.transformer.blocks.",
                                      "attn_norm",
                                      "q_proj",
                                      "k_proj",
                                      "v_proj",
                                      nullptr,
                                      nullptr,
                                      "attn_out",
                                      "ff_norm",
                                      "ff_proj",
                                      "up_proj",
                                      "ff_out",
                                      "model.transformer.ln_f",
                                      "model.transformer.ff_out"};
  return names == config::naming::llada ? llada : llama;
}

std::vector<tensor_shape> tensors_of(const config& c) {
  const tensor_names& names = names_of(c.names);
  const int query = c.heads * c.head_dim;
  const int key_value = c.kv_heads * c.head_dim;
  std::vector<tensor_shape> out;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    out.push_back({name + ".weight", std::move(shape)});
  };
  const auto add_biased = [&](const std::string& name, int outputs) {
    add(name, {outputs, c.attention_inputs()});
    if (c.qkv_bias) { out.push_back({name + ".bias", {outputs}}); }
  };
  add(names.embedding, {c.rows_of_embedding(), c.hidden});
  for (int l = 0; l < c.layers; ++l) {
    const std::string layer = names.layer(l);
    if (l > 0 || c.eagle.first_norm) { add(layer + names.attention_norm, {c.hidden}); }
    add_biased(layer + names.query, query);
    add_biased(layer + names.key, key_value);
    add_biased(layer + names.value, key_value);
    if (c.qk_norm) {
      add(layer + names.query_norm, {c.head_dim});
      add(layer + names.key_norm, {c.head_dim});
    }
    add(layer + names.output, {c.hidden, query});
    add(layer + names.mlp_norm, {c.hidden});
    add(layer + names.gate, {c.intermediate, c.hidden});
    add(layer + names.up, {c.intermediate, c.hidden});
    add(layer + names.down, {c.hidden, c.intermediate});
  }
  if (c.eagle.last_norm) { add(names.final_norm, {c.hidden}); }
  if (c.eagle.reads_both || c.eagle.norms_inputs) { add(embedding_norm_name, {c.hidden}); }
  if (c.eagle.norms_inputs) { add(state_norm_name, {c.hidden}); }
  for (int k = 0; k < c.eagle.feature_norms; ++k) {
    add(feature_norm_names + std::to_string(k), {c.eagle.feature_width / c.eagle.feature_norms});
  }
  const int head_rows = c.eagle.head_rows == 0 ? c.rows_of_embedding() : c.eagle.head_rows;
  if (!c.tied_head) { add(names.head, {head_rows, c.hidden}); }
  return out;
}

model_weights::model_weights(const config& c, const checkpoint& source, arithmetic kind)
    : kind_{kind}, arena_{arena_bytes(c, kind, checked(c, source).has(joint_name))} {
  const tensor_names& names = names_of(c.names);
  const int query = c.heads * c.head_dim;
  const int key_value = c.kv_heads * c.head_dim;
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    return source.matrix(name + ".weight", rows, columns);
  };
  const auto norm = [&](const std::string& name) {
    return padded(source.vector(name + ".weight", c.hidden));
  };
  if (source.has(joint_name)) {
    const int inputs = c.joint_inputs();
    joint_ = pack(all_rows(source.matrix(joint_name, c.hidden, inputs)), inputs);
  }
  if (source.has(joint_bias_name)) {
    joint_bias_ = padded(source.vector(joint_bias_name, c.hidden));
  }
  if (c.eagle.reads_both || c.eagle.norms_inputs) { embedding_norm_ = norm(embedding_norm_name); }
  if (c.eagle.norms_inputs) { state_norm_ = norm(state_norm_name); }
  for (int k = 0; k < c.eagle.feature_norms; ++k) {
    const std::vector<float> part =
        source.vector(feature_norm_names + std::to_string(k) + ".weight",
                      c.eagle.feature_width / c.eagle.feature_norms);
    feature_norms_.insert(feature_norms_.end(), part.begin(), part.end());
  }
  for (int l = 0; l < c.layers; ++l) {
    const std::string name = names.layer(l);
    layer_weights layer;
    if (l > 0 || c.eagle.first_norm) { layer.attention_norm = norm(name + names.attention_norm); }
    layer.mlp_norm = norm(name + names.mlp_norm);

    const int inputs = c.attention_inputs();
    const matrix_view q = matrix(name + names.query, query, inputs);
    const matrix_view k = matrix(name + names.key, key_value, inputs);
    const matrix_view v = matrix(name + names.value, key_value, inputs);
    std::vector<weight_row> qkv = all_rows(q);
    append_rows(qkv, k);
    append_rows(qkv, v);
    layer.query_key_value = pack(qkv, inputs);
    if (c.qkv_bias) { layer.query_key_value_bias = padded(read_biases(source, name, names, c)); }
    if (c.qk_norm) {
      layer.query_norm = source.vector(name + names.query_norm + ".weight", c.head_dim);
      layer.key_norm = source.vector(name + names.key_norm + ".weight", c.head_dim);
    }
    layer.output = pack(all_rows(matrix(name + names.output, c.hidden, query)), query);

    const matrix_view gate = matrix(name + names.gate, c.intermediate, c.hidden);
    const matrix_view up = matrix(name + names.up, c.intermediate, c.hidden);
    layer.gate_up = pack(interleave(gate, up), c.hidden);
    layer.down =
        pack(all_rows(matrix(name + names.down, c.hidden, c.intermediate)), c.intermediate);
    layers_.push_back(std::move(layer));
  }
  if (c.eagle.last_norm) { final_norm_ = norm(names.final_norm); }

  const matrix_view embedding = matrix(names.embedding, c.rows_of_embedding(), c.hidden);
  const int head_rows = c.eagle.head_rows == 0 ? c.rows_of_embedding() : c.eagle.head_rows;
  matrix_view head = c.tied_head ? embedding : matrix(names.head, head_rows, c.hidden);
  head.rows = c.rows_of_head();
  head_ = pack(all_rows(head), c.hidden);
  embedding_ = kept_matrix(embedding);
  if (keeps_head(kind) && !c.tied_head) { own_head_ = kept_matrix(head); }
}

model_weights::kept_matrix::kept_matrix(const matrix_view& from) : view{from} {
  const auto rows = static_cast<std::size_t>(from.rows);
  const std::size_t size = rows * static_cast<std::size_t>(from.columns) * size_of(from.type);
  bytes.grow(size);
  std::copy_n(from.data, size, bytes.data());
  view.data = bytes.data();
  if (from.scale != nullptr) {
    scale.grow(rows * sizeof(float));
    std::copy_n(from.scale, rows * sizeof(float), scale.data());
    view.scale = scale.data();
  }
}

packed_matrix model_weights::pack(const std::vector<weight_row>& rows, int inputs) {
  std::byte* const where = arena_.data() + used_;
  used_ += packed_matrix::bytes(kind_, static_cast<int>(rows.size()), inputs);
  return {kind_, rows, inputs, where};
}

void model_weights::embed(int token, float* out) const {
  embedding_.view.read_row(token, out);
  const float scale = embedding_.view.scale_of(token);
  for (int i = 0; i < embedding_.view.columns; ++i) { out[i] *= scale; }
}

}  // namespace engine
