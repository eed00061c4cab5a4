// SPDX-License-Identifier: Apache-2.0
#include <engine/text/pre_tokenizer.hpp>

#include <string>
#include <string_view>
#include <utility>

#include <engine/text/byte_level.hpp>
#include <engine/text/json_fields.hpp>
#include <engine/text/metaspace.hpp>

namespace engine::text {
namespace {

using step = std::function<void(pieces&)>;

/// What GPT-2 cuts text by (Radford et al. 2019); ByteLevel's own.
constexpr std::string_view words_of_gpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

step cut(pattern by, split_behavior behavior, bool invert = false) {
  return [by = std::move(by), behavior, invert](pieces& of) { split(of, by, behavior, invert); };
}

split_behavior read_behavior(const config_object& described) {
  const std::string name = described.string("behavior");
  if (name == "Isolated") { return split_behavior::isolated; }
  if (name == "Contiguous") { return split_behavior::contiguous; }
  if (name == "MergedWithPrevious") { return split_behavior::merged_with_previous; }
  if (name == "MergedWithNext") { return split_behavior::merged_with_next; }
  if (name == "Removed") { return split_behavior::removed; }
  described.refuse("behavior", "is " + name +
                                   "; supported are Isolated, Contiguous, MergedWithPrevious, "
                                   "MergedWithNext and Removed");
}

void read_byte_level(const config_object& described, std::vector<step>& out) {
  if (described.boolean("add_prefix_space", true)) {
    out.emplace_back([](pieces& of) {
      rewrite(of, [](std::string_view piece, bool) {
        std::string out = piece.starts_with(' ') ? "" : " ";
        return out += piece;
      });
    });
  }
  if (described.boolean("use_regex", true)) {
    out.push_back(cut(pattern::expression(words_of_gpt2), split_behavior::isolated));
  }
  out.emplace_back(
      [](pieces& of) { rewrite(of, [](std::string_view piece, bool) { return spelled(piece); }); });
}

void read_metaspace(const config_object& described, std::vector<step>& out) {
  const metaspace sign(described);
  out.emplace_back([sign](pieces& of) {
    rewrite(of, [&](std::string_view piece, bool first) { return sign.written(piece, first); });
  });
  if (described.boolean("split", true)) {
    out.push_back(cut(pattern::literal(sign.sign), split_behavior::merged_with_next));
  }
}

}  // namespace

pre_tokenizer::pre_tokenizer(const config_object& described) {
  for (const config_object& part : in_sequence(described, "pretokenizers")) {
    const std::string type = part.string("type");
    if (type == "ByteLevel") {
      read_byte_level(part, steps_);
    } else if (type == "Split") {
      steps_.push_back(cut(read_pattern(part), read_behavior(part), part.boolean("invert", false)));
    } else if (type == "Digits") {
      const bool single = part.boolean("individual_digits", false);
      steps_.push_back(cut(pattern::expression("\\p{N}"),
                           single ? split_behavior::isolated : split_behavior::contiguous));
    } else if (type == "Punctuation") {
      steps_.push_back(cut(pattern::expression(R"([!-/:-@\[-`{-~\p{P}])"),
                           part.has("behavior") ? read_behavior(part) : split_behavior::isolated));
    } else if (type == "Metaspace") {
      read_metaspace(part, steps_);
    } else {
      refuse_type(part, "ByteLevel, Split, Digits, Punctuation, Metaspace and Sequence");
    }
  }
}

void pre_tokenizer::operator()(pieces& of) const {
  for (const auto& step : steps_) { step(of); }
}

}  // namespace engine::text
