// SPDX-License-Identifier: Apache-2.0
#include "generate/ranking.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include <engine/vocabulary.hpp>
#include <hunch/tools/layout_file.hpp>

#include "generate/text_ranking.hpp"

namespace generate {
namespace {

/// Of the shipped texts.
hunch::vocab_layout ranking_of_shipped_texts(const engine::tokenizer& text,
                                             std::int32_t vocab_size) {
  constexpr std::size_t bytes_of_each = 1 << 16;
  return ranking_of(text_files("--model", HUNCH_MODELS "/heldout"), bytes_of_each, text,
                    vocab_size);
}

/// Whether a file was made for what has this fingerprint.
bool says(const std::string& file, const char* what, std::uint64_t fingerprint) {
  return hunch::tensor_file::read(file).about[what] == hunch::fingerprint_text(fingerprint);
}

}  // namespace

std::optional<cluster_files> clusters_for(const arguments& a, const hunch::made_for& head) {
  if (!a.layout.empty()) { return cluster_files{a.layout, a.router}; }
  const cluster_files shipped{HUNCH_MODELS "/layout.safetensors",
                              HUNCH_MODELS "/router.safetensors"};
  const bool fits = says(shipped.layout, "head", head.head);
  return fits ? std::optional(shipped) : std::nullopt;
}

std::optional<routed_clusters> load_clusters(const arguments& a, const hunch::made_for& head,
                                             std::int32_t context_width, std::int32_t early_width) {
  const auto files = a.selector == selector_kind::clustered ? clusters_for(a, head) : std::nullopt;
  if (!files) { return std::nullopt; }
  hunch::vocab_layout layout = hunch::load_layout(files->layout, head);
  auto router = hunch::router::weights::load(files->router, layout, head, files->layout);
  if (router.inputs != context_width && (early_width == 0 || router.inputs != early_width)) {
    const std::string early =
        early_width == 0 ? "" : ", or " + std::to_string(early_width) + " before its pass";
    throw std::runtime_error(files->router + ": reads contexts of " +
                             std::to_string(router.inputs) + " numbers, those of " + head.name +
                             " have " + std::to_string(context_width) + early);
  }
  return routed_clusters{std::move(layout), std::move(router)};
}

hunch::vocab_layout ranking_for(const arguments& a, const engine::tokenizer& text,
                                const hunch::made_for& head) {
  if (!a.layout.empty()) { return hunch::load_layout(a.layout, head); }
  const char* const shipped = HUNCH_MODELS "/frequency.safetensors";
  const bool fits = says(shipped, "vocabulary", text.fingerprint());
  std::string otherwise;
  if (a.selector == selector_kind::clustered) {
    otherwise = head.name +
                ": the shipped clusters are for another head: drafts are from the most frequent "
                "tokens" +
                (fits ? "" : ", by a ranking that is made of the shipped texts") +
                " (--layout and --router name other clusters)";
  } else if (!fits) {
    otherwise = a.model +
                ": the shipped ranking is for another vocabulary: one is made of the shipped texts "
                "(--layout names another, --selector full needs none)";
  }
  if (!otherwise.empty()) { std::fprintf(stderr, "generate: %s\n", otherwise.c_str()); }
  return fits ? hunch::load_layout(shipped, head) : ranking_of_shipped_texts(text, head.vocab_size);
}

engine::tokenizer tokenizer_of_masked(const arguments& a, const engine::masked_config& shape) {
  const bool own = engine::tokenizer::file_in(a.model).has_value();
  if (!own && shape.model.vocabulary == 0) {
    throw std::runtime_error(a.model +
                             ": has no tokenizer.json, tokenizer.model or vocab.json, and its "
                             "config.json does not say which one it was trained with: put it "
                             "there");
  }
  engine::tokenizer text(own ? a.model : a.tokenizer);
  engine::check_tokenizer(text, own ? a.model : a.tokenizer, a.model, shape.model);
  if (text.mask() != hunch::no_token && text.mask() != shape.mask_token) {
    throw std::runtime_error(a.model + ": \"mask_token_id\" is " +
                             std::to_string(shape.mask_token) + " in its config.json, and the " +
                             "mask of " + text.file().string() + " is " +
                             std::to_string(text.mask()));
  }
  return text;
}

}  // namespace generate
