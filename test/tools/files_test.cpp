// SPDX-License-Identifier: Apache-2.0

// Files of layouts and routers: what they were made for, and what is said of every damage.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>
#include <hunch/vocab/layouts.hpp>
#include "../support/hash.hpp"

namespace hunch::test {
namespace {

/// A file that is there while a test runs.
struct scratch_file {
  std::filesystem::path path;
  explicit scratch_file(const char* name)
      : path(std::filesystem::temp_directory_path() /
             (std::string("hunch_layout_test_") + name + std::to_string(std::rand()))) {}
  ~scratch_file() { std::filesystem::remove(path); }

  std::string bytes() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }
};

constexpr std::int32_t vocab = 7;
constexpr std::int32_t width = 4;

/// Weights of a head, by token.
std::vector<float> some_weights(std::uint64_t seed) {
  dice random{seed};
  std::vector<float> out(static_cast<std::size_t>(vocab * width));
  for (float& w : out) { w = static_cast<float>(2.0 * random.unit() - 1.0); }
  return out;
}

std::uint64_t fingerprint_of(const std::vector<float>& weights) {
  return head_fingerprint(kernel::head_weights<float>{weights.data(), vocab, width});
}

template <class Load>
std::string failure_of(const Load& load) {
  try {
    load();
    return "";
  } catch (const std::exception& error) { return error.what(); }
}

bool names(const std::string& message, const std::vector<std::string>& words) {
  return std::ranges::all_of(
      words, [&](const std::string& w) { return message.find(w) != std::string::npos; });
}

vocab_layout some_clusters() {
  const token core[] = {4};
  return clustered_layout(std::vector<std::int32_t>{2, 0, 2, 5, 0, 2, 5}, core);
}

TEST_CASE("copies of a head have one fingerprint, whatever they are stored as") {
  const std::vector<float> weights = some_weights(1);
  const std::uint64_t expected = fingerprint_of(weights);
  CHECK(expected != 0);

  std::vector<bfloat16> narrow;
  for (const float w : weights) { narrow.push_back(to_bfloat16(w)); }
  CHECK(head_fingerprint(kernel::head_weights<bfloat16>{narrow.data(), vocab, width}) == expected);

  // Bytes with factors, and their products.
  std::vector<std::int8_t> bytes;
  std::vector<float> scale, products;
  for (std::int32_t r = 0; r < vocab; ++r) {
    scale.push_back(0.01f * static_cast<float>(r + 1));
    for (std::int32_t k = 0; k < width; ++k) {
      bytes.push_back(static_cast<std::int8_t>(11 * r - 29 * k));
      products.push_back(static_cast<float>(bytes.back()) * scale.back());
    }
  }
  const kernel::head_weights<std::int8_t> stored{bytes.data(), vocab, width, scale.data()};
  CHECK(head_fingerprint(stored) == fingerprint_of(products));

  // In another order, and padded.
  const vocab_layout layout = some_clusters();
  std::vector<float> permuted;
  for (std::int32_t r = 0; r < vocab; ++r) {
    const auto* const row = weights.data() + layout.row_token()[r] * width;
    permuted.insert(permuted.end(), row, row + width);
    permuted.resize(permuted.size() + 3);
  }
  const kernel::head_weights<float> reordered{permuted.data(), vocab, width + 3};
  CHECK(head_fingerprint(reordered, &layout) == expected);
  CHECK(head_fingerprint(reordered) != expected);
  for (const std::int32_t rows : {vocab - 1, vocab + 1}) {
    const kernel::head_weights<float> other{permuted.data(), rows, width + 3};
    try {
      head_fingerprint(other, &layout);
      FAIL_CHECK("not refused");
    } catch (const std::invalid_argument& e) {
      const std::string what = e.what();
      CHECK(what.find(std::to_string(rows)) != std::string::npos);
      CHECK(what.find(std::to_string(vocab)) != std::string::npos);
    }
  }
}

TEST_CASE("any weight and any order of tokens make another head") {
  const std::vector<float> weights = some_weights(1);
  const std::uint64_t expected = fingerprint_of(weights);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    std::vector<float> other = weights;
    other[i] = -other[i];
    CHECK(fingerprint_of(other) != expected);
    other[i] = 1.01f * weights[i];
    CHECK(fingerprint_of(other) != expected);
    other[i] = 0.0f;
    CHECK(fingerprint_of(other) != expected);
  }
  std::vector<float> other = weights;
  std::swap_ranges(other.begin(), other.begin() + width, other.begin() + width);
  CHECK(fingerprint_of(other) != expected);
  other = weights;
  std::swap(other[0], other[1]);
  CHECK(fingerprint_of(other) != expected);
}

