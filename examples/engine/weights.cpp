// SPDX-License-Identifier: Apache-2.0
#include <engine/weights.hpp>

#include <algorithm>
#include <string>

#include <engine/pointwise.hpp>

namespace engine {
namespace {

constexpr const char* joint_name = "model.fc.weight";

std::size_t arena_bytes(const config& c, arithmetic kind, bool has_joint) {
  const auto bytes = [&](int outputs, int inputs) {
    return packed_matrix::bytes(kind, outputs, inputs);
  };
  const int query = c.heads * c.head_dim;
  const std::size_t layer =
      bytes(query + 2 * c.kv_heads * c.head_dim, c.hidden) + bytes(c.hidden, query) +
      bytes(2 * round_up(c.intermediate, lanes), c.hidden) + bytes(c.hidden, c.intermediate);
  return static_cast<std::size_t>(c.layers) * layer + bytes(c.vocab_size, c.hidden) +
         (has_joint ? bytes(c.hidden, 2 * c.hidden) : 0);
}

}  // namespace

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

std::vector<tensor_shape> tensors_of(const config& c) {
  const int query = c.heads * c.head_dim;
  const int key_value = c.kv_heads * c.head_dim;
  std::vector<tensor_shape> out{{"model.embed_tokens.weight", {c.vocab_size, c.hidden}}};
  for (int l = 0; l < c.layers; ++l) {
    const std::string name = "model.layers." + std::to_string(l) + ".";
    out.push_back({name + "input_layernorm.weight", {c.hidden}});
    out.push_back({name + "self_attn.q_proj.weight", {query, c.hidden}});
    out.push_back({name + "self_attn.k_proj.weight", {key_value, c.hidden}});
    out.push_back({name + "self_attn.v_proj.weight", {key_value, c.hidden}});
    out.push_back({name + "self_attn.o_proj.weight", {c.hidden, query}});
    out.push_back({name + "post_attention_layernorm.weight", {c.hidden}});
    out.push_back({name + "mlp.gate_proj.weight", {c.intermediate, c.hidden}});
    out.push_back({name + "mlp.up_proj.weight", {c.intermediate, c.hidden}});
    out.push_back({name + "mlp.down_proj.weight", {c.hidden, c.intermediate}});
  }
  out.push_back({"model.norm.weight", {c.hidden}});
  if (!c.tied_head) { out.push_back({"lm_head.weight", {c.vocab_size, c.hidden}}); }
  return out;
}

model_weights::model_weights(const config& c, const checkpoint& source, arithmetic kind)
    : kind_{kind}, arena_{arena_bytes(c, kind, source.has(joint_name))} {
  const int query = c.heads * c.head_dim;
  const int key_value = c.kv_heads * c.head_dim;
  if (source.has(joint_name)) {
    joint_ = pack(all_rows(source.matrix(joint_name, c.hidden, 2 * c.hidden)), 2 * c.hidden);
  }
  for (int l = 0; l < c.layers; ++l) {
    const std::string name = "model.layers." + std::to_string(l) + ".";
    const auto matrix = [&](const char* part, int rows, int columns) {
      return source.matrix(name + part + ".weight", rows, columns);
    };
    layer_weights layer;
    layer.attention_norm = padded(source.vector(name + "input_layernorm.weight", c.hidden));
    layer.mlp_norm = padded(source.vector(name + "post_attention_layernorm.weight", c.hidden));

    const matrix_view q = matrix("self_attn.q_proj", query, c.hidden);
    const matrix_view k = matrix("self_attn.k_proj", key_value, c.hidden);
    const matrix_view v = matrix("self_attn.v_proj", key_value, c.hidden);
    std::vector<weight_row> qkv = all_rows(q);
    append_rows(qkv, k);
    append_rows(qkv, v);
    layer.query_key_value = pack(qkv, c.hidden);
    layer.output = pack(all_rows(matrix("self_attn.o_proj", c.hidden, query)), query);

    const matrix_view gate = matrix("mlp.gate_proj", c.intermediate, c.hidden);
    const matrix_view up = matrix("mlp.up_proj", c.intermediate, c.hidden);
    layer.gate_up = pack(interleave(gate, up), c.hidden);
    layer.down = pack(all_rows(matrix("mlp.down_proj", c.hidden, c.intermediate)), c.intermediate);
    layers_.push_back(std::move(layer));
  }
  final_norm_ = padded(source.vector("model.norm.weight", c.hidden));

  const matrix_view embedding = source.matrix("model.embed_tokens.weight", c.vocab_size, c.hidden);
  const matrix_view head =
      c.tied_head ? embedding : source.matrix("lm_head.weight", c.vocab_size, c.hidden);
  head_ = pack(all_rows(head), c.hidden);
  embedding_ = kept_matrix(embedding);
  if (kind == arithmetic::int4 && !c.tied_head) { own_head_ = kept_matrix(head); }
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
