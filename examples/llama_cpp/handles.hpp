// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llama.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace llama_cpp {

namespace detail {

struct free_model {
  void operator()(llama_model* m) const { llama_model_free(m); }
};
struct free_context {
  void operator()(llama_context* c) const { llama_free(c); }
};

}  // namespace detail

/// What llama.cpp sets up once, and what of its log is shown: errors only.
class backend {
 public:
  backend() {
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) { std::fputs(text, stderr); }
        },
        nullptr);
    llama_backend_init();
  }
  ~backend() { llama_backend_free(); }
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
};

/// The weights and the vocabulary of a GGUF file. Copies share them.
class weights {
 public:
  /// \throws std::runtime_error for a file that llama.cpp does not load.
  explicit weights(std::string path)
      : path_(std::move(path)),
        model_(llama_model_load_from_file(path_.c_str(), llama_model_default_params()),
               detail::free_model()) {
    if (model_ == nullptr) { throw std::runtime_error(path_ + ": llama.cpp cannot load it"); }
  }

  const std::string& path() const { return path_; }
  llama_model* get() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model_.get()); }
  int vocab_size() const { return llama_vocab_n_tokens(vocab()); }
  int width() const { return llama_model_n_embd(model_.get()); }

 private:
  std::string path_;
  std::shared_ptr<llama_model> model_;
};

}  // namespace llama_cpp