TEST_CASE("vocabularies are told apart by what tokens stand for") {
  const auto of = [](const std::vector<std::string>& pieces) {
    return vocabulary_fingerprint(
        static_cast<std::int32_t>(pieces.size()),
        [&](token t) -> const std::string& { return pieces[static_cast<std::size_t>(t)]; });
  };
  const std::vector<std::vector<std::string>> all{
      {"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}, {"a", "b", ""}, {"a"}, {}};
  for (const auto& a : all) {
    for (const auto& b : all) { CHECK((of(a) == of(b)) == (&a == &b)); }
  }
}

TEST_CASE("fingerprints are spelled in one way") {
  CHECK(fingerprint_text(0) == "0x0000000000000000");
  CHECK(fingerprint_text(0xfedcba9876543210u) == "0xfedcba9876543210");
  for (const std::uint64_t x : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    CHECK(fingerprint_of_text(fingerprint_text(x)) == x);
  }
  for (const char* text :
       {"", "0", "3825802444398085335", "0x", "0xfedcba987654321", "0xfedcba98765432100",
        "0xfedcba987654321g", "0x-edcba9876543210", "fedcba9876543210ab"}) {
    CHECK_FALSE(fingerprint_of_text(text).has_value());
  }
}

TEST_CASE("layouts are saved and loaded, and those of another head refused") {
  const scratch_file file("saved");
  const vocab_layout layout = some_clusters();
  const made_for own{vocab, 17, fingerprint_of(some_weights(1)), "models/own"};
  save_layout(file.path, layout, own, {{"made by", "a \"test\""}});
  const vocab_layout loaded = load_layout(file.path, own);
  CHECK(loaded.fingerprint() == layout.fingerprint());
  CHECK(loaded.clusters() == 3);
  CHECK(std::equal(loaded.cluster_begin(), loaded.cluster_begin() + 4, layout.cluster_begin()));
  CHECK(tensor_file::read(file.path).about.at("made by") == "a \"test\"");

  const auto refused = [&](made_for other) {
    other.name = "models/other";
    return failure_of([&] { load_layout(file.path, other); });
  };
  made_for other = own;
  other.head = fingerprint_of(some_weights(2));
  CHECK(names(refused(other), {file.path.string(), "models/other", "another head",
                               fingerprint_text(own.head), fingerprint_text(other.head)}));
  other = own;
  other.vocabulary = 18;
  CHECK(names(refused(other), {file.path.string(), "models/other", "another vocabulary",
                               fingerprint_text(17), fingerprint_text(18)}));
  other = own;
  other.vocab_size = 8;
  CHECK(names(refused(other),
              {file.path.string(), "models/other", "vocabulary of 7 tokens, not of 8"}));
  // Either of the two is enough, and one of them is needed.
  other = own;
  other.vocabulary = 0;
  CHECK(refused(other).empty());
  other = own;
  other.head = 0;
  CHECK(refused(other).empty());
  other.vocabulary = 0;
  CHECK(names(refused(other), {file.path.string(), "models/other", "nothing to tell"}));
}

TEST_CASE("a ranking of text is for every head of its vocabulary, and for no other") {
  const scratch_file file("ranking");
  save_layout(file.path, vocab_layout::permuted({3, 1}, vocab), {vocab, 17, 0, "text"});
  const made_for a{vocab, 17, fingerprint_of(some_weights(1)), "a"};
  made_for b{vocab, 17, fingerprint_of(some_weights(2)), "b"};
  CHECK(load_layout(file.path, a).head_rows() == 2);
  CHECK(load_layout(file.path, b).head_rows() == 2);
  CHECK(load_layout(file.path, b).clusters() == 0);
  b.vocabulary = 18;
  CHECK(names(failure_of([&] { load_layout(file.path, b); }), {"another vocabulary"}));
  b.vocabulary = 0;
  CHECK(names(failure_of([&] { load_layout(file.path, b); }), {"nothing to tell"}));
}

TEST_CASE("files that would not say what they were made for are not written") {
  const scratch_file file("unsaid");
  const vocab_layout layout = some_clusters();
  CHECK_THROWS_AS(save_layout(file.path, layout, {vocab, 0, 0, "?"}), std::invalid_argument);
  CHECK_THROWS_AS(save_layout(file.path, layout, {vocab + 1, 1, 1, "?"}), std::invalid_argument);
  const auto router = router::weights::sized(4, 5, 2);  // and the layout has three clusters
  CHECK_THROWS_AS(router.save(file.path, layout, {vocab, 1, 1, "?"}), std::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(file.path));
}

TEST_CASE("routers are loaded for their layout and head only") {
  const scratch_file file("router");
  const vocab_layout layout = some_clusters();
  const made_for own{vocab, 17, fingerprint_of(some_weights(1)), "models/own"};
  router::weights saved = router::weights::sized(4, 5, 3);
  saved.second[2] = 0.25f;
  saved.save(file.path, layout, own);
  CHECK(router::weights::load(file.path, layout, own).second == saved.second);

  const auto refused = [&](const vocab_layout& of, const made_for& head) {
    return failure_of([&] { router::weights::load(file.path, of, head, "b.safetensors"); });
  };
  // As many clusters of the same rows, with other bounds; and of other rows.
  const vocab_layout moved = layout.clustered({1, 3, 5, vocab});
  CHECK(moved.order() == layout.order());
  CHECK(moved.clusters() == layout.clusters());
  CHECK(names(refused(moved, own), {file.path.string(), "b.safetensors", "another layout"}));
  const token core[] = {4};
  const auto other = clustered_layout(std::vector<std::int32_t>{0, 1, 2, 5, 0, 2, 5}, core);
  CHECK(names(refused(other, own), {file.path.string(), "b.safetensors", "another layout"}));
  made_for head = own;
  head.head = fingerprint_of(some_weights(2));
  CHECK(names(refused(layout, head), {file.path.string(), "models/own", "another head"}));
  head = own;
  head.vocabulary = 18;
  CHECK(names(refused(layout, head), {file.path.string(), "another vocabulary"}));
}

TEST_CASE("files that say nothing of what they were made for are refused") {
  const scratch_file file("older");
  const made_for own{5, 17, 3, "models/own"};
  const auto layout = clustered_layout(std::vector<std::int32_t>{0, 1, 1, 0, 2});
  const auto loaded = [&] { return failure_of([&] { load_layout(file.path, own); }); };
  // As layouts were written before: numbers, and no vocabulary.
  tensor_file older;
  older.about = {{"format", "hunch.vocab_layout"}, {"vocab_size", "5"}, {"head", "3"}};
  older.put<std::int32_t>("row_token", {5}, {0, 1, 2, 3, 4});
  older.write(file.path);
  CHECK(names(loaded(), {file.path.string(), "does not say for which vocabulary", "make it anew"}));
  older.about["vocabulary"] = "17";
  older.write(file.path);
  CHECK(names(loaded(), {file.path.string(), "'vocabulary' is no fingerprint"}));
  older.about.clear();
  older.write(file.path);
  CHECK(names(loaded(), {file.path.string(), "does not say for which vocab_size"}));

  tensor_file router;
  const auto sized = router::weights::sized(4, 5, 3);
  router.put<float>("first", {5, 4}, sized.first);
  router.put<float>("first_bias", {5}, sized.first_bias);
  router.put<float>("second", {3, 5}, sized.second);
  router.put<float>("second_bias", {3}, sized.second_bias);
  router.about = {{"format", "hunch.router"}, {"head", "3"}};
  const auto load = [&] {
    router.write(file.path);
    return failure_of([&] { router::weights::load(file.path, layout, own); });
  };
  CHECK(names(load(), {file.path.string(), "does not say for which vocab_size"}));
  own.put(router);
  CHECK(names(load(), {file.path.string(), "does not say for which layout"}));
  router.about["layout"] = fingerprint_text(layout.fingerprint());
  CHECK(load().empty());
}

TEST_CASE("files that are no layouts are refused") {
  const scratch_file file("broken");
  const made_for own{5, 17, 3, "models/own"};
  const auto loaded = [&] { return failure_of([&] { load_layout(file.path, own); }); };
  CHECK(names(loaded(), {"cannot be read"}));
  CHECK(names(failure_of([&] { load_layout(std::filesystem::temp_directory_path(), own); }),
              {"cannot be read"}));
  save_layout(file.path, clustered_layout(std::vector<std::int32_t>{0, 1, 1, 0, 2}), own);
  const std::string whole = file.bytes();
  const auto written = [&](const std::string& bytes) {
    file.write(bytes);
    return loaded();
  };
  CHECK(written(whole).empty());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CHECK_FALSE(written(whole.substr(0, n)).empty());
  }
  // Every byte of the header changed: an error or a layout, and nothing else.
  for (std::size_t i = 0; i + 40 < whole.size(); ++i) {
    for (const char c : {'\0', '9', '"', '}', '\xff'}) {
      std::string changed = whole;
      changed[i] = c;
      written(changed);
    }
  }
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string changed = whole;
    changed.replace(changed.find(what), what.size(), by);
    std::uint64_t length = 0;
    std::memcpy(&length, changed.data(), sizeof length);
    length += by.size() - what.size();
    std::memcpy(changed.data(), &length, sizeof length);
    return written(changed);
  };
  CHECK(names(replaced("\"vocab_size\":\"5\"", "\"vocab_sizf\":\"5\""), {"vocab_size"}));
  CHECK(names(replaced("\"vocab_size\":\"5\"", "\"vocab_size\":\"x\""), {"is not a number"}));
  CHECK(names(replaced("row_token", "row_tokem"), {"is not a layout"}));
  CHECK(names(replaced("I32", "F32"), {"is F32, not I32"}));
  // Tensors that lie in the same bytes, which would take more memory than the file has.
  const std::string entry = "\"row_token\":{\"dtype\":\"I32\",\"shape\":[5],\"data_offsets\":[";
  const auto at = whole.find(entry);
  REQUIRE(at != std::string::npos);
  const std::string again = whole.substr(at, whole.find('}', at) + 1 - at);
  const auto with = [&](const std::string& name) {
    std::string more = again;
    more.replace(1, 9, name);
    return replaced(again, again + "," + more);
  };
  CHECK(names(with("row_again"), {file.path.string(), "overlap"}));
  CHECK_FALSE(with("row_token").empty());
  // Sizes that no memory holds: by name, and at once.
  CHECK(names(replaced("\"shape\":[5]", "\"shape\":[2147483647]"), {"row_token"}));
  CHECK(names(replaced("\"vocab_size\":\"5\"", "\"vocab_size\":\"2147483647\""),
              {"2147483647 tokens, not of 5"}));
  file.write(whole);
  std::filesystem::resize_file(file.path, tensor_file::max_bytes + 1);  // a hole: no bytes on disk
  CHECK(names(loaded(), {file.path.string(), "no layout and no router"}));
}

}  // namespace
}  // namespace hunch::test
