// SPDX-License-Identifier: Apache-2.0
#include "vocabulary.hpp"

#include <llama.h>

#include <cstdint>
#include <stdexcept>

#include <hunch/tools/fingerprints.hpp>

#include "gguf_head.hpp"

namespace llama_cpp {
namespace {

[[noreturn]] void refuse(const weights& target, const weights& draft, const std::string& what) {
  throw std::runtime_error(target.path() + " and " + draft.path() +
                           " have not the same vocabulary: " + what);
}

void compare(const weights& target, const weights& draft, const char* what, int of_target,
             int of_draft) {
  if (of_target == of_draft) { return; }
  refuse(target, draft,
         std::string(what) + " is " + std::to_string(of_target) + " in the first, and " +
             std::to_string(of_draft) + " in the second");
}

}  // namespace

std::vector<hunch::token> encode(const weights& of, std::string_view text) {
  std::vector<hunch::token> out(text.size() + 2);
  const auto put = [&] {
    return llama_tokenize(of.vocab(), text.data(), static_cast<std::int32_t>(text.size()),
                          out.data(), static_cast<std::int32_t>(out.size()), true, true);
  };
  std::int32_t count = put();
  if (count < 0 && count != INT32_MIN) {  // the room that it takes
    out.resize(static_cast<std::size_t>(-count));
    count = put();
  }
  if (count < 0) { throw std::runtime_error(of.path() + ": cannot make tokens of the prompt"); }
  out.resize(static_cast<std::size_t>(count));
  return out;
}

std::string bytes_of(const weights& of, hunch::token t) {
  std::string out(32, '\0');
  const auto put = [&] {
    return llama_token_to_piece(of.vocab(), t, out.data(), static_cast<std::int32_t>(out.size()), 0,
                                false);
  };
  std::int32_t size = put();
  if (size < 0) {
    out.resize(static_cast<std::size_t>(-size));
    size = put();
  }
  out.resize(static_cast<std::size_t>(size));
  return out;
}

std::vector<hunch::token> ends_of(const weights& of) {
  std::vector<hunch::token> out;
  for (hunch::token t = 0; t < of.vocab_size(); ++t) {
    if (llama_vocab_is_eog(of.vocab(), t)) { out.push_back(t); }
  }
  return out;
}

void check_same_vocabulary(const weights& target, const weights& draft) {
  const llama_vocab* const a = target.vocab();
  const llama_vocab* const b = draft.vocab();
  compare(target, draft, "the number of tokens", target.vocab_size(), draft.vocab_size());
  compare(target, draft, "the kind of tokenizer", llama_vocab_type(a), llama_vocab_type(b));
  for (hunch::token t = 0; t < target.vocab_size(); ++t) {
    const std::string_view of_target = llama_vocab_get_text(a, t);
    const std::string_view of_draft = llama_vocab_get_text(b, t);
    if (of_target != of_draft) {
      refuse(target, draft,
             "token " + std::to_string(t) + " is '" + std::string(of_target) +
                 "' in the first, and '" + std::string(of_draft) + "' in the second");
    }
  }
}

hunch::made_for made_for_head_of(const weights& of) {
  gguf_head head(of.path());
  std::uint64_t sum = 0;
  if (head.is_plain()) {
    std::vector<float> row(static_cast<std::size_t>(head.width()));
    for (hunch::token t = 0; t < head.rows(); ++t) {
      head.read_row(t, row.data());
      sum += hunch::row_fingerprint(t, row.data(), head.width());
    }
    sum = sum == 0 ? 1 : sum;
  }
  return {.vocab_size = of.vocab_size(),
          .vocabulary = hunch::vocabulary_fingerprint(
              of.vocab_size(), [&](hunch::token t) { return llama_vocab_get_text(of.vocab(), t); }),
          .head = sum,
          .name = of.path()};
}

}  // namespace llama_cpp
