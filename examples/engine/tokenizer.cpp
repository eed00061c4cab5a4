// SPDX-License-Identifier: Apache-2.0
#include <engine/tokenizer.hpp>

#include <hunch/tools/fingerprints.hpp>
#include <stdexcept>

#include <engine/text/loaded_tokenizer.hpp>
#include <engine/text/sentencepiece_file.hpp>
#include <engine/text/tokenizer_json.hpp>
#include <engine/text/vocabulary_and_merges.hpp>

namespace engine {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const fs::path& source) {
  if (!fs::is_directory(source)) { return source; }
  if (const auto file = tokenizer::file_in(source)) { return *file; }
  throw std::runtime_error(source.string() +
                           ": has no tokenizer.json, tokenizer.model or vocab.json");
}

std::unique_ptr<text::loaded_tokenizer> load(const fs::path& file) {
  if (file.filename() == "vocab.json") { return text::load_vocabulary_and_merges(file); }
  if (file.extension() == ".json") { return text::load_tokenizer_json(file); }
  return text::load_sentencepiece(file);
}

}  // namespace

tokenizer::tokenizer(const fs::path& source) : self_{load(file_of(source))} {
  fingerprint_ = hunch::vocabulary_fingerprint(vocab_size(), [&](int id) -> const std::string& {
    return self_->pieces[static_cast<std::size_t>(id)];
  });
}

tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;
tokenizer::~tokenizer() = default;

std::optional<fs::path> tokenizer::file_in(const fs::path& directory) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"}) {
    if (fs::exists(directory / name)) { return directory / name; }
  }
  return std::nullopt;
}

const fs::path& tokenizer::file() const { return self_->file; }
int tokenizer::vocab_size() const { return static_cast<int>(self_->bytes.size()); }
hunch::token tokenizer::bos() const { return self_->bos; }
hunch::token tokenizer::eos() const { return self_->eos; }
hunch::token tokenizer::mask() const { return self_->mask; }

std::vector<hunch::token> tokenizer::encode(std::string_view text, bool add_bos) const {
  return self_->encode(text, add_bos);
}

std::string tokenizer::decode(const std::vector<hunch::token>& tokens) const {
  std::string out;
  for (const hunch::token t : tokens) { out += bytes(t); }
  if (self_->drops_first_space && out.starts_with(' ')) { out.erase(0, 1); }
  return out;
}

const std::string& tokenizer::bytes(hunch::token t) const {
  static const std::string nothing;
  return t >= 0 && t < vocab_size() ? self_->bytes[static_cast<std::size_t>(t)] : nothing;
}

}  // namespace engine
