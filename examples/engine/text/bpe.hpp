// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <engine/text/spellings.hpp>
#include <engine/text/subwords.hpp>

namespace engine::text {

/// Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): a piece begins as its characters,
/// and the pair that was learned first is merged, the leftmost one of several, until there is none.
/// A piece of n characters costs O(n log n), and one that no merge can reach across, as a text of
/// many words is where tokens begin with the sign for a space, O(n log m), m being the longest
/// part.
class bpe final : public subwords {
 public:
  struct merge {
    hunch::token left = hunch::no_token;
    hunch::token right = hunch::no_token;
    hunch::token joined = hunch::no_token;
  };
  struct options {
    bool ignore_merges = false;  ///< a piece that is a token is that
    bool byte_fallback = false;  ///< a character that is no token is its bytes, if those are
    bool fuse_unknown = false;   ///< unknown characters in a row are one token
    hunch::token unknown = hunch::no_token;  ///< what others are; none: nothing
  };

  /// \param merges  in the order in which they were learned
  bpe(spellings tokens, const std::vector<merge>& merges, const options& how);

  void encode(const pieces& of, std::vector<hunch::token>& out) const override;
  const spellings& spelled() const override { return tokens_; }

 private:
  struct ranked {
    std::int32_t rank = 0;
    hunch::token joined = hunch::no_token;
  };
  class word;

  void join_ends(const merge& one);
  const ranked* rank_of(hunch::token left, hunch::token right) const;
  void characters(std::string_view piece, std::vector<hunch::token>& out) const;

  spellings tokens_;
  options how_;
  std::unordered_map<std::uint64_t, ranked> ranks_;
  std::unordered_set<std::uint64_t> joined_ends_;  ///< of tokens of one character: see `join_ends`
  std::vector<hunch::token> of_letter_;  ///< of code points below U+0200, of which texts are full
};

}  // namespace engine::text
