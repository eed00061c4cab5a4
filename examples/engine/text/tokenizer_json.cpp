// SPDX-License-Identifier: Apache-2.0
#include <engine/text/tokenizer_json.hpp>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <engine/text/added_tokens.hpp>
#include <engine/text/decoding.hpp>
#include <engine/text/json_fields.hpp>
#include <engine/text/model_json.hpp>
#include <engine/text/named_tokens.hpp>
#include <engine/text/normalizer.hpp>
#include <engine/text/pre_tokenizer.hpp>
#include <engine/text/spellings.hpp>
#include <engine/text/subwords.hpp>
#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

class json_tokenizer final : public loaded_tokenizer {
 public:
  json_tokenizer(const config_object& of, std::filesystem::path from) {
    file = std::move(from);
    if (of.has("normalizer")) { normalized_ = normalizer(of.child("normalizer")); }
    if (of.has("pre_tokenizer")) { cut_ = pre_tokenizer(of.child("pre_tokenizer")); }
    model_ = read_model(of.child("model"));
    pieces = model_->spelled().by_token();
    read_bytes(of);
    if (of.has("added_tokens")) { read_added(of); }
    if (of.has("post_processor")) { read_front(of.child("post_processor")); }
    const named_tokens named = read_named_tokens(file.parent_path(), pieces);
    bos = named.bos;
    eos = named.eos;
    mask = named.mask;
    if (!has_template_ && bos != hunch::no_token && puts_bos(file.parent_path())) {
      front_ = {bos};
    }
  }

  std::vector<hunch::token> encode(std::string_view any, bool add_bos) const override {
    const std::string text = well_formed(any);
    std::vector<hunch::token> out;
    if (add_bos) { out = front_; }
    for (const added_tokens::part& part : as_written_.parts(text)) {
      if (part.id != hunch::no_token) {
        out.push_back(part.id);
      } else {
        encode_between(std::string(part.at.of(text)), part.at.begin == 0, out);
      }
    }
    return out;
  }

 private:
  void encode_between(std::string part, bool first, std::vector<hunch::token>& out) const {
    const std::string text = normalized_(std::move(part));
    for (const added_tokens::part& inner : as_normalized_.parts(text)) {
      if (inner.id != hunch::no_token) {
        out.push_back(inner.id);
        continue;
      }
      pieces_of_text some(std::string(inner.at.of(text)), first && inner.at.begin == 0);
      cut_(some);
      model_->encode(some, out);
    }
  }

  void read_bytes(const config_object& of) {
    if (!of.has("decoder")) {
      of.refuse("decoder", "is missing: nothing says how tokens are joined");
    }
    const decoding decode(of.child("decoder"));
    bytes.reserve(pieces.size());
    for (const std::string& piece : pieces) { bytes.push_back(decode(piece)); }
    drops_first_space = decode.drops_first_space();
  }

  void read_added(const config_object& of) {
    std::vector<added_token> written, normalized;
    const std::vector<config_object> list = objects(of, "added_tokens");
    for (const config_object& one : list) {
      if (one.boolean("single_word", false)) {
        one.refuse("single_word", "is true; not supported, false is expected");
      }
      added_token token{.content = one.string("content"),
                        .id = one.integer("id", config::max_tokens - 1),
                        .takes_left = one.boolean("lstrip", false),
                        .takes_right = one.boolean("rstrip", false)};
      const auto at = static_cast<std::size_t>(token.id);
      if (!is_dense(at, model_->spelled().by_token().size() + list.size())) {
        one.refuse("id", "is " + std::to_string(at) + ", far beyond the other tokens");
      }
      if (at >= pieces.size()) {
        pieces.resize(at + 1);
        bytes.resize(at + 1);
      }
      if (!pieces[at].empty() && pieces[at] != token.content) {
        one.refuse("id", "is that of " + pieces[at] + ", too");
      }
      pieces[at] = token.content;
      const bool special = one.boolean("special", false);
      bytes[at] = special ? std::string() : token.content;
      if (one.boolean("normalized", !special)) {
        token.content = normalized_(std::move(token.content));
        normalized.push_back(std::move(token));
      } else {
        written.push_back(std::move(token));
      }
    }
    as_normalized_ = added_tokens(std::move(normalized));
    as_written_ = added_tokens(std::move(written));
  }

  /// What stands in front of a text. What a template puts after it is left out: a text that is to
  /// be continued has no end.
  void read_front(const config_object& of) {
    for (const config_object& part : in_sequence(of, "processors")) {
      const std::string type = part.string("type");
      if (type == "ByteLevel") { continue; }  // moves offsets only
      if (type != "TemplateProcessing") {
        refuse_type(part, "ByteLevel, TemplateProcessing and Sequence");
      }
      has_template_ = true;
      for (const config_object& item : objects(part, "single")) {
        if (item.has("Sequence")) { break; }
        const std::string name = item.child("SpecialToken").string("id");
        const nlohmann::json& ids = part.child("special_tokens").child(name).at("ids");
        if (!ids.is_array()) { part.refuse("special_tokens", "has no list of ids for " + name); }
        for (const nlohmann::json& id : ids) {
          if (!id.is_number_integer() || id < 0 || id >= pieces.size()) {
            part.refuse("special_tokens", "has an id for " + name + " that is no token");
          }
          front_.push_back(id.get<hunch::token>());
        }
      }
    }
  }

  /// Whether the class that `tokenizer_config.json` names puts the beginning of text in front of a
  /// text by itself, where no template says what does: a Llama's.
  static bool puts_bos(const std::filesystem::path& directory) {
    const std::filesystem::path about = directory / "tokenizer_config.json";
    if (!std::filesystem::exists(about)) { return false; }
    const nlohmann::json values = parsed_json(about);
    const config_object of(values, about.string());
    constexpr const char* key = "tokenizer_class";
    const std::string name = of.has(key) ? of.string(key) : "";
    const bool is_llama = name == "LlamaTokenizer" || name == "LlamaTokenizerFast";
    return is_llama && of.boolean("add_bos_token", true);
  }

  using pieces_of_text = text::pieces;

  normalizer normalized_;
  pre_tokenizer cut_;
  std::unique_ptr<subwords> model_;
  added_tokens as_written_, as_normalized_;
  std::vector<hunch::token> front_;
  bool has_template_ = false;
};

}  // namespace

std::unique_ptr<loaded_tokenizer> tokenizer_of_json(const nlohmann::json& values,
                                                    const std::filesystem::path& file) {
  return std::make_unique<json_tokenizer>(config_object(values, file.string()), file);
}

std::unique_ptr<loaded_tokenizer> load_tokenizer_json(const std::filesystem::path& file) {
  return tokenizer_of_json(parsed_json(file, max_tokenizer_bytes), file);
}

}  // namespace engine::text
