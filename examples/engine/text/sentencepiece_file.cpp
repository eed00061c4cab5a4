// SPDX-License-Identifier: Apache-2.0
#include <engine/text/sentencepiece_file.hpp>

#include <sentencepiece_processor.h>

#include <cstddef>
#include <stdexcept>
#include <string>

#include <engine/text/metaspace.hpp>

namespace engine::text {
namespace {

std::string piece_bytes(const sentencepiece::SentencePieceProcessor& processor, int id) {
  if (processor.IsControl(id)) { return {}; }
  const std::string& piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) {  // "<0xNN>"
    return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};
  }
  if (processor.IsUnknown(id)) { return processor.DecodeIds(std::vector<int>{id}); }
  return metaspace().read(piece);
}

class sentencepiece_tokenizer final : public loaded_tokenizer {
 public:
  explicit sentencepiece_tokenizer(const std::filesystem::path& from) {
    file = from;
    const auto status = processor_.Load(file.string());
    if (!status.ok()) {
      throw std::runtime_error(file.string() + ": cannot be read: " + status.ToString());
    }
    const int size = processor_.GetPieceSize();
    for (int id = 0; id < size; ++id) {
      pieces.push_back(processor_.IdToPiece(id));
      bytes.push_back(piece_bytes(processor_, id));
    }
    bos = processor_.bos_id();
    eos = processor_.eos_id();
    // Whether encoding puts a space before the first word shows in what it makes of one letter.
    std::vector<int> ids;
    if (processor_.Encode("a", &ids).ok() && !ids.empty()) {
      drops_first_space = bytes[static_cast<std::size_t>(ids.front())].starts_with(' ');
    }
  }

  std::vector<hunch::token> encode(std::string_view text, bool add_bos) const override {
    std::vector<int> ids;
    const auto status = processor_.Encode(text, &ids);
    if (!status.ok()) { throw std::runtime_error("engine::tokenizer: " + status.ToString()); }
    std::vector<hunch::token> out;
    out.reserve(ids.size() + 1);
    if (add_bos && bos >= 0) { out.push_back(bos); }
    out.insert(out.end(), ids.begin(), ids.end());
    return out;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<loaded_tokenizer> load_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<sentencepiece_tokenizer>(file);
}

}  // namespace engine::text
