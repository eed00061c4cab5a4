// SPDX-License-Identifier: Apache-2.0
#include "gguf_head.hpp"

#include <gguf.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace llama_cpp {
namespace {

struct free_gguf {
  void operator()(gguf_context* g) const { gguf_free(g); }
};
struct free_ggml {
  void operator()(ggml_context* g) const { ggml_free(g); }
};

}  // namespace

gguf_head::gguf_head(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  ggml_context* shapes = nullptr;
  const std::unique_ptr<gguf_context, free_gguf> file(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = &shapes}));
  const std::unique_ptr<ggml_context, free_ggml> owned(shapes);
  if (file == nullptr || !file_) { throw std::runtime_error(path + ": is not a GGUF file"); }
  for (const char* name : {"output.weight", "token_embd.weight"}) {
    const std::int64_t id = gguf_find_tensor(file.get(), name);
    if (id < 0) { continue; }
    const ggml_tensor* const shape = ggml_get_tensor(shapes, name);
    type_ = shape->type;
    width_ = static_cast<int>(shape->ne[0]);
    rows_ = static_cast<int>(shape->ne[1]);
    begin_ = gguf_get_data_offset(file.get()) + gguf_get_tensor_offset(file.get(), id);
    bytes_.resize(ggml_row_size(type_, width_));
    return;
  }
  throw std::runtime_error(path + ": has no tensor 'output.weight' or 'token_embd.weight'");
}

bool gguf_head::is_plain() const {
  return type_ == GGML_TYPE_F32 || type_ == GGML_TYPE_F16 || type_ == GGML_TYPE_BF16;
}

void gguf_head::read_row(int row, float* out) {
  file_.seekg(static_cast<std::streamoff>(begin_ + bytes_.size() * static_cast<std::size_t>(row)));
  if (!file_.read(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) {
    throw std::runtime_error(path_ + ": ends within its head");
  }
  if (type_ == GGML_TYPE_F32) {
    std::memcpy(out, bytes_.data(), bytes_.size());
  } else {
    ggml_get_type_traits(type_)->to_float(bytes_.data(), out, width_);
  }
}

}  // namespace llama_cpp
