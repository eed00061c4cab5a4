// SPDX-License-Identifier: Apache-2.0
#include <engine/tokenizer.hpp>

#include <sentencepiece_processor.h>

#include <hunch/tools/fingerprints.hpp>
#include <stdexcept>

namespace engine {
namespace {

std::string piece_bytes(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsControl(id)) { return {}; }
  const std::string& piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) {  // "<0xNN>"
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  }
  if (processor.IsUnknown(id)) { return processor.DecodeIds(std::vector<int>{id}); }
  constexpr std::string_view space = "\xe2\x96\x81";
  std::string out;
  for (std::size_t i = 0; i < piece.size();) {
    if (piece.compare(i, space.size(), space) == 0) {
      out += ' ';
      i += space.size();
    } else {
      out += piece[i++];
    }
  }
  return out;
}

}  // namespace

struct tokenizer::implementation {
  sentencepiece::SentencePieceProcessor processor;
  std::vector<std::string> bytes;
  std::string nothing;
  bool adds_dummy_prefix = false;
};

tokenizer::tokenizer(const std::filesystem::path& source)
    : self_{std::make_unique<implementation>()} {
  const auto file = std::filesystem::is_directory(source) ? source / "tokenizer.model" : source;
  const auto status = self_->processor.Load(file.string());
  if (!status.ok()) {
    throw std::runtime_error(file.string() + ": cannot be read: " + status.ToString());
  }
  const int size = self_->processor.GetPieceSize();
  self_->bytes.reserve(static_cast<std::size_t>(size));
  for (int id = 0; id < size; ++id) { self_->bytes.push_back(piece_bytes(self_->processor, id)); }
  fingerprint_ = hunch::vocabulary_fingerprint(
      size, [&](int id) -> const std::string& { return self_->processor.IdToPiece(id); });
  // Whether encoding puts a space before the first word shows in what it makes of one letter.
  std::vector<int> ids;
  if (self_->processor.Encode("a", &ids).ok() && !ids.empty()) {
    self_->adds_dummy_prefix = bytes(ids.front()).starts_with(' ');
  }
}

tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

int tokenizer::vocab_size() const { return static_cast<int>(self_->bytes.size()); }
hunch::token tokenizer::bos() const { return self_->processor.bos_id(); }
hunch::token tokenizer::eos() const { return self_->processor.eos_id(); }

std::vector<hunch::token> tokenizer::encode(std::string_view text, bool add_bos) const {
  std::vector<int> ids;
  const auto status = self_->processor.Encode(text, &ids);
  if (!status.ok()) { throw std::runtime_error("engine::tokenizer: " + status.ToString()); }
  std::vector<hunch::token> out;
  out.reserve(ids.size() + 1);
  if (add_bos && bos() >= 0) { out.push_back(bos()); }
  out.insert(out.end(), ids.begin(), ids.end());
  return out;
}

std::string tokenizer::decode(const std::vector<hunch::token>& tokens) const {
  std::string out;
  for (const hunch::token t : tokens) { out += bytes(t); }
  if (self_->adds_dummy_prefix && out.starts_with(' ')) { out.erase(0, 1); }
  return out;
}

const std::string& tokenizer::bytes(hunch::token t) const {
  return t >= 0 && t < vocab_size() ? self_->bytes[static_cast<std::size_t>(t)] : self_->nothing;
}

}  // namespace engine
